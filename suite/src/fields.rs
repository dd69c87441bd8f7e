//! Files of fields that a user writes: protocols, tasks, prices.

use std::io;
use std::path::{Path, PathBuf};

use paravt_files::read_text;
use serde::de::{Deserialize, DeserializeOwned, Deserializer};

use crate::nearest;

/// Bytes that a file of a few fields may have.
const MAX_FILE: u64 = 1 << 20;

/// Why a file of fields that a user writes cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FieldsError {
    /// It cannot be opened or is too large.
    #[error("{path}: {source}", path = .path.display())]
    Io { path: PathBuf, source: io::Error },
    /// It is not TOML or JSON, lacks a field, or has a wrong or unknown one.
    #[error("{path}: {message}{hint}", path = .path.display(), hint = nearest::hint(.nearest.as_deref()))]
    Format {
        path: PathBuf,
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

/// Deserializes fields that are there already; an error is said by `say`, behind the path of the field that is wrong.
pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    fields: D,
    say: impl FnOnce(&D::Error) -> String,
) -> Result<T, String> {
    serde_path_to_error::deserialize(fields).map_err(|error| {
        let (path, message) = (error.path().to_string(), say(error.inner()));
        // A field that is unknown is named by the error itself.
        let (before, last) = path.rsplit_once('.').unwrap_or(("", &path));
        let place = if message.contains(&format!("`{last}`")) { before } else { &path };
        if place.is_empty() || place == "." { message } else { format!("{place}: {message}") }
    })
}

/// Reads a TOML file.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T, FieldsError> {
    let text = read_text(path, MAX_FILE).map_err(|source| FieldsError::io(path, source))?;
    toml::from_str(&text).map_err(|error| FieldsError::format(path, error.to_string()))
}
