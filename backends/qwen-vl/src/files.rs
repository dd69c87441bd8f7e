//! Files of a model folder, which somebody else may have made: regular files of bounded size.

use std::io::Read as _;
use std::path::Path;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::error::Error;

/// Most bytes of a configuration. The largest published file that is read as one, a tokenizer, has 20 MiB.
const LIMIT: u64 = 256 << 20;

/// # Errors
/// Missing, or something that is not a file, such as a pipe, which could be waited for without an end.
pub(crate) fn check_regular(path: &Path) -> Result<(), Error> {
    let metadata = std::fs::metadata(path).map_err(|error| Error::file(path, error))?;
    if metadata.is_file() { Ok(()) } else { Err(Error::file(path, "not a regular file")) }
}

/// The bytes of a file.
///
/// # Errors
/// Missing, not a regular file, or larger than 256 MiB.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    check_regular(path)?;
    let file = std::fs::File::open(path).map_err(|error| Error::file(path, error))?;
    let mut bytes = Vec::new();
    file.take(LIMIT + 1).read_to_end(&mut bytes).map_err(|error| Error::file(path, error))?;
    if bytes.len() as u64 > LIMIT {
        return Err(Error::file(path, format!("larger than {} MiB", LIMIT >> 20)));
    }
    Ok(bytes)
}

/// A text file.
///
/// # Errors
/// As [`read`], or it is not UTF-8.
pub(crate) fn read_text(path: &Path) -> Result<String, Error> {
    String::from_utf8(read(path)?).map_err(|error| Error::file(path, error))
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
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "video_preprocessor_config.json",
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
    Ok(format!("{:x}", hasher.finalize()))
}
