//! Files that others provide, regular ones only and up to a size, and files that are written whole.
//!
//! Opening a named pipe waits for a writer for ever, and a device such as `/dev/zero` never ends.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::nearest;

/// Follows the name of a file that is not yet whole, before the number of the process.
pub(crate) const TEMPORARY: &str = ".tmp";

/// Before a text in UTF-8, it says nothing.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Why a file of fields that a user writes cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FieldsError {
    /// It cannot be opened or is too large.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not TOML or JSON, lacks a field, or has a wrong or unknown one.
    #[error("{path}: {message}{hint}", path = .path.display(), hint = nearest::hint(.nearest.as_deref()))]
    Format {
        /// The file.
        path: PathBuf,
        /// The field and what is wrong.
        message: String,
        /// For an unknown field, the nearest known one.
        nearest: Option<String>,
    },
}

impl FieldsError {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    pub(crate) fn format(path: &Path, message: String) -> Self {
        Self::Format { path: path.to_owned(), nearest: nearest::expected_field(&message), message }
    }
}

/// Opens a regular file.
///
/// # Errors
/// It cannot be opened, or is a folder, pipe, socket or device.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Before opening, which may already wait.
    check_regular(&std::fs::metadata(path)?)?;
    let file = File::open(path)?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// As [`open_regular`], or it is larger.
pub fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // The length that is reported may be smaller than what comes.
    open_regular(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let message = format!("larger than the limit of {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Reads a text of at most `limit` bytes, without the byte order mark that some editors set before it.
///
/// # Errors
/// As [`read_limited`], or it is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    let mut bytes = read_limited(path, limit)?;
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    let utf16 = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let found = if utf16 { "found UTF-16".to_owned() } else { format!("line {line} is not") };
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("expected text in UTF-8, {found}; save it as UTF-8"),
        )
    })
}

/// Writes a file of ours so that it is there whole or not at all, also after a power cut. A link that has its name is
/// replaced, never written through.
///
/// # Errors
/// It cannot be written, or a folder, pipe, socket or device has its name.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if there.is_symlink() => {}
        Ok(there) => check_regular(&there)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let temporary = beside(path);
    // What a killed process of the same number left.
    let _ = std::fs::remove_file(&temporary);
    let written = File::create_new(&temporary)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&temporary, path));
    if let Err(error) = written {
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    // A file that is named without its folder lies in the working folder.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The rename itself must survive, too; a file system that cannot sync a folder is not worth failing for.
    let _ = File::open(parent).and_then(|folder| folder.sync_all());
    Ok(())
}

/// Writes a file that the user names as [`write_atomic`] does; behind a link, the file that it leads to.
///
/// # Errors
/// As [`write_atomic`], or the link leads to nothing.
pub fn write_named(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match std::fs::metadata(path) {
        Ok(there) => {
            check_regular(&there)?;
            write_atomic(&path.canonicalize()?, bytes)
        }
        Err(_) if path.is_symlink() => {
            Err(io::Error::new(io::ErrorKind::NotFound, "a link to a file that does not exist"))
        }
        Err(_) => write_atomic(path, bytes),
    }
}

/// Makes a folder of ours within an output folder. A link that has its name is replaced, never written through.
///
/// # Errors
/// It cannot be made, or something else than a folder has its name.
pub fn make_folder(path: &Path) -> io::Result<()> {
    if path.is_symlink() {
        // Of two that make it at once, one is late.
        let _ = std::fs::remove_file(path);
    }
    match std::fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let is_folder = std::fs::symlink_metadata(path)?.is_dir();
            if is_folder { Ok(()) } else { Err(error) }
        }
        made => made,
    }
}

/// Name of a file before it is whole; `journal` removes those of killed processes.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!("{TEMPORARY}{}", std::process::id()));
    path.with_file_name(name)
}

fn check_regular(metadata: &std::fs::Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let kind = if metadata.is_dir() { "a folder" } else { "a pipe, socket or device" };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{kind}, not a regular file")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, b"12345").unwrap();
        assert_eq!(read_limited(&file, 5).unwrap(), b"12345");
        assert!(read_limited(&file, 4).unwrap_err().to_string().contains("limit of 4 bytes"));
        assert!(read_limited(dir.path(), 9).unwrap_err().to_string().contains("a folder"));
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for endless in [pipe.as_path(), Path::new("/dev/zero")] {
            assert!(read_limited(endless, 9).unwrap_err().to_string().contains("not a regular file"));
        }
        assert_eq!(read_limited(&dir.path().join("none"), 9).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn text_is_read_without_its_byte_order_mark_and_in_utf_8_only() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let read = |bytes: &[u8]| {
            std::fs::write(&file, bytes).unwrap();
            read_text(&file, 99).map_err(|error| error.to_string())
        };
        assert_eq!(read(b"\xef\xbb\xbf{}").unwrap(), "{}");
        assert_eq!(read("\u{e4}".as_bytes()).unwrap(), "\u{e4}");
        assert!(read(b"\xff\xfe{\0").unwrap_err().contains("found UTF-16"));
        assert!(read(b"a\nb\xff").unwrap_err().contains("line 2 is not"));
    }

    #[test]
    fn a_file_of_ours_replaces_a_link_and_never_a_device_or_pipe() {
        let dir = tempfile::tempdir().unwrap();
        let (of_others, ours) = (dir.path().join("of_others"), dir.path().join("ours"));
        std::fs::write(&of_others, "theirs").unwrap();
        std::os::unix::fs::symlink(&of_others, &ours).unwrap();
        // Where the temporary file would be, too.
        std::os::unix::fs::symlink(&of_others, beside(&ours)).unwrap();
        write_atomic(&ours, b"new").unwrap();
        assert!(!ours.is_symlink() && !beside(&ours).exists());
        assert_eq!(std::fs::read(&of_others).unwrap(), b"theirs");
        assert_eq!(std::fs::read(&ours).unwrap(), b"new");

        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for write in [write_atomic, write_named] {
            for (refused, words) in [
                (&pipe, "not a regular file"),
                (&PathBuf::from("/dev/full"), "device"),
                (&dir.path().into(), "folder"),
            ] {
                let error = write(refused, b"x").unwrap_err().to_string();
                assert!(error.contains(words), "{error}");
            }
        }
        assert!(!pipe.metadata().unwrap().is_file());
    }

    #[test]
    fn behind_a_link_that_the_user_names_its_target_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(write_named(&link, b"x").unwrap_err().to_string().contains("does not exist"));
        std::fs::write(&target, "old").unwrap();
        write_named(&link, b"new").unwrap();
        assert!(link.is_symlink() && std::fs::read(&target).unwrap() == b"new");
        let device = dir.path().join("device");
        std::os::unix::fs::symlink("/dev/full", &device).unwrap();
        assert!(write_named(&device, b"x").unwrap_err().to_string().contains("device"));
        assert!(device.is_symlink());
    }

    #[test]
    fn a_folder_of_ours_replaces_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (of_others, ours) = (dir.path().join("of_others"), dir.path().join("ours"));
        std::fs::create_dir(&of_others).unwrap();
        std::os::unix::fs::symlink(&of_others, &ours).unwrap();
        make_folder(&ours).unwrap();
        make_folder(&ours).unwrap();
        assert!(!ours.is_symlink() && ours.is_dir() && of_others.is_dir());
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert!(make_folder(&dir.path().join("file")).is_err());
    }
}
