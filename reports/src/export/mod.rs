//! Tables as files: every format reads the same table and is one small file with one function.
//!
//! The machine-readable formats (CSV, JSON, Parquet) keep every digit; Markdown and LaTeX round as the
//! page does.

mod csv;
mod json;
mod latex;
mod markdown;
mod parquet;

use std::path::{Path, PathBuf};

use paravt_files::{make_dir, write_atomic};

use crate::table::Table;

pub use markdown::{escape, markdown};

/// Why a table could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The file cannot be written.
    #[error("{path}: cannot write: {source}", path = .path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// The table cannot be put into the format.
    #[error("table {table} as {ending}: {source}")]
    Format { table: &'static str, ending: &'static str, source: Failure },
}

/// Result of a format's writer.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A file format: the ending of its files, and what appends a table to the content of one.
type Format = (&'static str, fn(&Table, &mut Vec<u8>) -> Result<(), Failure>);

const CSV: Format = ("csv", csv::write);
const PARQUET: Format = ("parquet", parquet::write);
const FORMATS: [Format; 5] =
    [CSV, ("json", json::write), ("md", markdown::write), ("tex", latex::write), PARQUET];

/// A table in every format: ending and content of each file.
///
/// # Errors
/// A format cannot hold the table.
pub fn files(table: &Table) -> Result<Vec<(&'static str, Vec<u8>)>, ExportError> {
    FORMATS.iter().map(|format| Ok((format.0, content(table, format)?))).collect()
}

fn content(table: &Table, (ending, write): &Format) -> Result<Vec<u8>, ExportError> {
    let mut content = Vec::new();
    write(table, &mut content).map_err(|source| ExportError::Format { table: table.name, ending, source })?;
    Ok(content)
}

/// Writes every table in every format into a folder within an output folder.
///
/// # Errors
/// A format cannot hold a table, or a file cannot be written.
pub fn write_all(tables: &[Table], dir: &Path) -> Result<(), ExportError> {
    write(tables, &FORMATS, dir)
}

/// Writes long tables, which no one reads as text, as CSV and Parquet.
pub fn write_long(tables: &[Table], dir: &Path) -> Result<(), ExportError> {
    write(tables, &[CSV, PARQUET], dir)
}

fn write(tables: &[Table], formats: &[Format], dir: &Path) -> Result<(), ExportError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| ExportError::Io { path, source }
    };
    make_dir(dir).map_err(io(dir))?;
    for table in tables {
        for format in formats {
            let path = dir.join(format!("{}.{}", table.name, format.0));
            write_atomic(&path, &content(table, format)?).map_err(io(&path))?;
        }
    }
    Ok(())
}
