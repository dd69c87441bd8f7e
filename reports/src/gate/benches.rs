//! Criterion's estimates.

use std::path::Path;

use paravt_files::read_limited;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Check, GateError, Status, Timing, speed};

/// Bytes that an estimate may have.
const MAX_FILE: u64 = 1 << 20;
/// Name of the group of checks.
const GROUP: &str = "benches";

/// One benchmark's mean time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    pub name: String,
    /// Mean, nanoseconds.
    pub mean: f64,
    pub interval: (f64, f64),
}

impl Estimate {
    /// Checks the values.
    ///
    /// # Errors
    /// The fault, as a sentence.
    pub(super) fn verify(&self) -> Result<(), String> {
        let (low, high) = self.interval;
        match 0.0 < low && low <= self.mean && self.mean <= high && high.is_finite() {
            true => Ok(()),
            false => Err(format!(
                "bench {}: {} ns within {low}..{high} cannot be a mean time",
                self.name, self.mean
            )),
        }
    }
}

/// Reads `*/new/estimates.json` below criterion's folder, by name.
///
/// # Errors
/// A folder that cannot be read, or a file that is not an estimate of criterion.
pub fn read_estimates(dir: &Path) -> Result<Vec<Estimate>, GateError> {
    let mut found = Vec::new();
    collect(dir, dir, &mut found)?;
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn collect(root: &Path, dir: &Path, found: &mut Vec<Estimate>) -> Result<(), GateError> {
    let io = |source| GateError::Io { path: dir.to_owned(), source };
    for entry in std::fs::read_dir(dir).map_err(io)? {
        let entry = entry.map_err(io)?;
        let path = entry.path();
        let estimates = path.join("new/estimates.json");
        if estimates.is_file() {
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            found.push(read(&estimates, name)?);
        } else if entry.file_type().map_err(io)?.is_dir() {
            // Links are not followed: they may lead in circles.
            collect(root, &path, found)?;
        }
    }
    Ok(())
}

fn read(path: &Path, name: String) -> Result<Estimate, GateError> {
    let damaged = |message: &str| GateError::Damaged { path: path.to_owned(), message: message.to_owned() };
    let bytes =
        read_limited(path, MAX_FILE).map_err(|source| GateError::Io { path: path.to_owned(), source })?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| damaged(&error.to_string()))?;
    let mean = &value["mean"];
    let bound = |name: &str| mean["confidence_interval"][name].as_f64();
    match (mean["point_estimate"].as_f64(), bound("lower_bound"), bound("upper_bound")) {
        (Some(mean), Some(low), Some(high)) => {
            let estimate = Estimate { name, mean, interval: (low, high) };
            estimate.verify().map_err(|message| damaged(&message))?;
            Ok(estimate)
        }
        _ => Err(damaged("has no mean with an interval")),
    }
}

/// Judges benches by the history. A bench of the baseline that was not run decides nothing; one that
/// it does not name is shown as new.
pub(super) fn check(
    baseline: &[Estimate],
    now: &[Estimate],
    past: impl Fn(&str) -> Option<Vec<f64>>,
) -> (Vec<Check>, Vec<Timing>) {
    let (mut checks, mut timings) = (Vec::new(), Vec::new());
    for estimate in now {
        let milliseconds = estimate.mean / 1e6;
        let mut say = |status, message: &str| checks.push(Check::new(GROUP, &estimate.name, status, message));
        let Some(before) = baseline.iter().find(|before| before.name == estimate.name) else {
            say(Status::Skipped, &format!("{milliseconds:.3} ms; new, no baseline: add it with --write"));
            continue;
        };
        let ratio = estimate.mean / before.mean;
        let name = format!("{GROUP}/{}", estimate.name);
        match past(&name) {
            None => say(
                Status::Skipped,
                &format!("{milliseconds:.3} ms, {ratio:.2} times the baseline's; no history given"),
            ),
            Some(past) => {
                let (status, message, timing) = speed::judge(&name, "ms", milliseconds, &past);
                say(status, &format!("{message}; {ratio:.2} times the baseline's"));
                timings.push(timing);
            }
        }
    }
    for before in baseline.iter().filter(|before| now.iter().all(|now| now.name != before.name)) {
        checks.push(Check::new(GROUP, &before.name, Status::Undecided, "the bench was not run"));
    }
    (checks, timings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_looked_for_in_folders_and_not_behind_links() {
        let dir = tempfile::tempdir().unwrap();
        let bench = dir.path().join("group/bench");
        std::fs::create_dir_all(bench.join("new")).unwrap();
        let text =
            r#"{"mean":{"point_estimate":2.0,"confidence_interval":{"lower_bound":1.0,"upper_bound":3.0}}}"#;
        std::fs::write(bench.join("new/estimates.json"), text).unwrap();
        for link in ["one", "two", "three"] {
            std::os::unix::fs::symlink(dir.path(), dir.path().join("group").join(link)).unwrap();
        }
        let found = read_estimates(dir.path()).unwrap();
        assert_eq!(found.iter().map(|estimate| estimate.name.as_str()).collect::<Vec<_>>(), ["group/bench"]);
    }
}
