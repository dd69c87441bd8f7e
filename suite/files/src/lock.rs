//! Exclusive locks, which end with the process that holds them.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// An exclusive lock on a file, held as long as it lives.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// Locks a file, which is made, with its folder, where it is missing. `None` if another process still holds it
    /// after `patience`: one that was killed, or that only asks whether it is held, does so for a moment.
    pub fn take(path: &Path, patience: Duration) -> io::Result<Option<Self>> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let file = File::options().create(true).append(true).open(path)?;
        let until = Instant::now() + patience;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Self { file })),
                Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// The file, opened to append.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Whether a process holds the lock on a file.
    pub fn is_held(path: &Path) -> bool {
        File::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_a_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/lock");
        assert!(!Lock::is_held(&path));
        let held = Lock::take(&path, Duration::ZERO).unwrap().unwrap();
        assert!(Lock::is_held(&path));
        assert!(Lock::take(&path, Duration::ZERO).unwrap().is_none());
        let waits = std::thread::spawn({
            let path = path.clone();
            move || Lock::take(&path, Duration::from_secs(60)).unwrap().is_some()
        });
        drop(held);
        assert!(waits.join().unwrap());
        assert!(!Lock::is_held(&path));
    }
}
