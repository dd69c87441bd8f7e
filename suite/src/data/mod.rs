//! Reading published files: parquet by column name, JSON, SRT; errors that name file, column and row.

mod cells;
mod cues;
mod layout;
mod srt;
mod table;

use std::io::Read as _;
use std::path::{Path, PathBuf};

pub use cells::{Cells, letters};
pub use cues::{Cue, read_cues};
pub use layout::{Folders, Found, Layout};
pub use srt::{parse_srt, timed_subtitles};
pub use table::{JsonRow, UNREADABLE, read_rows};

/// SHA-256 of a file, lower-case hexadecimal.
///
/// # Errors
/// The file cannot be read.
pub fn sha256_file(path: &Path) -> Result<String, DataError> {
    use sha2::{Digest as _, Sha256};
    let io = |source| DataError::Io { path: path.to_owned(), source };
    let mut file = std::fs::File::open(path).map_err(io)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let length = file.read(&mut buffer).map_err(io)?;
        if length == 0 {
            return Ok(crate::record::hex(&hasher.finalize()));
        }
        hasher.update(&buffer[..length]);
    }
}

/// What can be wrong with published data.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The file does not exist at any of the places looked at.
    #[error("{task}: {what} not found; looked at {looked}; {remedy}", looked = .looked.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", "))]
    Missing {
        /// Split.
        task: String,
        /// What is missing.
        what: String,
        /// Where it was looked for.
        looked: Vec<PathBuf>,
        /// What to do.
        remedy: String,
    },
    /// The file could not be read.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is damaged or not of the expected format.
    #[error("{path}: {message}", path = .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// A column is missing or of a type that cannot be read as wanted.
    #[error("{path}: column `{column}`: {message}", path = .path.display())]
    Column {
        /// The file.
        path: PathBuf,
        /// Published column name.
        column: String,
        /// What is wrong and which columns or types there are.
        message: String,
    },
    /// A row has a value that makes no sample.
    #[error("{path}: row {row}, column `{column}`: {message}", path = .path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// Zero-based row.
        row: usize,
        /// Published column name.
        column: String,
        /// What is wrong.
        message: String,
    },
}
