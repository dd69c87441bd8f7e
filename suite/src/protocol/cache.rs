//! Imported protocols, kept between runs.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Protocol;
use crate::files::{read_limited, write_atomic};
use crate::text::to_pretty_json;

/// Why a cached protocol cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// It could not be written.
    #[error("{path}: cannot write the protocol: {source}", path = .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It cannot be read or parsed.
    #[error("{path}: {message}; import the protocol again", path = .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// It was changed after it was stored.
    #[error("{path}: the texts were changed after the import; import the protocol again", path = .path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
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
///
/// # Errors
/// The file cannot be written.
pub fn store(dir: &Path, protocol: &Protocol) -> Result<PathBuf, CacheError> {
    let path = path(dir, &protocol.name);
    let entry = Entry { hash: protocol.hash(), protocol: protocol.clone() };
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    match made.and_then(|()| write_atomic(&path, &to_pretty_json(&entry))) {
        Ok(()) => Ok(path),
        Err(source) => Err(CacheError::Write { path, source }),
    }
}

/// Loads a stored protocol; `None` when none was stored. `older` holds fields that files of earlier versions
/// lack, with the values that were constants then.
///
/// # Errors
/// The file is damaged or was changed.
pub fn load(dir: &Path, name: &str, older: &Map<String, Value>) -> Result<Option<Protocol>, CacheError> {
    let path = path(dir, name);
    let bytes = match read_limited(&path, MAX_FILE) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(CacheError::Unreadable { path, message: error.to_string() }),
    };
    let unreadable =
        |error: serde_json::Error| CacheError::Unreadable { path: path.clone(), message: error.to_string() };
    let mut entry: Value = serde_json::from_slice(&bytes).map_err(unreadable)?;
    if let Some(fields) = entry.get_mut("protocol").and_then(Value::as_object_mut) {
        for (name, value) in older {
            fields.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    let entry: Entry = serde_json::from_value(entry).map_err(unreadable)?;
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
        let load = || load(dir.path(), "native", &Map::new());
        assert_eq!(load().unwrap(), None);
        let file = store(dir.path(), &native::protocol()).unwrap();
        assert_eq!(load().unwrap(), Some(native::protocol()));
        let text = std::fs::read_to_string(&file).unwrap().replace("two or three sentences", "one word");
        std::fs::write(&file, text).unwrap();
        assert!(matches!(load(), Err(CacheError::Changed { .. })));
    }

    #[test]
    fn older_protocol_files_get_the_former_constants() {
        let dir = tempfile::tempdir().unwrap();
        let file = store(dir.path(), &native::protocol()).unwrap();
        let mut entry: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let fields = entry["protocol"].as_object_mut().unwrap();
        let older: Map<_, _> = ["tool", "default_mode"]
            .map(|name| (name.to_owned(), fields.shift_remove(name).unwrap()))
            .into_iter()
            .collect();
        std::fs::write(&file, entry.to_string()).unwrap();
        assert_eq!(load(dir.path(), "native", &older).unwrap(), Some(native::protocol()));
        let error = load(dir.path(), "native", &Map::new()).unwrap_err().to_string();
        assert!(error.contains("missing field") && error.contains("import the protocol again"), "{error}");
    }
}
