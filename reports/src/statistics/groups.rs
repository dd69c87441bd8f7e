//! Means over groups of rows, and over repetitions.

use std::collections::BTreeMap;

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use super::clustered::{Cluster, mean};

/// Mean of the groups' means, each counted once whatever its size, and its standard error. Rows of one
/// video are one draw, in whichever groups they are (splits that share videos, trainings that are
/// evaluated on the same ones): `sqrt(Σ_v (Σ_g (sum_gv - n_gv·mean_g) / (n_g·G))²)`, which for one group
/// is [`super::standard_error`]. `None` without groups or with an empty one.
pub fn mean_of_means(groups: &[BTreeMap<String, Cluster>]) -> Option<(f64, f64)> {
    let mut moved: BTreeMap<&str, f64> = BTreeMap::new();
    let mut total = 0.0;
    for group in groups {
        let clusters: Vec<Cluster> = group.values().copied().collect();
        let mean = mean(&clusters)?;
        let n: usize = clusters.iter().map(|cluster| cluster.n).sum();
        total += mean;
        for (video, cluster) in group {
            *moved.entry(video).or_default() += (cluster.sum - cluster.n as f64 * mean) / n as f64;
        }
    }
    let count = groups.len() as f64;
    let squares: f64 = moved.values().map(|moved| (moved / count).powi(2)).sum();
    (!groups.is_empty()).then(|| (total / count, squares.sqrt()))
}

/// 95 % interval of the mean of repetitions by Student's t: `mean ± t(0.975, n - 1)·s/√n`. `None` for
/// fewer than two.
pub fn student_interval(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    let t = StudentsT::new(0.0, 1.0, n - 1.0).ok()?.inverse_cdf(0.975);
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half = t * (variance / n).sqrt();
    Some((mean - half, mean + half))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::standard_error;

    fn group(rows: &[(&str, f64)]) -> BTreeMap<String, Cluster> {
        let mut group = BTreeMap::new();
        for (video, value) in rows {
            let cluster = group.entry((*video).to_owned()).or_insert(Cluster { sum: 0.0, n: 0 });
            cluster.sum += value;
            cluster.n += 1;
        }
        group
    }

    #[test]
    fn one_group_is_a_mean_and_the_same_group_twice_is_no_more_evidence() {
        let one = group(&[("a", 1.0), ("a", 0.0), ("b", 1.0), ("c", 0.0)]);
        let (mean, error) = mean_of_means(std::slice::from_ref(&one)).unwrap();
        let clusters: Vec<Cluster> = one.values().copied().collect();
        assert!((mean - 0.5).abs() < 1e-12 && (error - standard_error(&clusters).unwrap()).abs() < 1e-12);
        assert_eq!(mean_of_means(&[one.clone(), one.clone()]), Some((mean, error)));
        let others = one.iter().map(|(video, cluster)| (format!("other {video}"), *cluster)).collect();
        let (_, both) = mean_of_means(&[one, others]).unwrap();
        assert!((both - error / 2f64.sqrt()).abs() < 1e-12, "other videos are");
        assert_eq!(mean_of_means(&[]), None);
        assert_eq!(mean_of_means(&[BTreeMap::new()]), None);
    }

    #[test]
    fn one_repetition_tells_no_spread() {
        assert_eq!(student_interval(&[]), None);
        assert_eq!(student_interval(&[1.0]), None);
        assert_eq!(student_interval(&[2.0, 2.0, 2.0]), Some((2.0, 2.0)));
    }
}
