//! Free disk space, and creation of files.

use std::fs::File;
use std::path::Path;

use crate::error::FetchError;

/// Kept free for everything that is small: links, journals, other programs.
const RESERVE: u64 = 16 << 20;

/// Bytes that this user may still write to the file system of a folder, which need not exist yet.
///
/// # Errors
/// No part of the path exists, or the file system does not say.
pub fn available(folder: &Path) -> Result<u64, FetchError> {
    let existing = folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
    let found = rustix::fs::statvfs(existing).map_err(|error| FetchError::io(existing)(error.into()))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Creates a file and replaces what has its name; a symbolic link is replaced, its target untouched.
///
/// # Errors
/// It cannot be made.
pub(crate) fn create(path: &Path) -> Result<File, FetchError> {
    let _ = std::fs::remove_file(path);
    File::create_new(path).map_err(FetchError::io(path))
}

/// Refuses work that the disk cannot hold.
///
/// # Errors
/// Less than `needed` bytes and the reserve are available.
pub(crate) fn check(folder: &Path, needed: u64) -> Result<(), FetchError> {
    if needed == 0 {
        return Ok(());
    }
    let available = available(folder)?;
    if available < needed.saturating_add(RESERVE) {
        return Err(FetchError::Space { path: folder.to_owned(), needed, reserve: RESERVE, available });
    }
    Ok(())
}
