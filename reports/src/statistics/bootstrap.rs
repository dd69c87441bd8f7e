//! Intervals of means that no formula covers well, by resampling videos.

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::clustered::{Cluster, mean};

/// How to resample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bootstrap {
    /// Resamples.
    pub resamples: usize,
    /// Seed; the same seed gives the same interval on every machine and with any number of threads.
    pub seed: u64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self { resamples: 10_000, seed: 20_605 }
    }
}

/// 95 % percentile interval of the mean over rows, whole clusters drawn with replacement (Efron &
/// Tibshirani 1993, §13.3; Cameron, Gelbach & Miller 2008, REStat 90:414-427, for clusters): each
/// resample draws as many clusters as there are and takes `Σ sum / Σ n`. `None` without rows.
pub fn cluster_bootstrap(clusters: &[Cluster], plan: Bootstrap) -> Option<(f64, f64)> {
    mean(clusters)?;
    let mut means: Vec<f64> = (0..plan.resamples)
        .into_par_iter()
        .filter_map(|number| resample(clusters, plan.seed, number))
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    Some((quantile(&means, 0.025)?, quantile(&means, 0.975)?))
}

/// One resample. Each has a stream of its own, so that threads do not change what is drawn.
fn resample(clusters: &[Cluster], seed: u64, number: usize) -> Option<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(number as u64);
    let (mut sum, mut n) = (0.0, 0);
    // A range of u32 draws half the random bits that one of usize would.
    let count = u32::try_from(clusters.len()).ok()?;
    for _ in 0..count {
        let cluster = &clusters[random.random_range(0..count) as usize];
        sum += cluster.sum;
        n += cluster.n;
    }
    (n > 0).then(|| sum / n as f64)
}

/// Quantile of sorted values, linear between neighbours (type 7 of Hyndman & Fan 1996, numpy's default).
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let position = share * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (position.floor() as usize, position.ceil() as usize);
    Some(sorted[low] + (position - position.floor()) * (sorted[high] - sorted[low]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_interval_and_another_one_hardly_differs() {
        let clusters: Vec<_> = (0..200).map(|c| Cluster { sum: f64::from(c % 7) / 3.0, n: 3 }).collect();
        let first = cluster_bootstrap(&clusters, Bootstrap::default()).unwrap();
        assert_eq!(cluster_bootstrap(&clusters, Bootstrap::default()), Some(first));
        let other = cluster_bootstrap(&clusters, Bootstrap { seed: 1, ..Bootstrap::default() }).unwrap();
        assert_ne!(first, other);
        assert!((first.0 - other.0).abs() < 0.003 && (first.1 - other.1).abs() < 0.003);
        assert_eq!(cluster_bootstrap(&[], Bootstrap::default()), None);
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.75), Some(3.0));
        assert_eq!(quantile(&[1.0], 0.975), Some(1.0));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
