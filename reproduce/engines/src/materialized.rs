//! The report of the stage `materialize`, `materialize.json`, beside the rows that it wrote.

use std::path::Path;

use paravt_supervise::Process;
use serde_json::Value;

use crate::error::Result;
use crate::watch::failed;

/// Number of rows in those files of `folder` whose names `is_wanted` accepts; `None` where media are missing or there is
/// no report.
pub(crate) fn written_rows(folder: &Path, is_wanted: impl Fn(&str) -> bool) -> Option<usize> {
    let report: Value = serde_json::from_slice(&std::fs::read(folder.join("materialize.json")).ok()?).ok()?;
    // The loader of reinforcement learning leaves out rows whose media are missing.
    if report.get("missing").and_then(Value::as_array).is_some_and(|missing| !missing.is_empty()) {
        return None;
    }
    let files = report.get("files")?.as_array()?;
    let rows = files.iter().filter(|file| file.get("name").and_then(Value::as_str).is_some_and(&is_wanted));
    let rows: Option<Vec<u64>> = rows.map(|file| file.get("rows")?.as_u64()).collect();
    rows.filter(|rows| !rows.is_empty()).and_then(|rows| usize::try_from(rows.iter().sum::<u64>()).ok())
}

/// Compares the rows that a program read with those that were written for it, where both are known. `read` finds the
/// former in what the log has after its first `begun` bytes.
pub(crate) fn check_rows(
    name: &'static str,
    process: &mut Process,
    begun: u64,
    written: Option<usize>,
    read: impl FnOnce(&str) -> Option<usize>,
) -> Result<()> {
    let Some(written) = written else { return Ok(()) };
    let log = std::fs::read(process.log()).unwrap_or_default();
    let log = log.get(usize::try_from(begun).unwrap_or_default()..).unwrap_or(&log);
    match read(&String::from_utf8_lossy(log)) {
        Some(read) if read != written => {
            let why = format!("it read {read} rows, and {written} were written by the stage `materialize`");
            Err(failed(name, why, process))
        }
        _ => Ok(()),
    }
}
