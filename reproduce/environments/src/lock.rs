//! A lock on the making of a folder, and the folder's atomic replacement.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::{Error, io};

/// Time that a lock is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Held as long as it lives.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Locks the making of a folder; creates its parent.
pub(crate) fn lock(folder: &Path) -> Result<Lock, Error> {
    let parent = folder.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).map_err(io("make the folder", parent))?;
    let path = beside(folder, ".lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(io("open", &path))?;
    // A process that was killed, or that another thread is starting, may hold it for a moment.
    let until = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Lock { _file: file }),
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(PATIENCE / 50),
            Err(TryLockError::WouldBlock) => return Err(Error::Busy { folder: folder.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(io("lock", &path)(source)),
        }
    }
}

/// The path with something added to its name.
pub(crate) fn beside(path: &Path, end: &str) -> std::path::PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(end);
    path.with_file_name(name)
}

/// Removes a folder with everything in it, if it is there.
pub(crate) fn remove_folder(folder: &Path) -> Result<(), Error> {
    let until = Instant::now() + PATIENCE;
    loop {
        match std::fs::remove_dir_all(folder) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            // A program that a killed command started may still write into it until its guard has killed it.
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty && Instant::now() < until => {
                std::thread::sleep(PATIENCE / 50);
            }
            Err(error) => return Err(io("remove", folder)(error)),
        }
    }
}

/// Renames the folder `part` to `whole` once everything in it is on disk. A folder that had that name is deleted.
pub(crate) fn rename(part: &Path, whole: &Path) -> Result<(), Error> {
    // The file system at once: an environment has some hundred thousand files.
    let sync = || rustix::fs::syncfs(File::open(part)?).map_err(std::io::Error::from);
    sync().map_err(io("write to disk", part))?;
    let old = beside(whole, ".old");
    remove_folder(&old)?;
    if whole.exists() {
        std::fs::rename(whole, &old).map_err(io("rename", whole))?;
    }
    std::fs::rename(part, whole).map_err(io("rename", part))?;
    let parent = whole.parent().unwrap_or(Path::new("."));
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(io("write to disk", parent))?;
    remove_folder(&old)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_makes_a_folder() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("env/sft");
        let held = lock(&folder).unwrap();
        assert!(matches!(lock(&folder), Err(Error::Busy { .. })));
        drop(held);
        lock(&folder).unwrap();
    }
}
