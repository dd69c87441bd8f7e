//! Checks over time: one JSON line each, and a page that shows them.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{GateError, Score, Status, Timing, Verdict};

/// Version of a line.
const VERSION: u32 = 1;

/// One check of the past.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Version of the line.
    pub version: u32,
    /// Unix time, seconds.
    pub time: f64,
    /// Version and commit of the binary that made the runs.
    pub commit: String,
    pub status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// Kind of machine, as a hash without its name; `None` where the runs are of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    pub scores: Vec<Score>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timings: Vec<Timing>,
}

impl Entry {
    /// Entry of a verdict in the history.
    pub fn of(verdict: &Verdict, commit: &str, time: f64) -> Self {
        Self {
            version: VERSION,
            time,
            commit: commit.to_owned(),
            status: verdict.status(),
            baseline: Some(verdict.baseline.clone()),
            host: verdict.host.clone(),
            scores: verdict.scores.clone(),
            timings: verdict.timings.clone(),
        }
    }
}

/// A history and what was wrong with its end.
#[derive(Debug, Default)]
pub struct History {
    /// Oldest first.
    pub entries: Vec<Entry>,
    /// Bytes of a last line that was not written whole.
    pub torn_bytes: usize,
}

/// Reads a history; a file that is not there is an empty one, and a torn last line is left out.
///
/// # Errors
/// The file cannot be read, or a whole line of it.
pub fn read(path: &Path) -> Result<History, GateError> {
    match open(path, false) {
        Ok(mut file) => Ok(parse(path, &text(path, &mut file)?)?.0),
        Err(GateError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(History::default())
        }
        Err(error) => Err(error),
    }
}

/// Appends a line and returns the whole history. A torn last line, left by a kill or a full disk, is cut
/// off; the new line is there whole or not at all.
///
/// # Errors
/// The file cannot be read or written, or holds a complete line that is not an entry; nothing is appended then.
pub fn append(path: &Path, entry: &Entry) -> Result<History, GateError> {
    let io = |source| GateError::Io { path: path.to_owned(), source };
    let mut file = open(path, true)?;
    // Two checks at once append one after the other; the lock ends with the file.
    file.lock().map_err(io)?;
    let text = text(path, &mut file)?;
    let (mut history, good) = parse(path, &text)?;
    if good < text.len() {
        file.set_len(good as u64).map_err(io)?;
    }
    let json = serde_json::to_string(entry).map_err(|error| io(error.into()))?;
    // A last line that only lacks its end is whole.
    let start = if good > 0 && !text[..good].ends_with('\n') { "\n" } else { "" };
    let written = file.write_all(format!("{start}{json}\n").as_bytes()).and_then(|()| file.sync_data());
    if let Err(error) = written {
        // Leave no torn line behind where that is possible.
        let _ = file.set_len(good as u64);
        return Err(io(error));
    }
    history.entries.push(entry.clone());
    Ok(history)
}

fn open(path: &Path, append: bool) -> Result<File, GateError> {
    // Opening a named pipe would block until its other end is opened.
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(GateError::Damaged { path: path.to_owned(), message: "not a regular file".to_owned() });
    }
    let mut options = File::options();
    let options = options.read(true).append(append).create(append);
    options.open(path).map_err(|source| GateError::Io { path: path.to_owned(), source })
}

fn text(path: &Path, file: &mut File) -> Result<String, GateError> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|source| GateError::Io { path: path.to_owned(), source })?;
    // Half a character at the end is part of a torn line.
    let good = std::str::from_utf8(&bytes).map_or_else(|error| error.valid_up_to(), str::len);
    if bytes[good..].contains(&b'\n') {
        let message = "not a history: not UTF-8".to_owned();
        return Err(GateError::Damaged { path: path.to_owned(), message });
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The entries, and the length of the text that holds them.
fn parse(path: &Path, text: &str) -> Result<(History, usize), GateError> {
    let (mut history, mut good) = (History::default(), 0);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        match entry(line) {
            Ok(entry) => history.entries.extend(entry),
            // A line that is not a complete JSON document was torn.
            Err(_) if !line.ends_with('\n') && serde_json::from_str::<serde_json::Value>(line).is_err() => {
                history.torn_bytes = line.len();
                return Ok((history, good));
            }
            Err(message) => {
                let message = format!("line {}: {message}", index + 1);
                return Err(GateError::Damaged { path: path.to_owned(), message });
            }
        }
        good += line.len();
    }
    Ok((history, good))
}

/// One line; an empty one is nothing.
fn entry(line: &str) -> Result<Option<Entry>, String> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    if line.trim().is_empty() {
        return Ok(None);
    }
    let damaged = |error: serde_json::Error| format!("{error}; remove the line");
    let Versioned { version } = serde_json::from_str(line).map_err(damaged)?;
    if version > VERSION {
        return Err(format!("written by a newer version (format {version}, this build reads {VERSION})"));
    }
    serde_json::from_str(line).map(Some).map_err(damaged)
}
