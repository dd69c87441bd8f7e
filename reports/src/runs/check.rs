//! Records that no run of their manifest can have written: edited, of another protocol, out of range.

use std::path::Path;

use paravt_suite::backend::Usage;
use paravt_suite::journal::check_owner;
use paravt_suite::record::{Outcome, Record};
use paravt_suite::run::Manifest;

use super::ReportError;

/// Counts and seconds beyond this are damage, and would overflow sums.
const LIMIT: u64 = 1_000_000_000_000;

/// Refuses a run with a record that does not belong to it.
pub(super) fn records(path: &Path, manifest: &Manifest, records: &[Record]) -> Result<(), ReportError> {
    for record in records {
        if let Err(message) = check_record(manifest, record) {
            let uid = record.sample.uid.clone();
            return Err(ReportError::Record { path: path.to_owned(), uid, message });
        }
    }
    Ok(())
}

/// Checks a record against the manifest of its run.
///
/// # Errors
/// The record is of another protocol, profile or split, or holds a number out of range.
pub(crate) fn check_record(manifest: &Manifest, record: &Record) -> Result<(), String> {
    check_owner(manifest, record)?;
    value(record)?;
    seconds(record)?;
    counts(record)
}

/// The score is 0 where there is no answer.
fn value(record: &Record) -> Result<(), String> {
    let value = record.score.value;
    if value > 0.0 && (record.error.is_some() || record.score.outcome == Outcome::Error) {
        return Err(format!("score {value} beside an error"));
    }
    Ok(())
}

/// Seconds are finite, not negative, and no longer than a machine runs.
fn seconds(record: &Record) -> Result<(), String> {
    let measured = &record.measured;
    let of_calls = measured.call_seconds.iter().chain(measured.first_token_seconds.iter().flatten());
    let mut all = [measured.seconds, measured.media_seconds].into_iter().chain(of_calls.copied());
    match all.find(|seconds| !(0.0..=LIMIT as f64).contains(seconds)) {
        Some(seconds) => Err(format!("{seconds} seconds is out of range")),
        None => Ok(()),
    }
}

fn counts(record: &Record) -> Result<(), String> {
    let usages = record.transcript.calls.iter().filter_map(|call| call.usage.as_ref());
    if let Some(usage) = usages.into_iter().find(|usage| usage.in_range().is_none()) {
        let Usage { prompt_tokens, completion_tokens, reasoning_tokens } = usage;
        let thoughts = reasoning_tokens.map(|tokens| format!(" ({tokens} of reasoning)")).unwrap_or_default();
        return Err(format!(
            "{prompt_tokens} prompt and {completion_tokens} completion tokens{thoughts}: a count is out of range"
        ));
    }
    match record.transcript.dropped_calls {
        count if count as u64 > LIMIT => Err(format!("{count} dropped calls is out of range")),
        _ => Ok(()),
    }
}
