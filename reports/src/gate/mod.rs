//! The regression gate: runs against a baseline, by a rule that the baseline declares.
//!
//! Every run is judged against the entry of its split that measured the same thing. Every check passes,
//! fails or stays undecided; no score is judged by a point estimate:
//!
//! - **same measurement**: another protocol, profile, plan, data, selection, engine, number type or model
//!   is never compared, and what differs is listed. A split that only the baseline or only the runs have is
//!   named and leaves the whole undecided.
//! - **complete**: a run with samples missing decides nothing, and no further check is made of it.
//! - **errors**, **lost frames**: fail with more than `more_errors` or `more_lost` beyond the baseline's.
//! - **score**: by the rule's [`ScoreRule`]: answers one by one for a deterministic run; else the paired
//!   effect by [`crate::decide`] with a margin of `drop_points`, all runs as one family; or the spread over
//!   training seeds.
//! - **speed**: by the history of checks on machines of the same kind ([`Entry`]); undecided, which fails
//!   nothing, until there are enough entries.

mod baseline;
mod benches;
mod error;
mod history;
mod junit;
mod measurement;
mod rule;
mod score;
mod seeds;
mod show;
mod speed;

use paravt_suite::printable::printable_line;
use paravt_suite::run::Manifest;
use serde::{Deserialize, Serialize};

use crate::contrast::{Contrast, Pair, Side};
use crate::decide::Lost;
use crate::names::Varying;
use crate::runs::{ReportError, Run};
use baseline::Split;

pub use baseline::Baseline;
pub use benches::{Estimate, read_estimates};
pub use error::GateError;
pub use history::{Entry, History, append, read as read_history};
pub use junit::junit;
pub use rule::{Rule, ScoreRule};
pub use seeds::Seeds;
pub use show::{json, markdown, terminal};
pub use speed::ENTRIES;

/// Name of an entry beside a run of the same name.
const BASELINE: &str = "baseline";
/// Before the settings in which a run differs from its entry.
const DIFFERS: &str = "differs from the baseline: ";
const NOT_RUN: &str = "the baseline has this split, and it was not run";
const NOT_IN_BASELINE: &str = "the baseline does not have this split: add it with --write";

/// Outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Does not apply here.
    Skipped,
    /// As the rule wants it.
    Pass,
    /// The interval crosses the limit, or the measurements differ.
    Undecided,
    /// Against the rule.
    Fail,
}

impl Status {
    /// As it is shown.
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
    pub name: String,
    pub status: Status,
    /// Why, with the numbers.
    pub message: String,
}

impl Check {
    /// A check without control characters: names come from run directories of others.
    fn new(group: &str, name: &str, status: Status, message: &str) -> Self {
        let line = |text: &str| printable_line(text).into_owned();
        Self { group: line(group), name: line(name), status, message: line(message) }
    }
}

/// All checks.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// In the order of the runs; what was not run at the end.
    pub checks: Vec<Check>,
    /// What the runs and the entries of the baseline answer: of a run that measured something else as well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contrasts: Vec<Contrast>,
    /// Numbers of each run for the history.
    pub scores: Vec<Score>,
    /// Times, likewise.
    pub timings: Vec<Timing>,
    pub baseline: String,
    /// Kind of machine that all runs were made on.
    pub host: Option<String>,
}

/// Seconds per sample of a run, or milliseconds of a bench.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Run or bench.
    pub name: String,
    /// The time; milliseconds for a bench.
    pub seconds: f64,
    /// Judged slower than its past, which keeps it out of what later times are compared with.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub slower: bool,
}

/// A split's score beside its baseline, in percent and points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Score {
    pub task: String,
    pub score: f64,
    pub difference: f64,
    pub interval: (f64, f64),
}

impl Verdict {
    /// The worst check.
    pub fn status(&self) -> Status {
        self.checks.iter().map(|check| check.status).max().unwrap_or(Status::Undecided)
    }
}

