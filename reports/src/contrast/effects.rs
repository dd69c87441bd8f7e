//! Paired differences of two sets of runs, over splits and seeds.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::decide::{Effect, Support};
use crate::order::group_by;
use crate::statistics::{Cluster, mean};
use crate::terminal::{points, points_interval};

/// Name of the mean of all splits.
pub const ALL: &str = "mean of the splits";

/// Difference of B and A on one split, or on the mean of all, in shares.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairedEffect {
    /// Split; `None` for the mean of all.
    pub split: Option<String>,
    /// Pairs of samples, all seeds together.
    pub pairs: usize,
    /// Mean of A over the seeds.
    pub a: f64,
    /// Mean of B over the seeds.
    pub b: f64,
    /// B less A.
    pub difference: f64,
    /// 95 % interval clustered by video; `None` for fewer than two videos.
    pub by_video: Option<(f64, f64)>,
    /// 95 % interval over training seeds (Student's t). `None` with one seed.
    pub by_seed: Option<(f64, f64)>,
    /// The estimates behind the two intervals.
    #[serde(skip)]
    pub estimates: [Option<Effect>; 2],
    pub of_seeds: Vec<f64>,
}

impl PairedEffect {
    /// The difference with its interval in words, e.g. `+67.7 points on the mean of the splits (95 % by video +55.1 to +80.3)`.
    pub(crate) fn words(&self) -> String {
        let place = match &self.split {
            Some(split) => split.clone(),
            None => format!("the {ALL}"),
        };
        let interval = self.by_video.map_or_else(
            || "no interval from one video".to_owned(),
            |interval| format!("95 % by video {}", points_interval(interval)),
        );
        format!("{} points on {place} ({interval})", points(self.difference))
    }
}

/// Both sides on one split with one seed.
pub(crate) struct Paired {
    pub split: String,
    /// Seed; without seeds the same for all.
    pub seed: u64,
    pub pairs: usize,
    /// Mean of A over the pairs.
    pub a: f64,
    pub b: f64,
    /// Sums of B less A by video.
    pub differences: BTreeMap<String, Cluster>,
}

/// The effects of pairs of runs: on the mean of the splits first, where there are several, then split by split.
pub(crate) fn effects(paired: &[Paired]) -> Vec<PairedEffect> {
    let splits = group_by(paired.iter().map(|one| (Some(one.split.as_str()), one)));
    let all = (splits.len() > 1).then(|| (None, paired.iter().collect()));
    all.into_iter().chain(splits).filter_map(|(split, paired)| effect(split, &paired)).collect()
}

fn effect(split: Option<&str>, paired: &[&Paired]) -> Option<PairedEffect> {
    let groups: Vec<BTreeMap<String, Cluster>> = paired.iter().map(|one| one.differences.clone()).collect();
    let means: Vec<f64> = groups.iter().map(|group| mean(group.values())).collect::<Option<_>>()?;
    let difference = mean(&means)?;
    let by_video = Effect::of_groups(&groups, Support::Difference);
    let of_seeds = group_by(paired.iter().zip(&means).map(|(one, mean)| (one.seed, mean)));
    let of_seeds: Vec<f64> = of_seeds.into_iter().filter_map(|(_, means)| mean(means)).collect();
    let by_seed = Effect::repetitions(&of_seeds, Support::Difference);
    Some(PairedEffect {
        split: split.map(str::to_owned),
        pairs: paired.iter().map(|one| one.pairs).sum(),
        a: mean(paired.iter().map(|one| one.a))?,
        b: mean(paired.iter().map(|one| one.b))?,
        difference,
        by_video: by_video.and_then(|estimate| estimate.interval()),
        by_seed: by_seed.and_then(|estimate| estimate.interval()),
        estimates: [by_video, by_seed],
        of_seeds,
    })
}
