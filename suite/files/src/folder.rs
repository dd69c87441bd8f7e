//! Folders that appear whole and go whole.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::write::rename;

/// Time that a folder is given to stop growing while it is removed.
const PATIENCE: Duration = Duration::from_secs(1);
/// From so many files on, one call for the whole file system is cheaper than one for each.
const MANY: usize = 4096;

/// Renames the folder `part` to `whole` once everything in it is on disk. A folder that had that name is deleted
/// after the rename.
///
/// # Errors
/// I/O.
pub fn replace_dir(part: &Path, whole: &Path) -> io::Result<()> {
    sync_dir(part)?;
    let old = whole.with_added_extension("old");
    remove(&old)?;
    if whole.exists() {
        rename(whole, &old)?;
    }
    rename(part, whole)?;
    remove(&old)
}

/// Removes a file, a link, or a folder with everything in it; succeeds where the path does not exist.
///
/// # Errors
/// I/O.
pub fn remove(path: &Path) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let removed = match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() == ErrorKind::NotADirectory => std::fs::remove_file(path),
            removed => removed,
        };
        match removed {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            // A process that is being killed may still write into it.
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty && Instant::now() < until => {
                std::thread::sleep(PATIENCE / 50);
            }
            removed => return removed,
        }
    }
}

/// Waits until every file and folder below a folder is on disk.
///
/// # Errors
/// I/O.
pub fn sync_dir(folder: &Path) -> io::Result<()> {
    let mut paths = vec![folder.to_owned()];
    let mut next = 0;
    while let Some(path) = paths.get(next).cloned() {
        next += 1;
        if path.symlink_metadata()?.is_dir() {
            for entry in std::fs::read_dir(&path)? {
                let entry = entry?;
                // What a link leads to is somebody else's.
                if !entry.file_type()?.is_symlink() {
                    paths.push(entry.path());
                }
            }
        }
        if paths.len() > MANY {
            return Ok(rustix::fs::syncfs(File::open(folder)?)?);
        }
    }
    paths.iter().try_for_each(|path| File::open(path)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_replaces_another_atomically() {
        let folder = tempfile::tempdir().unwrap();
        let (part, whole) = (folder.path().join("part"), folder.path().join("step"));
        for text in ["one", "two"] {
            std::fs::create_dir_all(part.join("inner")).unwrap();
            std::fs::write(part.join("inner/file"), text).unwrap();
            std::os::unix::fs::symlink("nowhere", part.join("link")).unwrap();
            replace_dir(&part, &whole).unwrap();
            assert_eq!(std::fs::read_to_string(whole.join("inner/file")).unwrap(), text);
        }
        // A file at either path is replaced as well.
        remove(&whole).unwrap();
        std::fs::write(&whole, "").unwrap();
        std::fs::write(whole.with_added_extension("old"), "").unwrap();
        std::fs::create_dir(&part).unwrap();
        for number in 0..=MANY {
            File::create(part.join(number.to_string())).unwrap();
        }
        replace_dir(&part, &whole).unwrap();
        assert!(whole.is_dir());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn a_link_is_removed_and_its_target_stays() {
        let root = tempfile::tempdir().unwrap();
        let (folder, link) = (root.path().join("folder"), root.path().join("link"));
        std::fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        remove(&link).unwrap();
        remove(&link).unwrap();
        assert!(!link.is_symlink() && folder.is_dir());
    }
}
