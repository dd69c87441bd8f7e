//! Files that are written whole.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::read::check_regular;

/// Added extension of a file that is not yet whole.
const TEMPORARY: &str = "paravt-part";
/// Time that another process is given to write the same file.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(1);

/// Writes a file of ours so that it is there whole or not at all, also after a power cut. A link that has its name is
/// replaced, never written through. What a killed process left of the same file is removed; a live one that writes it is
/// waited for.
///
/// # Errors
/// It cannot be written, a folder, pipe, socket or device has its name, or another process does not get done with it.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_atomic_by(path, |file| file.write_all(bytes))
}

/// As [`write_atomic`], of a file that `write` writes piece by piece.
pub fn write_atomic_by<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if there.is_symlink() => {}
        Ok(there) => check_regular(&there)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let temporary = temporary(path);
    // Its lock is held until it has its name.
    let mut file = claim(&temporary)?;
    let written = write(&mut file).and_then(|()| {
        file.sync_all()?;
        Ok(rename(&temporary, path)?)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// A new file, locked: by its lock others know it from one that a killed process left.
fn claim(temporary: &Path) -> io::Result<File> {
    let until = Instant::now() + PATIENCE;
    loop {
        match File::create_new(temporary) {
            Ok(file) if lock(&file) && is_at(&file, temporary) => return Ok(file),
            // Another process has taken it for one that was left.
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => match remove_left(temporary) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            },
            Err(error) => return Err(error),
        }
        if Instant::now() > until {
            return Err(io::Error::new(ErrorKind::ResourceBusy, "another process is writing this file"));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Removes what has the name of a temporary file, unless a live process holds it.
fn remove_left(temporary: &Path) -> io::Result<()> {
    let is_file = temporary.symlink_metadata()?.is_file();
    let left = if is_file { File::open(temporary) } else { Err(ErrorKind::InvalidInput.into()) };
    match &left {
        Ok(file) if !lock(file) || !is_at(file, temporary) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // Its lock is held until it is gone.
        _ => std::fs::remove_file(temporary),
    }
}

/// Locks a file, `false` where another process has. Where the file system has no locks, nobody has.
fn lock(file: &File) -> bool {
    !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

/// Whether an open file is the one that has a name.
fn is_at(file: &File, path: &Path) -> bool {
    let id = |found: std::fs::Metadata| (found.dev(), found.ino());
    let named = path.symlink_metadata().map(id).ok();
    named.is_some() && named == file.metadata().map(id).ok()
}

/// Renames a file or folder, and waits until its new name is on disk.
#[expect(clippy::disallowed_methods, reason = "here it is followed by the wait")]
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)?;
    // A file that is named without its folder lies in the working folder.
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A file system that cannot sync a folder is not worth failing for.
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
pub fn make_dir(path: &Path) -> io::Result<()> {
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

/// Whether a name is that of a file that [`write_atomic`] was killed over.
pub fn is_temporary(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == TEMPORARY)
}

/// Name of a file before it is whole.
fn temporary(path: &Path) -> PathBuf {
    path.with_added_extension(TEMPORARY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_ours_replaces_a_link_and_never_a_device_or_pipe() {
        let dir = tempfile::tempdir().unwrap();
        let (of_others, ours) = (dir.path().join("of_others"), dir.path().join("ours"));
        std::fs::write(&of_others, "theirs").unwrap();
        std::os::unix::fs::symlink(&of_others, &ours).unwrap();
        // Where the temporary file would be, too.
        std::os::unix::fs::symlink(&of_others, temporary(&ours)).unwrap();
        write_atomic(&ours, b"new").unwrap();
        assert!(!ours.is_symlink() && !temporary(&ours).exists());
        assert!(is_temporary(temporary(&ours).file_name().unwrap().to_str().unwrap()));
        assert!(!is_temporary("ours.tmp") && !is_temporary("ours"));
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
    fn what_a_killed_process_left_goes_and_a_live_one_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(temporary(&path), "left").unwrap();
        write_atomic(&path, b"new").unwrap();
        let live = claim(&temporary(&path)).unwrap();
        let late = std::thread::spawn({
            let path = path.clone();
            move || write_atomic(&path, b"late")
        });
        std::thread::sleep(20 * PAUSE);
        assert!(!late.is_finished() && is_at(&live, &temporary(&path)));
        rename(&temporary(&path), &path).unwrap();
        drop(live);
        late.join().unwrap().unwrap();
        // Many writers of one file: each is whole, and the last has its name.
        std::thread::scope(|scope| {
            for writer in 0..8_u8 {
                let path = &path;
                scope.spawn(move || (0..50).for_each(|_| write_atomic(path, &[writer; 999]).unwrap()));
            }
        });
        let last = std::fs::read(&path).unwrap();
        assert!(last.len() == 999 && last.iter().all(|byte| *byte == last[0]));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left");
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
        make_dir(&ours).unwrap();
        make_dir(&ours).unwrap();
        assert!(!ours.is_symlink() && ours.is_dir() && of_others.is_dir());
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert!(make_dir(&dir.path().join("file")).is_err());
    }
}
