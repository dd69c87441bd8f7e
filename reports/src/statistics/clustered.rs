//! Means whose rows come in clusters: several questions share one video.

use std::collections::BTreeMap;

/// The rows of one video, summed up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cluster {
    /// Sum of the rows' values.
    pub sum: f64,
    /// Rows.
    pub n: usize,
}

/// Mean over all rows of all clusters. `None` without rows.
pub fn mean(clusters: &[Cluster]) -> Option<f64> {
    let n: usize = clusters.iter().map(|cluster| cluster.n).sum();
    (n > 0).then(|| clusters.iter().map(|cluster| cluster.sum).sum::<f64>() / n as f64)
}

/// Standard error of that mean (Miller 2024, "Adding Error Bars to Evals", arXiv 2411.00640):
/// `sqrt(Σ_c (Σ_{i in c} (s_i - mean))²) / n`, where the inner sum is `sum_c - n_c·mean`.
/// `None` without rows.
pub fn standard_error(clusters: &[Cluster]) -> Option<f64> {
    let mean = mean(clusters)?;
    let n: usize = clusters.iter().map(|cluster| cluster.n).sum();
    let squares = clusters.iter().map(|cluster| (cluster.sum - cluster.n as f64 * mean).powi(2));
    Some(squares.sum::<f64>().sqrt() / n as f64)
}

/// [`standard_error`] of rows that name their cluster.
pub fn clustered_standard_error<'a>(rows: impl IntoIterator<Item = (&'a str, f64)>) -> Option<f64> {
    let mut clusters: BTreeMap<&str, Cluster> = BTreeMap::new();
    for (name, value) in rows {
        let cluster = clusters.entry(name).or_insert(Cluster { sum: 0.0, n: 0 });
        cluster.sum += value;
        cluster.n += 1;
    }
    standard_error(&clusters.into_values().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_of_one_video_are_one_draw() {
        let alone = [("a", 1.0), ("b", 0.0), ("c", 1.0), ("d", 0.0)];
        let shared = [("a", 1.0), ("b", 0.0), ("a", 1.0), ("b", 0.0)];
        assert!((clustered_standard_error(alone).unwrap() - 0.25).abs() < 1e-12);
        let error = clustered_standard_error(shared).unwrap();
        assert!((error - 0.125f64.sqrt()).abs() < 1e-12);
        assert_eq!(clustered_standard_error([]), None);
    }
}
