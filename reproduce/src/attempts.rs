//! The attempts at a stage, in a file of its folder: when each began, and when and how it ended.

use std::io::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Lines of JSON, one at the beginning and one at the end of each attempt. Hidden: no part of the result.
const FILE: &str = ".attempts.jsonl";

/// One attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// When it began, in seconds since 1970.
    pub began: f64,
    /// The process that made it.
    pub pid: u32,
    /// When it ended; `None` while it runs, and for one whose process was killed.
    pub ended: Option<f64>,
    /// How it ended: `complete`, `incomplete`, `interrupted`, or `failed` by an error.
    pub outcome: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Began { began: f64, pid: u32 },
    Ended { ended: f64, outcome: String },
}

/// Seconds since 1970.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

fn append(folder: &Path, line: &Line) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(folder.join(FILE))?;
    file.write_all(format!("{}\n", serde_json::to_string(line)?).as_bytes())
}

/// Notes that an attempt begins.
pub(crate) fn begin(folder: &Path) -> std::io::Result<()> {
    append(folder, &Line::Began { began: now(), pid: std::process::id() })
}

/// Notes how the attempt that was begun last has ended.
pub(crate) fn end(folder: &Path, outcome: String) -> std::io::Result<()> {
    append(folder, &Line::Ended { ended: now(), outcome })
}

/// The attempts at the stage of a folder, the first one first; none for one that an older version made.
pub fn read(folder: &Path) -> Vec<Attempt> {
    let text = std::fs::read_to_string(folder.join(FILE)).unwrap_or_default();
    let mut attempts: Vec<Attempt> = Vec::new();
    for line in text.lines() {
        // A line that a crash cut off says nothing.
        match (serde_json::from_str(line), attempts.last_mut()) {
            (Ok(Line::Began { began, pid }), _) => {
                attempts.push(Attempt { began, pid, ended: None, outcome: None });
            }
            (Ok(Line::Ended { ended, outcome }), Some(last)) => {
                (last.ended, last.outcome) = (Some(ended), Some(outcome));
            }
            _ => {}
        }
    }
    attempts
}

/// Seconds that were worked on the stage of a folder. A last attempt without an end counts to `now` where it still runs, else
/// to the last change of a file in the folder; of one before, nobody knows how long it worked.
pub(crate) fn seconds(folder: &Path, now: Option<f64>) -> f64 {
    let changed = || {
        let times = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let last = times.filter_map(|entry| entry.metadata().ok()?.modified().ok()).max();
        let last = last.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        last.map_or(0.0, |time| time.as_secs_f64())
    };
    let mut attempts = read(folder);
    if let Some(open) = attempts.last_mut() {
        open.ended.get_or_insert_with(|| now.unwrap_or_else(changed));
    }
    attempts.iter().filter_map(|attempt| Some((attempt.ended? - attempt.began).max(0.0))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_read_back_and_their_time_is_added_up() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!((read(dir.path()), seconds(dir.path(), None)), (Vec::new(), 0.0));
        let lines = "{\"began\":100.0,\"pid\":7}\n{\"ended\":160.0,\"outcome\":\"interrupted\"}\n{\"beg\n{\"began\":1e12,\"pid\":8}\n";
        std::fs::write(dir.path().join(FILE), lines).unwrap();
        begin(dir.path()).unwrap();
        end(dir.path(), "complete".to_owned()).unwrap();
        let attempts = read(dir.path());
        assert_eq!(attempts.len(), 3);
        assert_eq!((attempts[0].pid, attempts[0].outcome.as_deref()), (7, Some("interrupted")));
        assert_eq!((attempts[1].ended, attempts[2].outcome.as_deref()), (None, Some("complete")));
        // The second began after every change of a file.
        let seconds = seconds(dir.path(), None);
        assert!((60.0..120.0).contains(&seconds), "{seconds}");
    }
}
