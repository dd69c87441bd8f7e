//! Imported protocols, kept between runs.

use std::path::{Path, PathBuf};

use paravt_files::{read_limited, write_atomic};
use serde::{Deserialize, Serialize};

use super::Protocol;
use crate::text::to_pretty_json;

/// Why a cached protocol cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// It could not be written.
    #[error("{path}: cannot write the protocol: {source}", path = .path.display())]
    Write { path: PathBuf, source: std::io::Error },
    /// It cannot be read or parsed.
    #[error("{path}: {message}; import the protocol again", path = .path.display())]
    Unreadable { path: PathBuf, message: String },
    /// It was changed after it was stored.
    #[error("{path}: the texts were changed after the import; import the protocol again", path = .path.display())]
    Changed { path: PathBuf },
}

/// Bytes that a stored protocol may have.
const MAX_FILE: u64 = 16 << 20;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    hash: String,
    protocol: Protocol,
}

fn path(dir: &Path, name: &str) -> PathBuf {
    dir.join("protocol").join(format!("{name}.json"))
}

/// Stores a protocol under its name and returns the file.
pub fn store(dir: &Path, protocol: &Protocol) -> Result<PathBuf, CacheError> {
    let path = path(dir, &protocol.name);
    let entry = Entry { hash: protocol.hash(), protocol: protocol.clone() };
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    match made.and_then(|()| write_atomic(&path, &to_pretty_json(&entry))) {
        Ok(()) => Ok(path),
        Err(source) => Err(CacheError::Write { path, source }),
    }
}

/// Loads a stored protocol; `None` when none was stored.
///
/// # Errors
/// The file is damaged or was changed.
pub fn load(dir: &Path, name: &str) -> Result<Option<Protocol>, CacheError> {
    let path = path(dir, name);
    let bytes = match read_limited(&path, MAX_FILE) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(CacheError::Unreadable { path, message: error.to_string() }),
    };
    let entry: Entry = serde_json::from_slice(&bytes)
        .map_err(|error| CacheError::Unreadable { path: path.clone(), message: error.to_string() })?;
    if entry.protocol.hash() != entry.hash {
        return Err(CacheError::Changed { path });
    }
    Ok(Some(entry.protocol))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::native;

    #[test]
    fn stored_protocols_are_read_back_and_changed_ones_refused() {
        let dir = tempfile::tempdir().unwrap();
        let load = || load(dir.path(), "native");
        assert_eq!(load().unwrap(), None);
        let file = store(dir.path(), &native::protocol()).unwrap();
        assert_eq!(load().unwrap(), Some(native::protocol()));
        let text = std::fs::read_to_string(&file).unwrap().replace("two or three sentences", "one word");
        std::fs::write(&file, text).unwrap();
        assert!(matches!(load(), Err(CacheError::Changed { .. })));
    }

    #[test]
    fn a_file_of_another_shape_asks_for_a_new_import() {
        let dir = tempfile::tempdir().unwrap();
        let file = store(dir.path(), &native::protocol()).unwrap();
        let text = std::fs::read_to_string(&file).unwrap().replace("\"default_mode\"", "\"mode\"");
        std::fs::write(&file, text).unwrap();
        let error = load(dir.path(), "native").unwrap_err().to_string();
        assert!(error.contains("unknown field") && error.contains("import the protocol again"), "{error}");
    }
}
