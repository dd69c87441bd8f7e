//! Sample files of other harnesses as rows of one form.

mod budget;
mod columns;
mod content;
mod error;
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

pub use columns::Columns;
pub use error::ImportError;
pub use join::join;
pub use log::{Log, Row, Score, Tool};
pub use run::{Imported, Split, run, write};

use budget::{Budget, MAX_BYTES, MAX_TEXT};
use content::Content;
use error::Problem;
use serde_json::Value;

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
    let bytes = read_limited(path, MAX_BYTES).map_err(io)?;
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let sum = paravt_files::sha256(&bytes);
    let budget = &mut Budget::default();
    let content = Content::of(path, bytes, budget).map_err(|problem| problem.at(path))?;
    let at = |problem: Problem| problem.at(path);
    let log = match (content, columns) {
        (content, Some(columns)) => columns.log(content.rows().map_err(at)?, budget),
        (Content::Inspect(log), None) => inspect::log(*log),
        (content, None) => {
            let rows = content.rows().map_err(at)?;
            let first = rows.first().map(|row| &row.1);
            if first.is_some_and(lmms_eval::is_sample) {
                lmms_eval::log(rows, &file)
            } else if first.is_some_and(vlmevalkit::is_row) {
                vlmevalkit::log(rows, &file)
            } else {
                let columns = first.and_then(Value::as_object).map(|row| row.keys().cloned().collect());
                let columns = columns.unwrap_or_else(Vec::new).join(", ");
                return Err(ImportError::NoColumns { path: path.to_owned(), columns });
            }
        }
    };
    let mut log = log.map_err(at)?;
    check(&log).map_err(at)?;
    log.files.insert(file, sum);
    Ok(log)
}

/// Refuses a log of nothing, which would pass as one without a fault, and texts of which records would hold many copies.
fn check(log: &Log) -> Result<(), Problem> {
    if log.rows.is_empty() && log.expected.is_none_or(|expected| expected == 0) {
        return Err(Problem::File("no rows in this file".to_owned()));
    }
    for row in &log.rows {
        let texts = [&row.response, &row.prediction, &row.gold, &row.error].into_iter().flatten();
        let longest = texts.chain(&row.options).chain([&row.question, &row.id]).map(String::len).max();
        if let Some(bytes) = longest.filter(|bytes| *bytes > MAX_TEXT) {
            let message = format!("a text of {bytes} bytes, at most {MAX_TEXT} are read");
            return Err(Problem::Row(row.place, message));
        }
    }
    Ok(())
}
