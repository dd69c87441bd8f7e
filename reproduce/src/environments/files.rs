//! The files of a folder beside those of a git tree. Not left to `git status`: it trusts an index that can be told to look
//! away (`assume-unchanged`), hides ignored files (a `sitecustomize.py`), and the copy of the engine has no `.git`.

use std::collections::BTreeMap;
use std::path::Path;

use sha1::{Digest as _, Sha1};

use crate::environments::{Error, io};

/// Files of a tree: their git object ids by path, with `/` between its parts.
pub(crate) type Tree = BTreeMap<String, String>;

/// The tree in the output of `git ls-tree -r -z`.
pub(crate) fn parse(listing: &[u8]) -> Result<Tree, String> {
    let entries = listing.split(|&byte| byte == 0).filter(|entry| !entry.is_empty());
    entries
        .map(|entry| {
            let entry = std::str::from_utf8(entry).map_err(|_| "a file name is not UTF-8".to_owned())?;
            let wrong = || format!("cannot read the listing of the tree: `{entry}`");
            let (about, path) = entry.split_once('\t').ok_or_else(wrong)?;
            let mut words = about.split(' ');
            match (words.next(), words.next(), words.next()) {
                (Some("100644" | "100755"), Some("blob"), Some(id)) => Ok((path.to_owned(), id.to_owned())),
                _ => Err(format!("`{path}` is a link or a submodule, which the release does not have")),
            }
        })
        .collect()
}

/// The first difference between a folder and a tree; `None` where they are equal. `.git` at the top and the
/// folders of compiled Python are passed over; file modes are not compared.
pub(crate) fn difference(folder: &Path, tree: &Tree) -> Result<Option<String>, Error> {
    let mut left: BTreeMap<&str, &str> = tree.iter().map(|(path, id)| (path.as_str(), id.as_str())).collect();
    if let Some(found) = walk(folder, "", &mut left)? {
        return Ok(Some(found));
    }
    Ok(left.keys().next().map(|path| format!("{path} is missing")))
}

fn walk(folder: &Path, prefix: &str, left: &mut BTreeMap<&str, &str>) -> Result<Option<String>, Error> {
    let mut entries: Vec<_> =
        std::fs::read_dir(folder).and_then(Iterator::collect::<Result<_, _>>).map_err(io("read", folder))?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let (path, shown) = (entry.path(), format!("{prefix}{name}"));
        let kind = entry.file_type().map_err(io("read", &path))?;
        if kind.is_dir() {
            if name == "__pycache__" || shown == ".git" {
                continue;
            }
            if let Some(found) = walk(&path, &format!("{shown}/"), left)? {
                return Ok(Some(found));
            }
        } else if let Some(wanted) = left.remove(shown.as_str()) {
            if !kind.is_file() || object_id(&path)? != wanted {
                return Ok(Some(format!("{shown} was changed")));
            }
        } else {
            return Ok(Some(format!("{shown} is not part of the release")));
        }
    }
    Ok(None)
}

/// The id that git gives to a file's content.
fn object_id(path: &Path) -> Result<String, Error> {
    let bytes = std::fs::read(path).map_err(io("read", path))?;
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", bytes.len()));
    hash.update(&bytes);
    Ok(paravt_files::hex(&hash.finalize()))
}

/// Copies the files of a tree.
pub(crate) fn copy(from: &Path, to: &Path, tree: &Tree) -> Result<(), Error> {
    for path in tree.keys() {
        let target = to.join(path);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent).map_err(io("make the folder", parent))?;
        }
        std::fs::copy(from.join(path), &target).map_err(io("write", &target))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        std::fs::create_dir_all(at.join("a/__pycache__")).unwrap();
        std::fs::write(at.join("a/__pycache__/x.pyc"), "compiled").unwrap();
        std::fs::write(at.join("a/x.py"), "hello\n").unwrap();
        // As `git hash-object` says.
        let listing = b"100644 blob ce013625030ba8dba906f756967f9e9ca394464a\ta/x.py\0";
        let tree = parse(listing).unwrap();
        assert_eq!(difference(at, &tree).unwrap(), None);
        std::fs::write(at.join("a/x.py"), "Hello\n").unwrap();
        assert_eq!(difference(at, &tree).unwrap().unwrap(), "a/x.py was changed");
        std::fs::remove_file(at.join("a/x.py")).unwrap();
        assert_eq!(difference(at, &tree).unwrap().unwrap(), "a/x.py is missing");
        std::fs::write(at.join("sitecustomize.py"), "").unwrap();
        assert_eq!(difference(at, &tree).unwrap().unwrap(), "sitecustomize.py is not part of the release");
        assert!(parse(b"160000 commit ce013625030ba8dba906f756967f9e9ca394464a\tsub\0").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_not_the_file_it_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let tree = parse(b"100644 blob ce013625030ba8dba906f756967f9e9ca394464a\tx.py\0").unwrap();
        std::fs::write(folder.path().join("__init__.py"), "hello\n").unwrap();
        std::os::unix::fs::symlink("__init__.py", folder.path().join("x.py")).unwrap();
        std::fs::remove_file(folder.path().join("__init__.py")).unwrap();
        std::fs::create_dir(folder.path().join("__pycache__")).unwrap();
        std::fs::write(folder.path().join("__pycache__/y"), "hello\n").unwrap();
        assert_eq!(difference(folder.path(), &tree).unwrap().unwrap(), "x.py was changed");
    }
}
