//! Two runs on the same samples.

use serde::Serialize;

use super::clustered::{Cluster, mean, standard_error};
use super::normal::{Z95, two_sided_p};

/// Mean difference of paired values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PairedMean {
    /// Mean of `b - a`.
    pub difference: f64,
    /// Its standard error, clustered by video.
    pub standard_error: f64,
    /// 95 % interval.
    pub interval: (f64, f64),
    /// Two-sided p-value of no difference, normal approximation.
    pub p: f64,
}

/// Mean of the per-sample differences with an interval clustered by video (Miller 2024, §4.2):
/// the differences are one column of values, `d̄ ± z·SE_clustered(d)`. `None` without rows.
pub fn paired_mean(differences: &[Cluster]) -> Option<PairedMean> {
    let difference = mean(differences)?;
    let standard_error = standard_error(differences)?;
    let interval = (difference - Z95 * standard_error, difference + Z95 * standard_error);
    let p = match (standard_error > 0.0, difference == 0.0) {
        (true, _) => two_sided_p(difference / standard_error),
        (false, true) => 1.0,
        (false, false) => 0.0,
    };
    Some(PairedMean { difference, standard_error, interval, p })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_without_spread_is_certain() {
        let same = paired_mean(&[Cluster { sum: 0.0, n: 2 }, Cluster { sum: 0.0, n: 1 }]).unwrap();
        assert_eq!((same.difference, same.p, same.interval), (0.0, 1.0, (0.0, 0.0)));
        assert_eq!(paired_mean(&[Cluster { sum: -2.0, n: 2 }]).unwrap().p, 0.0);
        assert_eq!(paired_mean(&[]), None);
    }
}
