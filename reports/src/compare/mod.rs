//! Paired comparison of two runs on the same samples: with and without tools, parallel and
//! sequential, two models, two commits.

mod inputs;
mod show;

use serde::Serialize;

use crate::decide::{Effect, Family, Lost, Margin, Verdict};
use crate::protocols::{self, TwoProtocols};
use crate::runs::{ReportError, Run};

pub use crate::pairs::{Flip, Flips, Pairs};
pub use inputs::{Difference, Inputs, Same, inputs};
pub(crate) use show::{PAGE, comparison};
pub use show::{json, markdown, tables, terminal};

/// Two sets of runs, split by split.
#[derive(Debug, Clone, Serialize)]
pub struct RunComparison {
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

/// One split in both runs. Values are shares; `b` less `a`.
#[derive(Debug, Clone, Serialize)]
pub struct Pair {
    /// Split.
    pub task: String,
    /// Title of the split.
    pub title: String,
    /// Name of the mean over samples, e.g. `accuracy`.
    pub metric: &'static str,
    /// Name of A.
    pub name_a: String,
    /// Name of B.
    pub name_b: String,
    /// Differences of the two plans.
    pub differs: Vec<String>,
    /// Samples in both.
    pub n: usize,
    /// Samples that only one of them scored; they are left out.
    pub unpaired: usize,
    /// Mean of A over the pairs.
    pub a: f64,
    /// Mean of B over the pairs.
    pub b: f64,
    /// B less A.
    pub difference: f64,
    /// The same with its interval clustered by video; `None` for fewer than two videos.
    pub effect: Option<Effect>,
    /// 95 % interval of the difference; `None` where no score differs.
    pub interval: Option<(f64, f64)>,
    /// P-value of no difference: Student's t on the errors clustered by video, the test that the
    /// interval inverts.
    pub p: Option<f64>,
    /// The same after Holm's correction over the splits.
    pub p_holm: Option<f64>,
    /// Smallest difference that these pairs find with 80 % power at the corrected level; `None` where
    /// no pair differs from another.
    pub detectable: Option<f64>,
    /// Better, worse or inconclusive, with a margin of zero; unchanged where no score differs.
    pub verdict: Verdict,
    /// Answers that flipped; for IoU, across 0.5.
    pub flips: Flips,
    /// Which.
    pub flipped: Vec<Flip>,
    /// Tokens a sample that B takes more.
    pub extra_tokens: f64,
    /// Additional seconds per sample in B.
    pub extra_seconds: f64,
}

impl Pair {
    /// Additional tokens and seconds per sample for each point gained; `None` without a gain.
    pub fn cost_per_point(&self) -> Option<(f64, f64)> {
        let points = 100.0 * self.difference;
        (points > 0.0).then(|| (self.extra_tokens / points, self.extra_seconds / points))
    }
}

/// Compares two sets of runs.
///
/// # Errors
/// Runs of different profiles, which are never mixed but for [two protocols](RunComparison::protocols), several runs of one split on one side, or no
/// split in common.
pub fn compare(a: &[Run], b: &[Run]) -> Result<RunComparison, ReportError> {
    compare_runs(&a.iter().collect::<Vec<_>>(), &b.iter().collect::<Vec<_>>())
}

/// [`compare`] of runs that lie apart.
///
/// # Errors
/// As there.
pub fn compare_runs(a: &[&Run], b: &[&Run]) -> Result<RunComparison, ReportError> {
    let find = |runs: &[&Run], task: &str| runs.iter().position(|run| run.manifest.task.name == task);
    unambiguous("A", a)?;
    unambiguous("B", b)?;
    let mut splits = Vec::new();
    let (mut unmatched, mut only_a) = (Vec::new(), Vec::new());
    let mut beside = Vec::new();
    for run in a {
        let task = &run.manifest.task.name;
        let Some(other) = find(b, task).map(|index| b[index]) else {
            only_a.push(task.clone());
            continue;
        };
        let two_protocols = protocols::of_one_model([&run.manifest, &other.manifest]);
        if two_protocols {
            beside.extend([run.count()?, other.count()?]);
        }
        match pair(run, other) {
            Err(ReportError::Profiles { .. }) if two_protocols => {}
            Err(ReportError::NothingInCommon) => unmatched.push(task.clone()),
            pair => splits.push(pair?),
        }
    }
    let protocols = protocols::beside(&beside)?;
    let tasks_of_b = b.iter().map(|run| &run.manifest.task.name);
    let only_b = tasks_of_b.filter(|task| find(a, task).is_none()).cloned().collect();
    if splits.is_empty() && protocols.is_empty() {
        return Err(ReportError::NothingInCommon);
    }
    decide(&mut splits);
    Ok(RunComparison { splits, unmatched, only_a, only_b, inputs: Vec::new(), protocols })
}

/// Refuses two runs of one split: which one is meant would depend on the order of folders.
fn unambiguous(side: &'static str, runs: &[&Run]) -> Result<(), ReportError> {
    for (index, run) in runs.iter().enumerate() {
        let task = &run.manifest.task.name;
        if let Some(other) = runs[..index].iter().find(|other| other.manifest.task.name == *task) {
            let (first, second) = (other.path.clone(), run.path.clone());
            return Err(ReportError::Ambiguous { side, task: task.clone(), first, second });
        }
    }
    Ok(())
}

/// The comparable splits are a family; the power is that of its strictest test.
fn decide(splits: &mut [Pair]) {
    let mut family = Family::new("splits");
    let mut members: Vec<&mut Pair> =
        splits.iter_mut().filter(|pair| !matches!(pair.verdict, Verdict::NotComparable(_))).collect();
    for pair in &members {
        family.push(pair.effect, Margin::NONE);
    }
    let level = family.level();
    for (pair, decision) in members.iter_mut().zip(family.decide()) {
        pair.p_holm = pair.effect.map(|_| decision.p_holm);
        pair.detectable = pair.effect.and_then(|effect| effect.detectable(level));
        if pair.verdict != Verdict::Unchanged {
            pair.verdict = decision.verdict;
        }
    }
}

/// Why the two do not measure the same thing.
fn not_comparable(a: &Run, b: &Run, pairs: &Pairs) -> Vec<String> {
    let lost = [Lost::of(&a.records), Lost::of(&b.records)];
    let mut why: Vec<String> = pairs.mismatch().into_iter().collect();
    for (name, ours, theirs) in [("A", &lost[0], &lost[1]), ("B", &lost[1], &lost[0])] {
        let lost = ours.excess_over(theirs).or_else(|| ours.mostly_failed());
        why.extend(lost.map(|lost| format!("{name}: {lost}")));
    }
    why
}

fn pair(a: &Run, b: &Run) -> Result<Pair, ReportError> {
    let (first, second) = (&a.manifest, &b.manifest);
    if first.plan.profile != second.plan.profile {
        let (a, b) = (first.plan.profile.to_string(), second.plan.profile.to_string());
        return Err(ReportError::Profiles { task: first.task.name.clone(), a, b });
    }
    let pairs = Pairs::of(a, b);
    let why = not_comparable(a, b, &pairs);
    // A failed sample may be left out of its score, and all of them leave no pair.
    if pairs.is_empty() && [a, b].iter().all(|run| Lost::of(&run.records).mostly_failed().is_none()) {
        return Err(ReportError::NothingInCommon);
    }
    let effect = Effect::difference(pairs.differences().values());
    let (flips, flipped) = pairs.flips();
    let means = pairs.means();
    Ok(Pair {
        task: first.task.name.clone(),
        title: first.task.title.clone(),
        metric: first.task.metric.name(),
        name_a: first.display_name(),
        name_b: second.display_name(),
        differs: first.differences(second),
        n: pairs.len(),
        unpaired: pairs.unpaired,
        a: means.a,
        b: means.b,
        difference: means.b - means.a,
        effect,
        interval: effect.filter(|_| !pairs.are_equal()).and_then(|effect| effect.interval()),
        p: effect.map(|effect| effect.p()),
        p_holm: None,
        detectable: None,
        verdict: match why.is_empty() {
            true if pairs.are_equal() => Verdict::Unchanged,
            true => Verdict::Inconclusive,
            false => Verdict::NotComparable(why),
        },
        flips,
        flipped,
        extra_tokens: means.tokens,
        extra_seconds: means.seconds,
    })
}
