//! A measured mean or difference with the uncertainty that its clusters leave.

use std::collections::BTreeMap;

use serde::Serialize;
use statrs::distribution::{ContinuousCDF as _, StudentsT};

use crate::statistics::{Cluster, ClusteredMean, clustered_mean, mean_of_means};

/// Clusters below which nothing is decided: one video says nothing about other videos.
pub const MIN_CLUSTERS: usize = 2;
/// Clusters below which a result is marked as weak: its interval leaves out little.
pub const WEAK_CLUSTERS: usize = 10;
/// Error rate of every interval and verdict.
pub const ALPHA: f64 = 0.05;
/// Probability with which a difference of [`Effect::detectable`] size is found.
pub const POWER: f64 = 0.8;

/// Values that one row can take.
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

impl Support {
    /// Least and largest value.
    fn range(self) -> (f64, f64) {
        match self {
            Self::Share => (0.0, 1.0),
            Self::Difference => (-1.0, 1.0),
            Self::Unbounded => (f64::NEG_INFINITY, f64::INFINITY),
        }
    }
}

/// An estimate with its cluster-robust standard error.
///
/// - standard error: CR1, `sqrt(G/(G-1) · Σ_g (Σ_{i in g} (y_i - ȳ))²) / n` (Cameron & Miller 2015,
///   J. Human Resources 50:317-372; Miller 2024, arXiv 2411.00640, for evaluations);
/// - shares and differences: the t interval after two more videos are added, one with the least value
///   throughout and one with the largest ([`interval_at`](Self::interval_at)). For pairs of one row this is
///   the adjusted Wald interval (Agresti & Min 2005, Statist. Med. 24:729-740; Bonett & Price 2012,
///   J. Educ. Behav. Statist. 37:479-488). Few videos that differ say little about how many others would:
///   without the two, coverage falls far below 95 % there. The interval always has a width;
/// - anything else: `estimate ± t·SE`, and none where no value differs from another.
///
/// The coverage of all of them is simulated (`reports/data/coverage.csv`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Effect {
    /// Mean, or mean difference, less the reference of [`less`](Self::less).
    pub estimate: f64,
    /// Cluster-robust standard error (CR1); 0 where no row differs from another.
    pub standard_error: f64,
    /// Independent clusters (videos, trainings).
    pub clusters: usize,
    /// Degrees of freedom of the standard error.
    pub degrees_of_freedom: f64,
    /// Rows, or pairs of rows.
    pub rows: usize,
    /// Weight of each of the two added videos, where that of all others is 1; 0 where none are added.
    #[serde(skip)]
    added: f64,
    #[serde(skip)]
    support: Support,
    #[serde(skip)]
    reference: f64,
}

