//! A measured mean or difference with the uncertainty that its clusters leave.

use std::collections::BTreeMap;

use serde::Serialize;
use statrs::distribution::{ContinuousCDF as _, StudentsT};

use crate::statistics::{Cluster, GroupedMean, mean, mean_of_means};

/// Clusters below which nothing is decided: one video says nothing about other videos.
pub const MIN_CLUSTERS: usize = 2;
/// Clusters below which a result is marked as weak: intervals of so few cover less than they say where
/// answers of one video agree (see the `coverage` example).
pub const WEAK_CLUSTERS: usize = 10;
/// Error rate of every interval and verdict.
pub const ALPHA: f64 = 0.05;
/// Probability with which a difference of [`Effect::detectable`] size is found.
pub const POWER: f64 = 0.8;

/// Values that one row can take; it shapes the interval near the ends and where no row differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Support {
    /// Scores in `0..=1`.
    Share,
    /// Differences of two scores, in `-1..=1`.
    Difference,
    /// Anything: ratios of seconds, means over trainings.
    Unbounded,
}

/// An estimate with its cluster-robust standard error.
///
/// - standard error: CR1, `sqrt(G/(G-1) · Σ_g (Σ_{i in g} (y_i - ȳ))²) / n` (Cameron & Miller 2015,
///   J. Human Resources 50:317-372; Miller 2024, arXiv 2411.00640, for evaluations);
/// - quantiles: Student's t with `G - 1` degrees of freedom;
/// - intervals: `estimate ± t·SE` for differences; for shares the score interval (Wilson 1927) on the
///   effective sample size `p(1-p)/SE²`, which stays inside `0..=1` and has a width at its ends;
/// - without any spread between rows (all right, or no answer changed): shares count each cluster as
///   one draw (`G` in Wilson's formula), differences take the exact binomial bound on the share of
///   clusters that may still deviate, `1 - (α/2)^(1/G)`. Never a width of zero.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Effect {
    /// Mean, or mean difference, less the reference of [`less`](Self::less).
    pub estimate: f64,
    /// Cluster-robust standard error (CR1); 0 where no row differs from another.
    pub standard_error: f64,
    /// Independent clusters (videos, trainings).
    pub clusters: usize,
    /// Degrees of freedom of Student's t.
    pub degrees_of_freedom: f64,
    /// Rows, or pairs of rows.
    pub rows: usize,
    #[serde(skip)]
    support: Support,
    #[serde(skip)]
    reference: f64,
}

