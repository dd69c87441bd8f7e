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
pub fn mean<'a>(clusters: impl IntoIterator<Item = &'a Cluster>) -> Option<f64> {
    let add = |(sum, n), cluster: &Cluster| (sum + cluster.sum, n + cluster.n);
    let (sum, n) = clusters.into_iter().fold((0.0, 0), add);
    (n > 0).then(|| sum / n as f64)
}