impl Effect {
    /// The mean of scores in `0..=1`, summed up by cluster. `None` below [`MIN_CLUSTERS`] clusters.
    pub fn share<'a>(clusters: impl IntoIterator<Item = &'a Cluster>) -> Option<Self> {
        Self::share_of_draws(clusters, 1)
    }

    /// The same where every sample is in the clusters with this many draws, which are not samples of their own.
    pub(crate) fn share_of_draws<'a>(
        clusters: impl IntoIterator<Item = &'a Cluster>,
        draws: usize,
    ) -> Option<Self> {
        let found = clustered_mean(clusters)?;
        Self::of_mean(ClusteredMean { rows: found.rows.div_ceil(draws.max(1)), ..found }, Support::Share)
    }

    /// The mean of paired differences in `-1..=1` (`b - a` of the same row), summed up by cluster.
    /// `None` below [`MIN_CLUSTERS`] clusters.
    pub fn difference<'a>(clusters: impl IntoIterator<Item = &'a Cluster>) -> Option<Self> {
        Self::of_mean(clustered_mean(clusters)?, Support::Difference)
    }

    /// The mean of values without bounds, e.g. logarithms of ratios of seconds. `None` below
    /// [`MIN_CLUSTERS`] clusters.
    pub fn unbounded<'a>(clusters: impl IntoIterator<Item = &'a Cluster>) -> Option<Self> {
        Self::of_mean(clustered_mean(clusters)?, Support::Unbounded)
    }

    /// The mean of repetitions (trainings with different seeds), each its own cluster. Each is a mean of many
    /// rows itself, so that none are added. Of repetitions that end elsewhere and of which none was seen
    /// ([`unseen`]) its interval knows nothing. `None` below two.
    pub fn repetitions(values: &[f64], support: Support) -> Option<Self> {
        let values: Vec<Cluster> = values.iter().map(Cluster::from).collect();
        let effect = Self::of_mean(clustered_mean(&values)?, support)?;
        Some(Self { added: 0.0, ..effect })
    }

    /// The mean of the means of several groups (splits, trainings), each counted once; clusters of one
    /// name are one draw in whichever groups they are. `None` as of [`mean_of_means`].
    pub fn of_groups(groups: &[BTreeMap<String, Cluster>], support: Support) -> Option<Self> {
        Self::of_mean(mean_of_means(groups)?, support)
    }

    /// A mean with its standard error. `None` below [`MIN_CLUSTERS`] clusters, without degrees of freedom, or
    /// with numbers that are not finite.
    pub fn of_mean(found: ClusteredMean, support: Support) -> Option<Self> {
        let ClusteredMean { mean, standard_error, clusters, degrees_of_freedom, weight, rows } = found;
        let finite = mean.is_finite() && standard_error.is_finite();
        let (low, high) = support.range();
        // A score outside of its range says that the range is another one.
        let in_range = (low - ROUNDING..=high + ROUNDING).contains(&mean);
        let support = if in_range { support } else { Support::Unbounded };
        let rows_a_video = rows as f64 / clusters as f64;
        (finite && clusters >= MIN_CLUSTERS && degrees_of_freedom > 0.0).then_some(Self {
            estimate: mean,
            // Sums of equal values differ in their last bits, which is rounding and not spread.
            standard_error: if standard_error < ROUNDING { 0.0 } else { standard_error },
            clusters,
            degrees_of_freedom,
            rows,
            added: match support {
                Support::Unbounded => 0.0,
                // An added video deviates as much as one of this many rows whose answers correlate by
                // CORRELATION would on average, not as one whose rows are all alike.
                _ => weight * (CORRELATION + (1.0 - CORRELATION) / rows_a_video).sqrt(),
            },
            support,
            reference: 0.0,
        })
    }

    /// The effect measured from `reference` instead of from zero: a published value, an expected gain.
    pub fn less(self, reference: f64) -> Self {
        Self { estimate: self.estimate - reference, reference: self.reference + reference, ..self }
    }

    /// Fewer than [`WEAK_CLUSTERS`] clusters: shown with every verdict.
    pub(crate) fn is_weak(&self) -> bool {
        self.clusters < WEAK_CLUSTERS
    }

    /// No cluster differs from the reference. Rows may still differ, where those of one cluster cancel
    /// out.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.standard_error == 0.0 && self.estimate == 0.0
    }

    /// The 95 % interval; `None` as of [`interval_at`](Self::interval_at).
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.interval_at(ALPHA)
    }

    /// The interval of confidence `1 - alpha` around [`estimate`](Self::estimate), cut at the ends of what a
    /// mean can be. `None` for repetitions and unbounded values that are all equal: nothing is known of
    /// their spread.
    pub fn interval_at(&self, alpha: f64) -> Option<(f64, f64)> {
        let (centre, error) = self.with_added();
        let (low, high) = self.support.range();
        let half = self.student()?.inverse_cdf(1.0 - 0.5 * alpha) * error;
        // Adding zero makes a negative zero a positive one.
        let end = |end: f64| end.clamp(low, high) - self.reference + 0.0;
        (error > 0.0).then(|| (end(centre - half), end(centre + half)))
    }

    /// One-sided p-value of "the effect is above `bound`". At the ends of
    /// [`interval_at`](Self::interval_at)`(alpha)` it is `alpha / 2`: tests and intervals agree. Of equal
    /// values that have no interval it is that of the sign test, `1 / 2^G`.
    pub fn p_above(&self, bound: f64) -> f64 {
        self.one_sided(1.0, bound + self.reference)
    }

    /// One-sided p-value of "the effect is below `bound`".
    pub(crate) fn p_below(&self, bound: f64) -> f64 {
        self.one_sided(-1.0, bound + self.reference)
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
        let (_, error) = self.with_added();
        let found = |shift: f64| student.cdf(shift - critical) + student.cdf(-shift - critical);
        // The power grows with the shift; sixty halvings are below a float's resolution.
        let (mut low, mut high) = (0.0, 10.0 + 10.0 * critical);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if found(middle) < POWER { low = middle } else { high = middle }
        }
        // What is tested is drawn towards the middle of the range by the added videos.
        Some(0.5 * (low + high) * error * (1.0 + 2.0 * self.added))
    }

    fn raw(&self) -> f64 {
        self.estimate + self.reference
    }

    /// Mean and standard error with the two added videos.
    fn with_added(&self) -> (f64, f64) {
        if self.added == 0.0 {
            return (self.raw(), self.standard_error);
        }
        let (low, high) = self.support.range();
        let total = 1.0 + 2.0 * self.added;
        let centre = (self.raw() + self.added * (low + high)) / total;
        let squares = (centre - low).powi(2) + (high - centre).powi(2);
        (centre, (self.standard_error.powi(2) + self.added.powi(2) * squares).sqrt() / total)
    }

    /// Student's t; the added videos count as videos.
    fn student(&self) -> Option<StudentsT> {
        let more = if self.added > 0.0 { 2.0 } else { 0.0 };
        StudentsT::new(0.0, 1.0, self.degrees_of_freedom + more).ok()
    }

    /// P-value of "the mean is above `bound`", with a `sign` of -1 "below".
    fn one_sided(&self, sign: f64, bound: f64) -> f64 {
        let (low, high) = self.support.range();
        let (first, last) =
            if sign > 0.0 { (bound <= low, bound >= high) } else { (bound >= high, bound <= low) };
        let (centre, error) = self.with_added();
        let is_beyond = sign * (self.raw() - bound) > 0.0;
        match self.student() {
            // At an end of the range there is nothing to test.
            _ if last => 1.0,
            _ if first => f64::from(u8::from(!is_beyond)),
            Some(student) if error > 0.0 => student.sf(sign * (centre - bound) / error),
            _ if is_beyond => 0.5f64.powf(self.clusters as f64),
            _ => 1.0,
        }
    }
}

/// Share of all repetitions that may end elsewhere where none of this many did: the upper end of the exact one-sided
/// 95 % interval (Clopper & Pearson 1934, Biometrika 26:404-413) of none in `repetitions`.
pub fn unseen(repetitions: usize) -> f64 {
    1.0 - ALPHA.powf(1.0 / repetitions as f64)
}

/// Standard errors of scores below this are rounding of sums.
const ROUNDING: f64 = 1e-12;
/// Correlation of the answers about an added video.
const CORRELATION: f64 = 0.5;
