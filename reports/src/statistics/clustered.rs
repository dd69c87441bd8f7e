//! Means whose rows come in clusters: several questions share one video.

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
