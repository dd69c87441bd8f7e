//! Sample files of other harnesses as rows of one form.

mod columns;
mod inspect;
mod join;
mod lmms_eval;
mod log;
mod members;
mod run;
mod spreadsheet;
mod values;
mod vlmevalkit;

use std::path::{Path, PathBuf};

use paravt_files::read_limited;

pub use columns::{Columns, TEMPLATE};
pub use join::join;
pub use log::{Failure, Log, Row, Tool, failure};
pub use run::{Imported, Split, run, write};

use values::Value;

/// Bytes that a file may have, and what it may grow to.
const MAX_FILE: u64 = 2 << 30;

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum ImportError {
    /// The file cannot be opened or read.
    #[error("{path}: cannot be read: {source}", path = .path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// The file is not of the kind that its name or first bytes say.
    #[error("{path}: {message}", path = .path.display())]
    Format { path: PathBuf, message: String },
    /// A row cannot be used.
    #[error("{path}: row {place}: {message}", path = .path.display())]
    Row { path: PathBuf, place: usize, message: String },
    /// A plain table, of which nobody said what its columns are.
    #[error(
        "{path}: a plain table; say with --columns FILE what its columns are. It has: {columns}\nhint: for example\n{TEMPLATE}",
        path = .path.display()
    )]
    NoColumns { path: PathBuf, columns: String },
    /// A mapping file that cannot be used.
    #[error("{path}: {message}", path = .path.display())]
    Columns { path: PathBuf, message: String },
    /// The rows are not those of the split that they are said to be of.
    #[error("{path}: {message}", path = .path.display())]
    Join { path: PathBuf, message: String },
}

/// What is wrong inside of a file; the caller names the file.
pub(crate) enum Problem {
    File(String),
    Row(usize, String),
}

impl From<String> for Problem {
    fn from(message: String) -> Self {
        Self::File(message)
    }
}

impl Problem {
    fn at(self, path: &Path) -> ImportError {
        let path = path.to_owned();
        match self {
            Self::File(message) => ImportError::Format { path, message },
            Self::Row(place, message) => ImportError::Row { path, place, message },
        }
    }
}

/// Reads one log. Its kind follows from its content; a plain table needs `columns`. Several files are parts of one log.
///
/// # Errors
/// A file that cannot be read, is damaged, is a plain table without a mapping, or has a row that cannot be used.
pub fn read(paths: &[PathBuf], columns: Option<&Columns>) -> Result<Log, ImportError> {
    let mut logs = paths.iter().map(|path| read_part(path, columns));
    let mut log = logs.next().transpose()?.unwrap_or_default();
    for part in logs {
        log.append(part?);
    }
    Ok(log)
}

fn read_part(path: &Path, columns: Option<&Columns>) -> Result<Log, ImportError> {
    let io = |source| ImportError::Io { path: path.to_owned(), source };
    let bytes = read_limited(path, MAX_FILE).map_err(io)?;
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let sum = paravt_files::sha256(&bytes);
    let content = values::Content::of(path, bytes).map_err(|problem| problem.at(path))?;
    let log = match (content, columns) {
        (content, Some(columns)) => columns.log(content.rows()?.as_slice()),
        (values::Content::Inspect(log), None) => inspect::log(&log),
        (content, None) => {
            let rows = content.rows()?;
            let first = rows.first().map(|row| &row.1);
            if first.is_some_and(lmms_eval::is_sample) {
                lmms_eval::log(&rows, &file)
            } else if first.is_some_and(vlmevalkit::is_row) {
                vlmevalkit::log(&rows, &file)
            } else {
                let columns = first.and_then(Value::as_object).map(|row| row.keys().cloned().collect());
                let columns = columns.unwrap_or_else(Vec::new).join(", ");
                return Err(ImportError::NoColumns { path: path.to_owned(), columns });
            }
        }
    };
    let mut log = log.map_err(|problem| problem.at(path))?;
    log.files.insert(file, sum);
    Ok(log)
}

impl From<Problem> for ImportError {
    fn from(problem: Problem) -> Self {
        problem.at(Path::new(""))
    }
}
