//! Files that others provide, regular ones only and up to a size, and files that are written whole.
//!
//! Opening a named pipe waits for a writer for ever, and a device such as `/dev/zero` never ends.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::nearest;

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

/// Writes a file so that it is there whole or not at all, also after a power cut.
///
/// # Errors
/// It cannot be written or cannot take the place of the file that was there.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(format!("tmp{}", std::process::id()));
    let written = File::create(&temporary)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&temporary, path));
    if let Err(error) = written {
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    if let Some(parent) = path.parent() {
        // The rename itself must survive, too; a file system that cannot sync a folder is not worth failing for.
        let _ = File::open(parent).and_then(|folder| folder.sync_all());
    }
    Ok(())
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
}
