//! Tables as files: one format each behind one method, all with the same numbers.

mod csv;
mod json;
mod latex;
mod markdown;
mod parquet;

use std::path::{Path, PathBuf};

use crate::table::Table;

pub use csv::Csv;
pub use json::JsonRows;
pub use latex::Latex;
pub use markdown::{MarkdownTable, escape, markdown};
pub use parquet::Parquet;

/// Why a table could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The file cannot be written.
    #[error("{path}: cannot write: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The table cannot be put into the format.
    #[error("table {table} as {format}: {message}")]
    Format {
        /// Table.
        table: &'static str,
        /// Format.
        format: &'static str,
        /// Why.
        message: String,
    },
}

/// A file format of tables.
pub trait Export {
    /// Ending of the file, without the dot.
    fn ending(&self) -> &'static str;

    /// The table as the content of a file.
    ///
    /// # Errors
    /// The format cannot hold the table.
    fn write(&self, table: &Table) -> Result<Vec<u8>, ExportError>;
}

/// Every format.
pub fn formats() -> [Box<dyn Export>; 5] {
    [Box::new(Csv), Box::new(JsonRows), Box::new(MarkdownTable), Box::new(Latex), Box::new(Parquet)]
}

/// Writes every table in every format into a folder.
///
/// # Errors
/// A format cannot hold a table, or a file cannot be written.
pub fn write_all(tables: &[Table], dir: &Path) -> Result<(), ExportError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| ExportError::Io { path, source }
    };
    std::fs::create_dir_all(dir).map_err(io(dir))?;
    for format in formats() {
        for table in tables {
            let path = dir.join(format!("{}.{}", table.name, format.ending()));
            std::fs::write(&path, format.write(table)?).map_err(io(&path))?;
        }
    }
    Ok(())
}
