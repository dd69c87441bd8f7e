//! Paired comparison of two runs on the same samples: with and without tools, parallel and
//! sequential, two models, two commits.

mod inputs;
mod show;

use serde::Serialize;

use crate::contrast::{Contrast, Side};
use crate::protocols::{self, TwoProtocols};
use crate::runs::{ReportError, Run, RunDigest};

pub use crate::contrast::Pair;
pub use crate::pairs::{Flip, Flips, Pairs};
pub use inputs::{Difference, Inputs, Same, inputs};
pub(crate) use show::{PAGE, comparison};
pub use show::{json, markdown, tables, terminal};

/// Two sets of runs, split by split.
#[derive(Debug, Clone, Serialize)]
pub struct RunComparison {
    /// A is what was given second, because the manifests say so.
    pub is_swapped: bool,
    /// What the two sets answer: one contrast, or several where the splits differ in different things.
    pub contrasts: Vec<Contrast>,
    /// Splits that both have, in the order of A.
    pub splits: Vec<Pair>,
    /// Splits that both have, without a sample in common.
    pub unmatched: Vec<String>,
    /// Splits that only A has.
    pub only_a: Vec<String>,
    /// Splits that only B has.
    pub only_b: Vec<String>,
    /// Where the inputs of the splits part, where that was asked for ([`inputs()`]).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Inputs>,
    /// Splits on which one side is a model as in the published table, the other as by its authors. Where their profiles
    /// differ they are only here, each scored by the rules of its own number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<TwoProtocols>,
}

/// Compares two sets of runs. Where their manifests say which is B ([`contrast`](crate::contrast)), that decides, and not
/// the order of the arguments.
///
/// # Errors
/// Runs of different profiles, which are never mixed but for [two protocols](RunComparison::protocols), several runs of one split on one side, or no
/// split in common.
pub fn compare(a: &[Run], b: &[Run]) -> Result<RunComparison, ReportError> {
    let [a, b] = [a, b].map(|runs| runs.iter().map(Run::digest).collect::<Vec<_>>());
    compare_counted(&a, &b)
}

/// As [`compare`], of runs that are counted up.
pub fn compare_counted(a: &[RunDigest], b: &[RunDigest]) -> Result<RunComparison, ReportError> {
    unambiguous("A", a)?;
    unambiguous("B", b)?;
    let sides: Vec<Side<'_>> = a.iter().chain(b).map(Side::from).collect();
    let (first, second) = sides.split_at(a.len());
    let is_swapped = |(at, run): (usize, &Side<'_>)| {
        let question = run.question(&second[partner(run, at, first, second)?]);
        question.factor.is_ordered().then_some(question.is_swapped)
    };
    match first.iter().enumerate().find_map(is_swapped) {
        Some(true) => {
            let found = of_sides([second, first], [a.len(), 0], [b, a])?;
            Ok(RunComparison { is_swapped: true, ..found })
        }
        _ => of_sides([first, second], [0, a.len()], [a, b]),
    }
}

/// Position in `second` of the run that the run at a position of `first` is compared with: of the same split, else of the
/// same rows in another, which shows their subtitles or does not.
fn partner(run: &Side<'_>, at: usize, first: &[Side<'_>], second: &[Side<'_>]) -> Option<usize> {
    let task = &run.manifest.task;
    let of_split = second.iter().position(|other| other.manifest.task.name == task.name);
    of_split.or_else(|| {
        let is_left = |name: &str| {
            !first.iter().enumerate().any(|(other, run)| other != at && run.manifest.task.name == name)
        };
        second.iter().position(|other| {
            let theirs = &other.manifest.task;
            theirs.hub == task.hub && other.subtitles != run.subtitles && is_left(&theirs.name)
        })
    })
}

/// Compares two sets of runs, which lie at these positions among all.
fn of_sides(
    [a, b]: [&[Side<'_>]; 2],
    starts: [usize; 2],
    runs: [&[RunDigest]; 2],
) -> Result<RunComparison, ReportError> {
    let (mut pairs, mut beside) = (Vec::new(), Vec::new());
    let (mut unmatched, mut only_a, mut met) = (Vec::new(), Vec::new(), Vec::new());
    for (at, run) in a.iter().enumerate() {
        let task = &run.manifest.task.name;
        let Some(other) = partner(run, at, a, b) else {
            only_a.push(task.clone());
            continue;
        };
        met.push(other);
        let two_protocols = protocols::of_one_model([run.manifest, b[other].manifest]);
        if two_protocols {
            let two = [&runs[0][at], &runs[1][other]];
            two.iter().try_for_each(|run| run.check())?;
            beside.extend(two);
        }
        match Pair::of([(starts[0] + at, run), (starts[1] + other, &b[other])]) {
            Err(ReportError::Profiles { .. }) if two_protocols => {}
            Err(ReportError::NothingInCommon) => unmatched.push(task.clone()),
            pair => pairs.push(pair?),
        }
    }
    let protocols = protocols::from_manifests(&beside)?;
    let rest = b.iter().enumerate().filter(|(at, _)| !met.contains(at));
    let only_b = rest.map(|(_, run)| run.manifest.task.name.clone()).collect();
    if pairs.is_empty() && protocols.is_empty() {
        return Err(ReportError::NothingInCommon);
    }
    let contrasts = Contrast::all(pairs);
    let splits = contrasts.iter().flat_map(|contrast| contrast.pairs.clone()).collect();
    let inputs = Vec::new();
    Ok(RunComparison { is_swapped: false, contrasts, splits, unmatched, only_a, only_b, inputs, protocols })
}

/// Refuses two runs of one split: which one is meant would depend on the order of folders.
fn unambiguous(side: &'static str, runs: &[RunDigest]) -> Result<(), ReportError> {
    for (index, run) in runs.iter().enumerate() {
        let task = &run.manifest.task.name;
        if let Some(other) = runs[..index].iter().find(|other| other.manifest.task.name == *task) {
            let (first, second) = (other.path.clone(), run.path.clone());
            return Err(ReportError::Ambiguous { side, task: task.clone(), first, second });
        }
    }
    Ok(())
}
