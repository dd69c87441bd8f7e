//! Paired comparison of two runs on the same samples: with and without tools, parallel and
//! sequential, two models, two commits.

mod pairs;
mod show;

use paravt_suite::task::Metric;
use serde::Serialize;

use crate::runs::{ReportError, Run};
use crate::statistics::{
    Bootstrap, Flips, PairedMean, cluster_bootstrap, holm, mcnemar_exact, minimal_detectable_difference,
    paired_mean,
};

pub use pairs::{Flip, Pairs};
pub use show::{markdown, tables, terminal};

/// Two sets of runs, split by split.
#[derive(Debug, Clone, Serialize)]
pub struct Ablation {
    /// Splits that both have, in the order of A.
    pub splits: Vec<Pair>,
    /// Splits that only one of them has.
    pub unmatched: Vec<String>,
}

/// One split in both runs. Values are shares; `b` less `a`.
#[derive(Debug, Clone, Serialize)]
pub struct Pair {
    /// Split.
    pub task: String,
    /// For people.
    pub title: String,
    /// `accuracy` or `mIoU`.
    pub metric: &'static str,
    /// Name of A.
    pub name_a: String,
    /// Name of B.
    pub name_b: String,
    /// What differs between the two plans.
    pub differs: Vec<String>,
    /// Samples in both.
    pub n: usize,
    /// Samples that only one of them scored; they are left out.
    pub unpaired: usize,
    /// Mean of A over the pairs.
    pub a: f64,
    /// Mean of B over the pairs.
    pub b: f64,
    /// Difference, clustered by video.
    pub mean: PairedMean,
    /// 95 % interval of the difference: normal for accuracy, bootstrap for IoU.
    pub interval: (f64, f64),
    /// McNemar's exact test for accuracy, the clustered normal one for IoU.
    pub p: f64,
    /// The same after Holm's correction over the splits.
    pub p_holm: f64,
    /// Smallest difference that this many pairs find with 80 % power.
    pub detectable: f64,
    /// Answers that turned; for IoU, across 0.5.
    pub flips: Flips,
    /// Which.
    pub flipped: Vec<Flip>,
    /// Tokens a sample that B takes more.
    pub extra_tokens: f64,
    /// Seconds a sample that B takes more.
    pub extra_seconds: f64,
}

impl Pair {
    /// Extra tokens and seconds a sample for each point gained; `None` without a gain.
    pub fn cost_per_point(&self) -> Option<(f64, f64)> {
        let points = 100.0 * self.mean.difference;
        (points > 0.0).then(|| (self.extra_tokens / points, self.extra_seconds / points))
    }
}

/// Compares two sets of runs.
///
/// # Errors
/// Runs of different profiles, which are never mixed, or no split in common.
pub fn compare(a: &[Run], b: &[Run]) -> Result<Ablation, ReportError> {
    let find = |runs: &'_ [Run], task: &str| runs.iter().position(|run| run.manifest.task.name == task);
    let mut splits = Vec::new();
    let mut unmatched = Vec::new();
    for run in a {
        match find(b, &run.manifest.task.name) {
            Some(index) => splits.push(pair(run, &b[index])?),
            None => unmatched.push(run.manifest.task.name.clone()),
        }
    }
    let only_b = b.iter().map(|run| &run.manifest.task.name).filter(|task| find(a, task).is_none());
    unmatched.extend(only_b.cloned());
    if splits.is_empty() {
        return Err(ReportError::NothingInCommon);
    }
    let adjusted = holm(&splits.iter().map(|pair| pair.p).collect::<Vec<_>>());
    for (pair, p) in splits.iter_mut().zip(adjusted) {
        pair.p_holm = p;
    }
    Ok(Ablation { splits, unmatched })
}

fn pair(a: &Run, b: &Run) -> Result<Pair, ReportError> {
    let (first, second) = (&a.manifest, &b.manifest);
    if first.plan.profile != second.plan.profile {
        let (a, b) = (first.plan.profile.to_string(), second.plan.profile.to_string());
        return Err(ReportError::Profiles { task: first.task.name.clone(), a, b });
    }
    let grounding = matches!(first.task.metric, Metric::Grounding { .. });
    let pairs = Pairs::of(a, b)?;
    let clusters = pairs.differences()?;
    let Some(mean) = paired_mean(&clusters) else {
        return Err(ReportError::NothingInCommon);
    };
    let (flips, flipped) = pairs.flips()?;
    let interval = match grounding {
        true => cluster_bootstrap(&clusters, Bootstrap::default()).unwrap_or(mean.interval),
        false => mean.interval,
    };
    let p = if grounding { mean.p } else { mcnemar_exact(flips) };
    let means = pairs.means()?;
    Ok(Pair {
        task: first.task.name.clone(),
        title: first.task.title.clone(),
        metric: if grounding { "mIoU" } else { "accuracy" },
        name_a: first.called(),
        name_b: second.called(),
        differs: first.differences(second),
        n: pairs.len(),
        unpaired: pairs.unpaired,
        a: means.a,
        b: means.b,
        mean,
        interval,
        p,
        p_holm: p,
        detectable: minimal_detectable_difference(mean.standard_error),
        flips,
        flipped,
        extra_tokens: means.tokens,
        extra_seconds: means.seconds,
    })
}
