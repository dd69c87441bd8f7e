//! Folders that appear whole and go whole.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::lock::Lock;
use crate::write::rename;

/// Time that a folder is given to stop growing while it is removed.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time that another process is given to make a folder.
const MAKING: Duration = Duration::from_secs(600);
/// From so many files on, one call for the whole file system is cheaper than one for each.
const MANY: usize = 4096;

/// Renames the folder `part` to `whole` once everything in it is on disk. A folder that had that name is deleted
/// after the rename.
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

/// Makes a folder by `make`, unless it is there and not older than the files that it is made from. Of several processes
/// that need it at once, one makes it and the others wait.
///
/// # Errors
/// I/O; another process makes it for more than ten minutes.
pub fn make_once(folder: &Path, from: &[impl AsRef<Path>], make: impl FnOnce(&Path)) -> io::Result<()> {
    let modified = |path: &Path| path.metadata()?.modified();
    let newest =
        from.iter().map(|path| modified(path.as_ref())).collect::<io::Result<Vec<_>>>()?.into_iter().max();
    let Some(_lock) = Lock::take(&folder.with_added_extension("lock"), MAKING)? else {
        return Err(ErrorKind::TimedOut.into());
    };
    if modified(folder).is_ok_and(|made| newest.is_none_or(|newest| made >= newest)) {
        return Ok(());
    }
    let part = folder.with_added_extension("part");
    remove(&part)?;
    std::fs::create_dir_all(&part)?;
    make(&part);
    replace_dir(&part, folder)
}

/// Removes a file, a link, or a folder with everything in it; succeeds where the path does not exist.
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
    fn a_folder_is_made_once_and_again_where_a_source_is_newer() {
        let root = tempfile::tempdir().unwrap();
        let (folder, source) = (root.path().join("made"), root.path().join("source"));
        std::fs::write(&source, "").unwrap();
        let made = std::cell::Cell::new(0);
        let provide = || {
            make_once(&folder, &[&source], |part| {
                made.set(made.get() + 1);
                std::fs::write(part.join("number"), made.get().to_string()).unwrap();
            })
            .unwrap();
            std::fs::read_to_string(folder.join("number")).unwrap()
        };
        assert_eq!([provide(), provide()], ["1", "1"]);
        let later = std::time::SystemTime::now() + Duration::from_secs(60);
        File::options().append(true).open(&source).unwrap().set_modified(later).unwrap();
        assert_eq!(provide(), "2");
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