/// Judges runs and criterion's estimates against a baseline. Without a history no time is judged.
///
/// # Errors
/// The records of a run do not belong together.
pub fn check(
    baseline: &Baseline,
    runs: &[Run],
    estimates: Option<&[Estimate]>,
    history: Option<&[Entry]>,
) -> Result<Verdict, ReportError> {
    let hosts: Vec<String> = runs.iter().map(|run| measurement::host_fingerprint(&run.manifest)).collect();
    let mut verdict = Verdict {
        checks: Vec::new(),
        contrasts: Vec::new(),
        scores: Vec::new(),
        timings: Vec::new(),
        baseline: baseline.hash(),
        host: hosts.first().filter(|first| hosts.iter().all(|host| host == *first)).cloned(),
    };
    let past = {
        let (baseline, host) = (verdict.baseline.clone(), verdict.host.clone());
        move |name: &str| Some(speed::past(history?, &baseline, host.as_deref().unwrap_or_default(), name))
    };
    match &baseline.seeds {
        Some(seeds) => seeds.check(runs, &baseline.rule, &mut verdict)?,
        None => splits(baseline, runs, &past, &mut verdict)?,
    }
    if let Some(estimates) = estimates {
        let (checks, timings) = benches::check(&baseline.benches, estimates, past);
        verdict.checks.extend(checks);
        verdict.timings.extend(timings);
    }
    Ok(verdict)
}

/// Judges every run against its entry, and names entries without a run.
fn splits(
    baseline: &Baseline,
    runs: &[Run],
    past: &impl Fn(&str) -> Option<Vec<f64>>,
    verdict: &mut Verdict,
) -> Result<(), ReportError> {
    let rule = &baseline.rule;
    let mut judged = vec![false; baseline.splits.len()];
    let (mut fit, mut compared) = (Vec::new(), Vec::new());
    for run in runs {
        let group = group(runs, run);
        let found = match_entry(baseline, run);
        compared.extend(found.nearest().map(|index| (baseline.splits[index].run(), run)));
        match found {
            BaselineMatch::Entry(index) => {
                judged[index] = true;
                let split = &baseline.splits[index];
                let before = (split.lost.failed, split.lost.frame_less);
                if preliminary(&group, &split.manifest, before, run, rule, &mut verdict.checks) {
                    fit.push((group, split, run));
                }
            }
            BaselineMatch::Nothing(indices, message) => {
                // An entry that was run as something else is named once.
                indices.into_iter().for_each(|index| judged[index] = true);
                verdict.checks.push(Check::new(&group, "same measurement", Status::Undecided, &message));
            }
        }
    }
    verdict.contrasts = contrasts(compared);
    for ((check, score), (group, _, run)) in score::judge(&fit, rule.score).into_iter().zip(&fit) {
        verdict.checks.push(check);
        verdict.scores.extend(score);
        speed(run, group, past, verdict);
    }
    for (split, judged) in baseline.splits.iter().zip(judged) {
        if !judged {
            let task = &split.manifest.task.name;
            let several =
                baseline.splits.iter().filter(|other| other.manifest.task.name == *task).count() > 1;
            let group =
                if several { format!("{task} ({})", split.manifest.display_name()) } else { task.clone() };
            verdict.checks.push(Check::new(&group, "same measurement", Status::Undecided, NOT_RUN));
        }
    }
    Ok(())
}

/// What runs and the entries that come nearest to them answer, as `compare` of the two would say it.
fn contrasts(mut compared: Vec<(Run, &Run)>) -> Vec<Contrast> {
    let mut manifests: Vec<Manifest> = compared.iter().map(|(_, run)| run.manifest.clone()).collect();
    let entries = compared.iter().map(|(entry, _)| &entry.manifest);
    let varying = Varying::of(&entries.chain(&manifests).collect::<Vec<_>>());
    for ((entry, _), run) in compared.iter_mut().zip(&mut manifests) {
        for manifest in [&mut entry.manifest, &mut *run] {
            manifest.label = manifest.label.take().or_else(|| varying.name(manifest, &[]));
        }
        if entry.manifest.display_name() == run.display_name() {
            entry.manifest.label = Some(BASELINE.to_owned());
        }
    }
    let pairs = compared.iter().zip(&manifests).filter_map(|((entry, run), manifest)| {
        let [entry, run] = [entry, *run].map(Run::digest);
        let [entry, run] = [Side::from(&entry), Side { manifest, ..Side::from(&run) }];
        // Runs without a sample in common have nothing to compare.
        Pair::of([(0, &entry), (1, &run)]).ok()
    });
    Contrast::all(pairs.collect())
}