impl Effect {
    /// The mean of scores in `0..=1`, summed up by cluster. `None` below [`MIN_CLUSTERS`] clusters.
    pub fn share<'a>(clusters: impl IntoIterator<Item = &'a Cluster>) -> Option<Self> {
        Self::of(clusters, Support::Share)
    }

    /// The mean of paired differences in `-1..=1` (`b - a` of the same row), summed up by cluster.
    /// `None` below [`MIN_CLUSTERS`] clusters.
    pub fn difference<'a>(clusters: impl IntoIterator<Item = &'a Cluster>) -> Option<Self> {
        Self::of(clusters, Support::Difference)
    }

    /// The mean of values without bounds, e.g. logarithms of ratios of seconds. `None` below
    /// [`MIN_CLUSTERS`] clusters.
    pub fn unbounded<'a>(clusters: impl IntoIterator<Item = &'a Cluster>) -> Option<Self> {
        Self::of(clusters, Support::Unbounded)
    }

    /// The mean of repetitions (trainings with different seeds), each its own cluster. `None` below two.
    pub fn repetitions(values: &[f64], support: Support) -> Option<Self> {
        Self::of(&values.iter().map(|&sum| Cluster { sum, n: 1 }).collect::<Vec<_>>(), support)
    }

    /// The mean of the means of several groups (splits, trainings), each counted once; clusters of one
    /// name are one draw in whichever groups they are. `None` without groups, or with one of fewer than
    /// two clusters.
    pub fn of_groups(groups: &[BTreeMap<String, Cluster>], support: Support) -> Option<Self> {
        Self::of_grouped(mean_of_means(groups)?, support)
    }

    /// A mean over groups; `None` as of [`from_parts`](Self::from_parts).
    pub fn of_grouped(found: GroupedMean, support: Support) -> Option<Self> {
        let GroupedMean { mean, standard_error, clusters, degrees_of_freedom, rows } = found;
        Self::from_parts(mean, standard_error, clusters, degrees_of_freedom, rows, support)
    }

    fn of<'a>(clusters: impl IntoIterator<Item = &'a Cluster>, support: Support) -> Option<Self> {
        let clusters: Vec<&Cluster> = clusters.into_iter().filter(|cluster| cluster.n > 0).collect();
        let estimate = mean(clusters.iter().copied())?;
        // A score outside of its range has no binomial bound.
        let in_range = support != Support::Share || (0.0..=1.0).contains(&estimate);
        let support = if in_range { support } else { Support::Unbounded };
        let (count, rows) = (clusters.len(), clusters.iter().map(|cluster| cluster.n).sum::<usize>());
        let deviation = |cluster: &&Cluster| cluster.sum - cluster.n as f64 * estimate;
        let squares: f64 = clusters.iter().map(|cluster| deviation(cluster).powi(2)).sum();
        let correction = count as f64 / (count as f64 - 1.0);
        let standard_error = (correction * squares).sqrt() / rows as f64;
        Self::from_parts(estimate, standard_error, count, count as f64 - 1.0, rows, support)
    }

    /// An effect whose standard error was computed elsewhere, e.g. a mean over several splits. `None`
    /// below [`MIN_CLUSTERS`] clusters, without degrees of freedom, or with numbers that are not finite.
    pub fn from_parts(
        estimate: f64,
        standard_error: f64,
        clusters: usize,
        degrees_of_freedom: f64,
        rows: usize,
        support: Support,
    ) -> Option<Self> {
        let finite = estimate.is_finite() && standard_error.is_finite();
        (finite && clusters >= MIN_CLUSTERS && degrees_of_freedom >= 1.0).then_some(Self {
            estimate,
            // Sums of equal values differ in their last bits, which is rounding and not spread.
            standard_error: if standard_error < ROUNDING { 0.0 } else { standard_error },
            clusters,
            degrees_of_freedom,
            rows,
            support,
            reference: 0.0,
        })
    }

    /// The effect measured from `reference` instead of from zero: a published value, an expected gain.
    pub fn less(self, reference: f64) -> Self {
        Self { estimate: self.estimate - reference, reference: self.reference + reference, ..self }
    }

    /// Fewer than [`WEAK_CLUSTERS`] clusters: shown with every verdict.
    pub fn is_weak(&self) -> bool {
        self.clusters < WEAK_CLUSTERS
    }

    /// No cluster differs from the reference. Rows may still differ, where those of one cluster cancel
    /// out.
    pub fn is_unchanged(&self) -> bool {
        self.standard_error == 0.0 && self.estimate == 0.0
    }

    /// The 95 % interval.
    pub fn interval(&self) -> (f64, f64) {
        self.interval_at(ALPHA)
    }

    /// The 95 % interval of a difference to runs that scored `from` (a share) on the same samples, cut to
    /// what the difference can be there: the other score lies in `0..=1`. Zero and the estimate are
    /// possible, so that the cut changes no verdict.
    pub fn interval_from(&self, from: f64) -> (f64, f64) {
        let (low, high) = self.interval();
        // Adding zero makes a negative zero a positive one.
        (low.max(-from) + 0.0, high.min(1.0 - from) + 0.0)
    }

    /// The interval of confidence `1 - alpha`, around [`estimate`](Self::estimate).
    pub fn interval_at(&self, alpha: f64) -> (f64, f64) {
        let value = self.raw();
        let (low, high) = match self.support {
            Support::Share => self.score_interval(value, alpha),
            _ if self.standard_error > 0.0 => {
                let half = self.quantile(1.0 - 0.5 * alpha) * self.standard_error;
                (value - half, value + half)
            }
            Support::Difference => {
                let others = 1.0 - (0.5 * alpha).powf(1.0 / self.clusters as f64);
                (value - others * (value + 1.0), value + others * (1.0 - value))
            }
            Support::Unbounded => (f64::NEG_INFINITY, f64::INFINITY),
        };
        (low - self.reference, high - self.reference)
    }

    /// One-sided p-value of "the effect is above `bound`". At the ends of
    /// [`interval_at`](Self::interval_at)`(alpha)` it is `alpha / 2`: tests and intervals agree.
    pub fn p_above(&self, bound: f64) -> f64 {
        self.one_sided(self.raw(), bound + self.reference)
    }

    /// One-sided p-value of "the effect is below `bound`".
    pub fn p_below(&self, bound: f64) -> f64 {
        let mirrored = |value: f64| if self.support == Support::Share { 1.0 - value } else { -value };
        self.one_sided(mirrored(self.raw()), mirrored(bound + self.reference))
    }

    /// Two-sided p-value of "the effect is not zero".
    pub fn p(&self) -> f64 {
        (2.0 * self.p_above(0.0).min(self.p_below(0.0))).min(1.0)
    }

    /// Smallest true difference that a two-sided test at level `alpha` finds with probability
    /// [`POWER`]: the `δ` that solves `T(δ/SE - t) + T(-δ/SE - t) = POWER` with `t` the critical value
    /// and `T` the t distribution. `None` where no row differs, so that the power is unknown.
    /// It is larger than any estimate that is not significant at that level.
    pub fn detectable(&self, alpha: f64) -> Option<f64> {
        let student = self.student().filter(|_| self.standard_error > 0.0)?;
        let critical = student.inverse_cdf(1.0 - 0.5 * alpha);
        let found = |shift: f64| student.cdf(shift - critical) + student.cdf(-shift - critical);
        // The power grows with the shift; sixty halvings are below a float's resolution.
        let (mut low, mut high) = (0.0, 10.0 + 10.0 * critical);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if found(middle) < POWER { low = middle } else { high = middle }
        }
        Some(0.5 * (low + high) * self.standard_error)
    }

    fn raw(&self) -> f64 {
        self.estimate + self.reference
    }

    fn student(&self) -> Option<StudentsT> {
        StudentsT::new(0.0, 1.0, self.degrees_of_freedom).ok()
    }

    fn quantile(&self, share: f64) -> f64 {
        self.student().map_or(f64::INFINITY, |student| student.inverse_cdf(share))
    }

    /// Rows that a simple random sample would need for the same standard error; without spread each
    /// cluster is one draw.
    fn effective_rows(&self, share: f64) -> f64 {
        match self.standard_error > 0.0 {
            true => share * (1.0 - share) / self.standard_error.powi(2),
            false => self.clusters as f64,
        }
    }

    fn score_interval(&self, share: f64, alpha: f64) -> (f64, f64) {
        let t = self.quantile(1.0 - 0.5 * alpha);
        let added = t * t / self.effective_rows(share);
        let centre = (share + 0.5 * added) / (1.0 + added);
        let half = (share * (1.0 - share) * added + 0.25 * added * added).sqrt() / (1.0 + added);
        // At an end of the range rounding must not leave the share itself out.
        ((centre - half).clamp(0.0, share), (centre + half).clamp(share, 1.0))
    }

    /// P-value of "the mean of which `value` was measured is above `bound`".
    fn one_sided(&self, value: f64, bound: f64) -> f64 {
        let tail = |statistic: f64| self.student().map_or(1.0, |student| student.sf(statistic));
        match self.support {
            Support::Share if bound >= 1.0 => 1.0,
            Support::Share if bound <= 0.0 => f64::from(u8::from(value <= bound)),
            // The score test, which the score interval inverts.
            Support::Share => {
                tail((value - bound) / (bound * (1.0 - bound) / self.effective_rows(value)).sqrt())
            }
            _ if self.standard_error > 0.0 => tail((value - bound) / self.standard_error),
            Support::Difference if value <= bound => 1.0,
            Support::Difference if bound <= -1.0 => 0.0,
            Support::Difference => ((bound + 1.0) / (value + 1.0)).powf(self.clusters as f64),
            Support::Unbounded => 1.0,
        }
    }
}

/// Standard errors of scores below this are rounding of sums.
const ROUNDING: f64 = 1e-12;
