//! Checks of file names from archives and listings: only plain relative ones become paths.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Longest path and path component that Linux takes, in bytes.
const MAX_PATH: usize = 3000;
const MAX_COMPONENT: usize = 255;

/// The relative path that a name means, or why it may not become one.
///
/// `.` and empty components go; `..`, absolute names, drive letters, NUL bytes and names that no file
/// system takes are refused.
pub(crate) fn relative(name: &[u8], backslash_separates: bool) -> Result<PathBuf, &'static str> {
    if name.contains(&0) {
        return Err("its name holds a NUL byte");
    }
    let separates = |byte: &u8| *byte == b'/' || (backslash_separates && *byte == b'\\');
    if name.first().is_some_and(separates) {
        return Err("its name is absolute");
    }
    if backslash_separates && name.get(1) == Some(&b':') && name[0].is_ascii_alphabetic() {
        return Err("its name has a drive letter");
    }
    if name.len() > MAX_PATH {
        return Err("its name is too long");
    }
    let mut path = PathBuf::new();
    for component in name.split(separates) {
        match component {
            b"" | b"." => {}
            b".." => return Err("its name leaves the folder (`..`)"),
            long if long.len() > MAX_COMPONENT => return Err("its name is too long"),
            plain => path.push(OsStr::from_bytes(plain)),
        }
    }
    if path.as_os_str().is_empty() { Err("its name is empty") } else { Ok(path) }
}

/// What a link's text means from the place of the link, inside the same folder.
pub(crate) fn link_target(link: &Path, text: &[u8]) -> Result<PathBuf, &'static str> {
    if text.is_empty() || text.contains(&0) || text.first() == Some(&b'/') {
        return Err("a link out of the archive");
    }
    let mut path = link.parent().map(Path::to_owned).unwrap_or_default();
    for component in text.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." if path.pop() => {}
            b".." => return Err("a link out of the archive"),
            plain => path.push(OsStr::from_bytes(plain)),
        }
    }
    Ok(path)
}

/// Lower-case hexadecimal of the given length: what may name a blob or a commit.
pub(crate) fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// `owner/name` with the characters that the hub allows.
pub(crate) fn is_repo(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part.len() <= 96
            && !part.starts_with(['.', '-'])
            && !part.contains("..")
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    };
    text.split_once('/').is_some_and(|(owner, name)| part(owner) && part(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_relative_names_become_paths() {
        for (name, path) in
            [("a.mp4", "a.mp4"), ("./a//b/./c.mp4", "a/b/c.mp4"), ("a/...", "a/..."), ("a\\b", "a\\b")]
        {
            assert_eq!(relative(name.as_bytes(), false).unwrap(), Path::new(path), "{name}");
        }
        assert_eq!(relative(b"a\\b.mp4", true).unwrap(), Path::new("a/b.mp4"));
        assert_eq!(relative(b"caf\xe9.mp4", false).unwrap().as_os_str().as_bytes(), b"caf\xe9.mp4");
    }

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        let long = "x".repeat(256);
        for name in ["../a", "a/../../b", "a/..", "/etc/passwd", "", ".", "a\0b", &long] {
            assert!(relative(name.as_bytes(), false).is_err(), "{name:?}");
        }
        for name in ["..\\a", "a\\..\\..\\b", "\\a", "C:\\a", "c:a", "\\\\host\\share"] {
            assert!(relative(name.as_bytes(), true).is_err(), "{name:?}");
        }
    }

    #[test]
    fn link_targets_are_resolved_inside_the_folder() {
        let at = |text: &str| link_target(Path::new("a/link"), text.as_bytes());
        assert_eq!(at("b").unwrap(), Path::new("a/b"));
        assert_eq!(at("../c/./d").unwrap(), Path::new("c/d"));
        for text in ["/etc/passwd", "../../x", "", "../b/../../../x"] {
            assert!(at(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn identifiers_of_the_hub() {
        assert!(is_repo("lmms-lab/Video-MME") && is_repo("a.b/c_d"));
        for wrong in ["", "a", "a/b/c", "../b", "a/..", "a/b?x", "a b/c", "/a", "a/"] {
            assert!(!is_repo(wrong), "{wrong:?}");
        }
        assert!(is_hex("0123456789abcdef", 16));
        assert!(!is_hex("../456789abcdef0", 16) && !is_hex("ABCDEF", 6) && !is_hex("ab", 3));
    }

    proptest! {
        #[test]
        fn no_name_leaves_the_folder(name in proptest::collection::vec(any::<u8>(), 0..40), backslash: bool) {
            if let Ok(path) = relative(&name, backslash) {
                let plain = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
                prop_assert!(plain, "{:?} became {:?}", name, path);
            }
        }
    }
}
