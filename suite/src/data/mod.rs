//! Reading published files: parquet by column name, JSON, SRT; errors that name file, column and row.

use std::path::PathBuf;

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
