//! Simulated runs with correlated answers, for the coverage of intervals.
#![allow(dead_code, reason = "examples share it")]

use paravt_reports::decide::Effect;
use paravt_reports::statistics::Cluster;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Questions of one video.
pub(crate) const QUESTIONS: usize = 4;
/// Videos.
pub(crate) const CLUSTERS: [usize; 5] = [4, 6, 12, 24, 100];
/// Correlation of two answers about one video.
pub(crate) const CORRELATIONS: [f64; 3] = [0.0, 0.2, 0.5];

/// Standard normal quantile of a two-sided 95 % interval.
const Z95: f64 = 1.959_963_984_540_054;

/// What the rows of a simulated run are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Right or wrong, 60 % right.
    Share,
    /// Right or wrong, 90 % right.
    HighShare,
    /// IoU: 0 for three in ten, else uniform.
    Overlap,
    /// Differences of two runs: 15 % wrong to right, 10 % right to wrong.
    Difference,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Share, Self::HighShare, Self::Overlap, Self::Difference];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Share => "accuracy 60 %",
            Self::HighShare => "accuracy 90 %",
            Self::Overlap => "mean IoU",
            Self::Difference => "paired difference",
        }
    }

    /// The mean that an interval should cover.
    pub(crate) fn truth(self) -> f64 {
        match self {
            Self::Share => 0.6,
            Self::HighShare => 0.9,
            Self::Overlap => 0.35,
            Self::Difference => 0.05,
        }
    }

    /// One row from a uniform draw.
    fn row(self, draw: f64) -> f64 {
        match self {
            Self::Share => f64::from(draw < 0.6),
            Self::HighShare => f64::from(draw < 0.9),
            Self::Overlap => (draw - 0.3).max(0.0) / 0.7,
            Self::Difference => f64::from(draw < 0.15) - f64::from(draw >= 0.9),
        }
    }

    fn effect(self, clusters: &[Cluster]) -> Option<Effect> {
        match self {
            Self::Difference => Effect::difference(clusters),
            _ => Effect::share(clusters),
        }
    }
}

/// Rows of one run: each takes its video's draw with probability `√ρ` and an own one otherwise, so that
/// two rows of a video correlate by `ρ`.
fn run(kind: Kind, videos: usize, correlation: f64, random: &mut ChaCha8Rng) -> Vec<Cluster> {
    let shared = correlation.sqrt();
    let video = |_| {
        let common: f64 = random.random();
        let mut row = |_| {
            let takes: f64 = random.random();
            let own: f64 = random.random();
            kind.row(if takes < shared { common } else { own })
        };
        Cluster { sum: (0..QUESTIONS).map(&mut row).sum(), n: QUESTIONS }
    };
    (0..videos).map(video).collect()
}

/// The interval that this project had before: no correction for few clusters, normal quantile.
pub(crate) fn uncorrected(clusters: &[Cluster]) -> (f64, f64) {
    let n: usize = clusters.iter().map(|cluster| cluster.n).sum();
    let mean = clusters.iter().map(|cluster| cluster.sum).sum::<f64>() / n as f64;
    let squares = clusters.iter().map(|cluster| (cluster.sum - cluster.n as f64 * mean).powi(2));
    let half = Z95 * squares.sum::<f64>().sqrt() / n as f64;
    (mean - half, mean + half)
}

/// Shares of `draws` runs whose 95 % interval holds the true mean: uncorrected, and [`Effect`]'s.
pub(crate) fn coverage(kind: Kind, videos: usize, correlation: f64, draws: usize) -> (f64, f64) {
    let seed = 1_000 * videos as u64 + (100.0 * correlation) as u64;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let holds = |(low, high): (f64, f64)| low <= kind.truth() && kind.truth() <= high;
    let (mut before, mut now) = (0, 0);
    for _ in 0..draws {
        let clusters = run(kind, videos, correlation, &mut random);
        before += usize::from(holds(uncorrected(&clusters)));
        now += usize::from(holds(kind.effect(&clusters).unwrap().interval()));
    }
    (before as f64 / draws as f64, now as f64 / draws as f64)
}

/// Three standard errors of a simulated coverage of 95 %.
pub(crate) fn monte_carlo_error(draws: usize) -> f64 {
    3.0 * (0.05 * 0.95 / draws as f64).sqrt()
}
