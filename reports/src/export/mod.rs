//! Tables as files: every format reads the same table and is one small file behind one method.
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
#[allow(missing_docs)] // The messages say what the fields are.
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

/// A file format of tables.
trait Format {
    /// Ending of the file, without the dot.
    fn ending(&self) -> &'static str;

    /// Appends the table to the content of a file.
    fn write(&self, table: &Table, file: &mut Vec<u8>) -> Result<(), Failure>;
}

const FORMATS: [&dyn Format; 5] =
    [&csv::Csv, &json::Json, &markdown::Markdown, &latex::Latex, &parquet::Parquet];

/// A table in every format: ending and content of each file.
///
/// # Errors
/// A format cannot hold the table.
pub fn files(table: &Table) -> Result<Vec<(&'static str, Vec<u8>)>, ExportError> {
    contents(table, &FORMATS)
}

fn contents(table: &Table, formats: &[&dyn Format]) -> Result<Vec<(&'static str, Vec<u8>)>, ExportError> {
    let file = |format: &&dyn Format| {
        let (ending, mut content) = (format.ending(), Vec::new());
        format.write(table, &mut content).map_err(|source| ExportError::Format {
            table: table.name,
            ending,
            source,
        })?;
        Ok((ending, content))
    };
    formats.iter().map(file).collect()
}

/// Writes every table in every format into a folder within an output folder.
///
/// # Errors
/// A format cannot hold a table, or a file cannot be written.
pub fn write_all(tables: &[Table], dir: &Path) -> Result<(), ExportError> {
    write(tables, &FORMATS, dir)
}

/// Writes long tables, which no one reads as text, as CSV and Parquet.
///
/// # Errors
/// As [`write_all`].
pub fn write_long(tables: &[Table], dir: &Path) -> Result<(), ExportError> {
    write(tables, &[&csv::Csv, &parquet::Parquet], dir)
}

/// A table as Parquet.
///
/// # Errors
/// The format cannot hold the table.
pub fn as_parquet(table: &Table) -> Result<Vec<u8>, ExportError> {
    let files = contents(table, &[&parquet::Parquet])?;
    Ok(files.into_iter().next().map(|(_, content)| content).unwrap_or_default())
}

fn write(tables: &[Table], formats: &[&dyn Format], dir: &Path) -> Result<(), ExportError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| ExportError::Io { path, source }
    };
    make_dir(dir).map_err(io(dir))?;
    for table in tables {
        for (ending, content) in contents(table, formats)? {
            let path = dir.join(format!("{}.{ending}", table.name));
            write_atomic(&path, &content).map_err(io(&path))?;
        }
    }
    Ok(())
}
