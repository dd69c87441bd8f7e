//! Files of a model folder, which somebody else may have made: regular files of bounded size.

use std::path::Path;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::error::Error;

/// Maximum bytes of a configuration. The largest published file that is read as one, a tokenizer, has 20 MiB.
const LIMIT: u64 = 256 << 20;

/// The bytes of a file.
///
/// # Errors
/// Missing, not a regular file, or larger than 256 MiB.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    paravt_files::read_limited(path, LIMIT).map_err(|error| Error::file(path, error))
}

/// A text file.
///
/// # Errors
/// As [`read`], or it is not UTF-8.
pub(crate) fn read_text(path: &Path) -> Result<String, Error> {
    paravt_files::read_text(path, LIMIT).map_err(|error| Error::file(path, error))
}

/// A JSON file.
///
/// # Errors
/// As [`read`], or it is not JSON.
pub(crate) fn read_json(path: &Path) -> Result<Value, Error> {
    serde_json::from_slice(&read(path)?).map_err(|error| Error::file(path, error))
}

/// Files beside the weights that can change an answer.
const COMPANIONS: [&str; 10] = [
    "chat_template.jinja", "chat_template.json", "config.json", "generation_config.json",
    "preprocessor_config.json", "processor_config.json", "special_tokens_map.json", "tokenizer.json",
    "tokenizer_config.json", "video_preprocessor_config.json",
];

/// SHA-256 over those of a model folder, in hex.
///
/// # Errors
/// As [`read`].
pub(crate) fn digest(folder: &Path) -> Result<String, Error> {
    let mut hasher = Sha256::new();
    for name in COMPANIONS {
        let path = folder.join(name);
        if path.exists() {
            let bytes = read(&path)?;
            hasher.update(format!("{name} {}\n", bytes.len()));
            hasher.update(bytes);
        }
    }
    Ok(paravt_files::hex(&hasher.finalize()))
}
