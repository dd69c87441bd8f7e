//! Checks over time: one JSON line each, and a page that shows them.

use std::io::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::baseline::GateError;
use super::{Score, Status, Verdict};

/// One check of the past.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Unix time, seconds.
    pub time: f64,
    /// Commit.
    pub commit: String,
    /// What the gate said.
    pub status: Status,
    /// Scores.
    pub scores: Vec<Score>,
}

impl Entry {
    /// What the history keeps of a verdict.
    pub fn of(verdict: &Verdict, commit: &str, time: f64) -> Self {
        Self { time, commit: commit.to_owned(), status: verdict.status(), scores: verdict.scores.clone() }
    }
}

/// Appends a line and returns the whole history, oldest first.
///
/// # Errors
/// The file cannot be read or written, or holds something else.
pub fn append(path: &Path, entry: &Entry) -> Result<Vec<Entry>, GateError> {
    let io = |source| GateError::Io { path: path.to_owned(), source };
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).map_err(io)?;
    // Plain structs with string keys: serialising them cannot fail.
    let line = serde_json::to_string(entry).unwrap_or_default() + "\n";
    file.write_all(line.as_bytes()).map_err(io)?;
    let text = std::fs::read_to_string(path).map_err(io)?;
    let parse = |(index, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| GateError::Damaged {
            path: path.to_owned(),
            message: format!("line {}: {error}", index + 1),
        })
    };
    text.lines().enumerate().map(parse).collect()
}
