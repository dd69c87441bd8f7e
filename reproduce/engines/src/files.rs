//! Files and folders.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The absolute path: programs run in other folders.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|source| Error::file("cannot resolve", path, source))
}

/// Writes a file so that it is whole or as it was.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    paravt_files::write_atomic(path, bytes).map_err(|source| Error::file("cannot write", path, source))
}

/// Makes a folder with those above it.
pub(crate) fn make(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|source| Error::file("cannot make the folder", path, source))
}

/// Removes a file or folder, if it is there.
pub(crate) fn remove(path: &Path) -> Result<()> {
    paravt_files::remove(path).map_err(|source| Error::file("cannot remove", path, source))
}

/// Moves a file or folder, in the place of what has the new name.
pub(crate) fn replace(from: &Path, to: &Path) -> Result<()> {
    remove(to)?;
    paravt_files::rename(from, to).map_err(|source| Error::file("cannot write", to, source))
}

/// Moves a file or folder into `aside`.
pub(crate) fn set_aside(path: &Path, aside: &Path) -> Result<()> {
    make(aside)?;
    replace(path, &aside.join(path.file_name().unwrap_or_default()))
}

/// Entries of a folder in the order of their names; none where it is not there.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = match std::fs::read_dir(folder) {
        Ok(read) => read,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::file("cannot read the folder", folder, error)),
    };
    let paths: std::io::Result<Vec<PathBuf>> = read.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(|source| Error::file("cannot read the folder", folder, source))?;
    paths.sort();
    Ok(paths)
}

/// The last part of a path as text.
pub(crate) fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Copies a folder, or links its files where the file system allows it, so that the copy is whole or not there.
pub(crate) fn link_folder(from: &Path, to: &Path) -> Result<()> {
    let part = to.with_extension("part");
    remove(&part)?;
    link_all(from, &part)?;
    replace(&part, to)
}

fn link_all(from: &Path, to: &Path) -> Result<()> {
    make(to)?;
    for path in entries(from)? {
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            link_all(&path, &target)?;
        } else {
            let source = path.canonicalize().map_err(|source| Error::file("cannot read", &path, source))?;
            let linked = std::fs::hard_link(&source, &target);
            let copied = linked.or_else(|_| std::fs::copy(&source, &target).map(|_| ()));
            copied.map_err(|source| Error::file("cannot write", &target, source))?;
        }
    }
    Ok(())
}

/// Bytes of all files below a folder.
pub(crate) fn size(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(about) if about.is_dir() => size(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Refuses an input that does not exist; `remedy` says how to make it.
pub(crate) fn needs(what: &'static str, path: &Path, remedy: &str) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    Err(Error::Missing { what, path: path.to_owned(), remedy: remedy.to_owned() })
}
