//! Reading published files: parquet by column name, JSON, CSV; errors that name file, column and row.

mod delimited;
mod json;
mod layout;
mod limits;
mod parquet;
mod root;
mod row;
mod shards;
mod table;

use std::path::{Path, PathBuf};

pub use json::parse_json;
pub use layout::{AnnotationFiles, Folders, Layout};
pub use limits::{JsonRow, MAX_ROWS, UNREADABLE};
pub use root::{DataRoot, HubSource};
pub(crate) use row::excerpt;
pub use row::{Id, PublishedRow, RowAt, nullable};
pub use table::{Rows, is_parquet, read_rows, wrapped};

/// SHA-256 of a file, lower-case hexadecimal.
pub fn sha256_file(path: &Path) -> Result<String, DataError> {
    paravt_files::sha256_file(path).map_err(|source| DataError::Io { path: path.to_owned(), source })
}

/// Paths separated by commas, each once.
fn listed(paths: &[PathBuf]) -> String {
    let mut shown: Vec<String> = Vec::new();
    for path in paths.iter().map(|path| path.display().to_string()) {
        if !shown.contains(&path) {
            shown.push(path);
        }
    }
    shown.join(", ")
}

/// Errors of published data.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The file does not exist at any of the places looked at.
    #[error("{task}: {what} not found; {remedy}; searched: {looked}", looked = listed(.looked))]
    Missing { task: String, what: String, looked: Vec<PathBuf>, remedy: String },
    /// The file could not be read.
    #[error("{path}: {source}", path = .path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// The file is damaged or not of the expected format.
    #[error("{path}: {message}", path = .path.display())]
    Format { path: PathBuf, message: String },
    /// A column is missing or of a type that cannot be read as wanted.
    #[error("{path}: column `{column}`: {message}", path = .path.display())]
    Column {
        path: PathBuf,
        column: String,
        /// What is wrong and which columns or types there are.
        message: String,
    },
    /// A row names a file outside of the data folder.
    #[error("{path}: {row}, column `{column}`: `{value}` leaves the data folder; expected a relative path without `..`", path = .path.display())]
    OutsideData { path: PathBuf, row: RowAt, column: String, value: String },
    /// Too many rows cannot be used for the split to be the published one.
    #[error("{defective} of {rows} rows cannot be used, the first: {first}")]
    Rows {
        defective: usize,
        rows: usize,
        /// The first of them and its fault.
        first: Box<DataError>,
    },
    /// A row has a value that no sample can be made of.
    #[error("{path}: {row}, column `{column}`: {message}", path = .path.display())]
    Row { path: PathBuf, row: RowAt, column: String, message: String },
}
