//! The regression gate: a run against a baseline, by a rule that the baseline declares.
//!
//! Every check passes, fails or stays undecided; nothing is judged by a point estimate alone:
//!
//! - **score**: paired on the same samples. Fails when the whole 95 % interval of the difference lies
//!   below `-drop_points`, passes when all of it lies above, else undecided.
//! - **errors**: fails with more than `more_errors` errors above the baseline's.
//! - **speed**: geometric mean of the paired ratios of seconds. Fails when its whole interval lies
//!   above `slower`, passes when all of it lies below; skipped on another machine.
//! - **complete**: a run with samples missing decides nothing.
//! - **same measurement**: another protocol hash, profile, plan, data or model is never compared.

mod baseline;
mod benches;
mod history;
mod junit;
mod show;

use serde::{Deserialize, Serialize};

use crate::compare::Pairs;
use crate::runs::{ReportError, Run};
use crate::statistics::paired_mean;

pub use baseline::{Baseline, GateError, Rule};
pub use benches::{Estimate, read_estimates};
pub use history::{Entry, append};
pub use junit::junit;
pub use show::{markdown, terminal};

/// What a check says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Does not apply here.
    Skipped,
    /// As the rule wants it.
    Pass,
    /// The data cannot tell.
    Undecided,
    /// Against the rule.
    Fail,
}

impl Status {
    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::Pass => "pass",
            Self::Undecided => "undecided",
            Self::Fail => "FAIL",
        }
    }
}

/// One check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// Split, or `benches`.
    pub group: String,
    /// Which check.
    pub name: String,
    /// What it says.
    pub status: Status,
    /// Why, with the numbers.
    pub message: String,
}

/// All checks.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// In the order of the baseline.
    pub checks: Vec<Check>,
    /// What the history remembers of each split.
    pub scores: Vec<Score>,
}

/// A split's score beside its baseline, in percent and points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// Split.
    pub task: String,
    /// Score of the run.
    pub score: f64,
    /// Difference to the baseline.
    pub difference: f64,
    /// Its interval.
    pub interval: (f64, f64),
}

impl Verdict {
    /// The worst check.
    pub fn status(&self) -> Status {
        self.checks.iter().map(|check| check.status).max().unwrap_or(Status::Undecided)
    }
}

/// Holds runs and criterion estimates against a baseline.
///
/// # Errors
/// The records cannot be paired.
pub fn check(
    baseline: &Baseline,
    runs: &[Run],
    estimates: Option<&[Estimate]>,
) -> Result<Verdict, ReportError> {
    let mut verdict = Verdict { checks: Vec::new(), scores: Vec::new() };
    for split in &baseline.splits {
        let task = &split.manifest.task.name;
        let mut say = |name: &str, status, message: String| {
            verdict.checks.push(Check { group: task.clone(), name: name.to_owned(), status, message });
        };
        let Some(run) = runs.iter().find(|run| run.manifest.task.name == *task) else {
            say("same measurement", Status::Undecided, "the split was not run".to_owned());
            continue;
        };
        let differences = split.differences(&run.manifest);
        if !differences.is_empty() {
            let message = format!("not compared: {}", differences.join("; "));
            say("same measurement", Status::Undecided, message);
            continue;
        }
        say(
            "same measurement",
            Status::Pass,
            "profile, protocol, plan, data and model are the same".to_owned(),
        );
        let (recorded, expected) = (run.records.len(), run.manifest.selection.expected);
        let complete = if recorded == expected { Status::Pass } else { Status::Undecided };
        say("complete", complete, format!("{recorded} of {expected} samples"));
        let (errors, before) =
            (run.records.iter().filter(|record| record.error.is_some()).count(), split.errors);
        let allowed = before + baseline.rule.more_errors;
        let status = if errors > allowed { Status::Fail } else { Status::Pass };
        say("errors", status, format!("{errors}, baseline {before}, allowed {allowed}"));

        let pairs = Pairs::of(&split.run(), run)?;
        let Some(mean) = paired_mean(&pairs.differences()?) else {
            say("score", Status::Undecided, "no sample in common".to_owned());
            continue;
        };
        let points = |share: f64| 100.0 * share;
        let (low, high) = (points(mean.interval.0), points(mean.interval.1));
        let limit = -baseline.rule.drop_points;
        // At the limit itself the rule is kept: a run equal to its baseline passes with a limit of 0.
        let status = judge(low >= limit, high < limit);
        let means = pairs.means()?;
        let message = format!(
            "{:.1} after {:.1}: {:+.1} points, 95 % {low:+.1}..{high:+.1}, {} pairs; limit {limit:+.1}",
            points(means.b),
            points(means.a),
            points(mean.difference),
            pairs.len()
        );
        say("score", status, message);
        let (status, message) = speed(baseline, split.same_machine(&run.manifest), &pairs)?;
        say("speed", status, message);
        verdict.scores.push(Score {
            task: task.clone(),
            score: points(means.b),
            difference: points(mean.difference),
            interval: (low, high),
        });
    }
    if let Some(estimates) = estimates {
        verdict.checks.extend(benches::check(&baseline.benches, estimates, baseline.rule.slower));
    }
    Ok(verdict)
}

fn judge(pass: bool, fail: bool) -> Status {
    match (pass, fail) {
        (true, _) => Status::Pass,
        (_, true) => Status::Fail,
        _ => Status::Undecided,
    }
}

fn speed(baseline: &Baseline, same_machine: bool, pairs: &Pairs) -> Result<(Status, String), ReportError> {
    let Some(limit) = baseline.rule.slower else {
        return Ok((Status::Skipped, "the rule sets no limit".to_owned()));
    };
    if !same_machine {
        return Ok((Status::Skipped, "another machine than the baseline's".to_owned()));
    }
    let Some(mean) = paired_mean(&pairs.log_ratios()?) else {
        return Ok((Status::Skipped, "no times".to_owned()));
    };
    let (low, high) = (mean.interval.0.exp(), mean.interval.1.exp());
    let message =
        format!("{:.2} times the seconds, 95 % {low:.2}..{high:.2}; limit {limit:.2}", mean.difference.exp());
    Ok((judge(high <= limit, low > limit), message))
}
