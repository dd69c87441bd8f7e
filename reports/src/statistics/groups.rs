//! Means over groups of rows.

use std::collections::BTreeMap;

use super::clustered::{Cluster, ClusteredMean, mean, spread};

/// Fewest clusters that a mean over groups hangs on (`(Σ h²)² / Σ h⁴` of their weights), where it has many more.
const CARRIERS: f64 = 5.0;

/// Mean of the groups' means. Rows of one video are one draw, in whichever groups they are (splits that
/// share videos, trainings that are evaluated on the same ones):
/// `sqrt(Σ_v (Σ_g c_g·(sum_gv - n_gv·mean_g) / (n_g·G))²)` with `c_g = sqrt(C_g/(C_g-1))` for the `C_g`
/// clusters of a group, which for one group is CR1. `None` without groups, with one of fewer than two
/// clusters, and where the mean hangs on fewer than five clusters of more than twice as many: a group of three
/// videos beside one of hundreds says too little of its own spread.
pub fn mean_of_means(groups: &[BTreeMap<String, Cluster>]) -> Option<ClusteredMean> {
    mean_of_merged_means(groups, &vec![1; groups.len()])
}

/// The same where some groups count as one, each as much as the others: `merged` has for each group how many groups
/// it is merged with, itself among them.
pub(crate) fn mean_of_merged_means(
    groups: &[BTreeMap<String, Cluster>],
    merged: &[usize],
) -> Option<ClusteredMean> {
    // Of each cluster, how far it moves the mean and its weight in it.
    let mut moved: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    let (mut total, mut rows, mut count) = (0.0, 0, 0.0);
    for (group, merged) in groups.iter().zip(merged) {
        let merged = *merged as f64;
        let mean = mean(group.values())?;
        let n: usize = group.values().map(|cluster| cluster.n).sum();
        let size = group.len() as f64;
        if group.len() < 2 {
            return None;
        }
        total += mean / merged;
        rows += n;
        count += 1.0 / merged;
        let correction = (size / (size - 1.0)).sqrt();
        for (video, cluster) in group {
            let part = cluster.n as f64 / n as f64 / merged;
            let moved = moved.entry(video).or_default();
            moved.0 += correction * (cluster.sum - cluster.n as f64 * mean) / n as f64 / merged;
            moved.1 += part;
        }
    }
    let squares: f64 = moved.values().map(|(moved, _)| (moved / count).powi(2)).sum();
    let (weight, degrees_of_freedom) = spread(moved.values().map(|(_, part)| *part));
    let carriers = degrees_of_freedom + 1.0;
    let is_carried = carriers >= CARRIERS || 2.0 * carriers >= moved.len() as f64;
    (!groups.is_empty() && is_carried).then(|| ClusteredMean {
        mean: total / count,
        standard_error: squares.sqrt(),
        clusters: moved.len(),
        degrees_of_freedom,
        weight,
        rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::Effect;

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
    fn duplicated_groups_do_not_narrow_the_interval() {
        let one = group(&[("a", 1.0), ("a", 0.0), ("b", 1.0), ("c", 0.0)]);
        let effect = Effect::difference(one.values()).unwrap();
        let alone = mean_of_means(std::slice::from_ref(&one)).unwrap();
        assert!((alone.mean - 0.5).abs() < 1e-12);
        assert!((alone.standard_error - effect.standard_error).abs() < 1e-12);
        // One of two rows and two of one: (4 + 1 + 1)² / (16 + 1 + 1) videos.
        assert_eq!((alone.clusters, alone.degrees_of_freedom), (3, 1.0));
        assert!((alone.weight - (10.0f64 / 64.0).sqrt()).abs() < 1e-12);
        let twice = mean_of_means(&[one.clone(), one.clone()]).unwrap();
        assert_eq!(twice, ClusteredMean { rows: 8, ..alone });
        let others = one.iter().map(|(video, cluster)| (format!("other {video}"), *cluster)).collect();
        let both = mean_of_means(&[one, others]).unwrap();
        assert!((both.standard_error - alone.standard_error / 2f64.sqrt()).abs() < 1e-12, "other videos are");
        assert_eq!((both.clusters, both.degrees_of_freedom), (6, 3.0));
        assert_eq!(mean_of_means(&[]), None);
        assert_eq!(mean_of_means(&[BTreeMap::new()]), None);
        assert_eq!(mean_of_means(&[group(&[("a", 1.0), ("a", 0.0)])]), None, "one video");
    }

    #[test]
    fn a_mean_that_hangs_on_a_few_videos_is_none() {
        let of = |name: &str, videos: usize| {
            let cluster =
                |video: usize| (format!("{name} {video}"), Cluster { sum: (video % 2) as f64, n: 1 });
            (0..videos).map(cluster).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(mean_of_means(&[of("few", 3), of("many", 300)]), None);
        assert!(mean_of_means(&[of("some", 6), of("many", 300)]).is_some());
        assert!(mean_of_means(&[of("few", 3), of("other", 3)]).is_some(), "all that there are");
    }

    #[test]
    fn merged_groups_count_as_one() {
        let groups = [
            group(&[("a", 1.0), ("b", 0.0)]),
            group(&[("a", 1.0), ("c", 1.0)]),
            group(&[("b", 0.0), ("c", 0.0)]),
        ];
        let found = mean_of_merged_means(&groups, &[1, 2, 2]).unwrap();
        assert_eq!((found.mean, found.rows, found.clusters), ((0.5 + (1.0 + 0.0) / 2.0) / 2.0, 6, 3));
        // Only the first group has any spread, with half of the weight: ±1/2 · 1/2 of each of two videos, CR1.
        let one = 2.0_f64.sqrt() * 0.5 / 2.0 / 2.0;
        assert!((found.standard_error - (2.0 * one * one).sqrt()).abs() < 1e-12, "{found:?}");
        assert_eq!(mean_of_merged_means(&groups, &[1, 1, 1]), mean_of_means(&groups));
    }
}