/// Name of a run's checks: its split, and its own name where the split was run several times.
fn group(runs: &[Run], run: &Run) -> String {
    let task = &run.manifest.task.name;
    let several = runs.iter().filter(|other| other.manifest.task.name == *task).count() > 1;
    if several { format!("{task} ({})", run.manifest.display_name()) } else { task.clone() }
}

/// Which entry of the baseline a run is judged against.
enum BaselineMatch {
    Entry(usize),
    /// None: the entry that comes nearest, if any, and why not.
    Nothing(Option<usize>, String),
}

impl BaselineMatch {
    /// The entry that the run is compared with.
    fn nearest(&self) -> Option<usize> {
        match self {
            Self::Entry(index) => Some(*index),
            Self::Nothing(index, _) => *index,
        }
    }
}

fn match_entry(baseline: &Baseline, run: &Run) -> BaselineMatch {
    let of_split = baseline
        .splits
        .iter()
        .enumerate()
        .filter(|(_, split)| split.manifest.task.name == run.manifest.task.name);
    let differences =
        |split: &Split| measurement::differences(&split.manifest, &run.manifest, &baseline.rule);
    let nearest =
        of_split.map(|(index, split)| (differences(split), index)).min_by_key(|(found, _)| found.len());
    match nearest {
        None => BaselineMatch::Nothing(None, NOT_IN_BASELINE.to_owned()),
        Some((found, index)) if found.is_empty() => BaselineMatch::Entry(index),
        Some((found, index)) => BaselineMatch::Nothing(Some(index), format!("{DIFFERS}{}", found.join("; "))),
    }
}

/// Seconds per sample against the history.
fn speed(run: &Run, group: &str, past: &impl Fn(&str) -> Option<Vec<f64>>, verdict: &mut Verdict) {
    let seconds: f64 = run.records.iter().map(|record| record.measured.seconds).sum();
    let mean = seconds / run.records.len().max(1) as f64;
    let (status, message) = match past(group) {
        None => (Status::Skipped, "no history given: --history".to_owned()),
        Some(_) if verdict.host.is_none() => {
            (Status::Skipped, "runs of several kinds of machines".to_owned())
        }
        Some(_) if mean <= 0.0 => (Status::Skipped, "no times recorded".to_owned()),
        Some(past) => {
            let (status, message, timing) = speed::judge(group, "s per sample", mean, &past);
            verdict.timings.push(timing);
            (status, message)
        }
    };
    verdict.checks.push(Check::new(group, "speed", status, &message));
}

/// The checks before the score: whether the run may be judged at all. `before` are the baseline's failed
/// samples and those without frames.
fn preliminary(
    group: &str,
    baseline: &Manifest,
    before: (usize, usize),
    run: &Run,
    rule: &Rule,
    checks: &mut Vec<Check>,
) -> bool {
    let mut say = |name, status, message: &str| checks.push(Check::new(group, name, status, message));
    let differences = measurement::differences(baseline, &run.manifest, rule);
    if !differences.is_empty() {
        let message = format!("{DIFFERS}{}", differences.join("; "));
        say("same measurement", Status::Undecided, &message);
        return false;
    }
    say("same measurement", Status::Pass, "nothing that can change an answer differs");
    let (recorded, expected) = (run.records.len(), run.manifest.expected_records());
    let message = format!("{recorded} of {expected} samples");
    if recorded != expected {
        say("complete", Status::Undecided, &format!("{message}: continue the run with --resume"));
        return false;
    }
    say("complete", Status::Pass, &message);
    let lost = Lost::of(&run.records);
    for (name, now, before, more) in [
        ("errors", lost.failed, before.0, rule.more_errors),
        ("lost frames", lost.frame_less, before.1, rule.more_lost),
    ] {
        let allowed = before.saturating_add(more);
        let status = if now > allowed { Status::Fail } else { Status::Pass };
        say(name, status, &format!("{now}, baseline {before}, allowed {allowed}"));
    }
    let answered = lost.rows < lost.of;
    if !answered {
        say("score", Status::Undecided, "every sample failed, was aborted or lost its frames");
    }
    answered
}
