//! Criterion's estimates.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::baseline::GateError;
use super::{Check, Status, judge};

/// One benchmark's mean time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// Name, with its group.
    pub name: String,
    /// Mean, nanoseconds.
    pub mean: f64,
    /// Its 95 % interval.
    pub interval: (f64, f64),
}

/// Reads `*/new/estimates.json` below criterion's folder, by name.
///
/// # Errors
/// A folder that cannot be read, or a file that is no estimate.
pub fn read_estimates(dir: &Path) -> Result<Vec<Estimate>, GateError> {
    let mut found = Vec::new();
    collect(dir, dir, &mut found)?;
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn collect(root: &Path, dir: &Path, found: &mut Vec<Estimate>) -> Result<(), GateError> {
    let io = |source| GateError::Io { path: dir.to_owned(), source };
    for entry in std::fs::read_dir(dir).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let estimates = path.join("new/estimates.json");
        if estimates.is_file() {
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            found.push(read(&estimates, name)?);
        } else if path.is_dir() {
            collect(root, &path, found)?;
        }
    }
    Ok(())
}

fn read(path: &Path, name: String) -> Result<Estimate, GateError> {
    let damaged = |message: &str| GateError::Damaged { path: path.to_owned(), message: message.to_owned() };
    let bytes = std::fs::read(path).map_err(|source| GateError::Io { path: path.to_owned(), source })?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| damaged(&error.to_string()))?;
    let mean = &value["mean"];
    let bound = |name: &str| mean["confidence_interval"][name].as_f64();
    match (mean["point_estimate"].as_f64(), bound("lower_bound"), bound("upper_bound")) {
        (Some(mean), Some(low), Some(high)) => Ok(Estimate { name, mean, interval: (low, high) }),
        _ => Err(damaged("no mean with an interval")),
    }
}

/// The ratio's interval is taken from the ends of both: wider than 95 %, so that noise on a shared
/// machine makes no failure.
pub(super) fn check(baseline: &[Estimate], now: &[Estimate], slower: Option<f64>) -> Vec<Check> {
    let Some(limit) = slower else { return Vec::new() };
    let one = |before: &Estimate| {
        let (status, message) = match now.iter().find(|estimate| estimate.name == before.name) {
            None => (Status::Undecided, "the bench was not run".to_owned()),
            Some(now) => {
                let (low, high) = (now.interval.0 / before.interval.1, now.interval.1 / before.interval.0);
                let ratio = now.mean / before.mean;
                let message = format!("{ratio:.2} times the time, {low:.2}..{high:.2}; limit {limit:.2}");
                (judge(high <= limit, low > limit), message)
            }
        };
        Check { group: "benches".to_owned(), name: before.name.clone(), status, message }
    };
    baseline.iter().map(one).collect()
}
