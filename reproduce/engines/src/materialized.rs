//! The report of the stage `materialize`, `materialize.json`, beside the rows that it wrote.

use std::path::Path;

use serde_json::Value;

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
