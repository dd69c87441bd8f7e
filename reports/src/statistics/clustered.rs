//! Means whose rows come in clusters: several questions share one video.

/// The rows of one video, summed up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cluster {
    /// Sum of the rows' values.
    pub sum: f64,
    /// Rows.
    pub n: usize,
}

impl From<&Cluster> for Cluster {
    fn from(cluster: &Cluster) -> Self {
        *cluster
    }
}

/// A single value is a cluster of one row.
impl From<f64> for Cluster {
    fn from(sum: f64) -> Self {
        Self { sum, n: 1 }
    }
}

impl From<&f64> for Cluster {
    fn from(sum: &f64) -> Self {
        Self::from(*sum)
    }
}

/// A mean with its cluster-robust standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusteredMean {
    /// Mean over the rows; of several groups, mean of their means.
    pub mean: f64,
    /// Its standard error (CR1).
    pub standard_error: f64,
    /// Distinct clusters.
    pub clusters: usize,
    /// Degrees of freedom of the standard error: of `G` clusters of one size `G - 1`, fewer where the mean
    /// hangs on some of them.
    pub degrees_of_freedom: f64,
    /// Typical weight of a cluster in the mean: of `G` clusters of one size `1 / G`, more where some are larger.
    pub weight: f64,
    pub rows: usize,
}

/// Mean over all rows of all clusters, or of single values. `None` without rows.
pub fn mean<C: Into<Cluster>>(rows: impl IntoIterator<Item = C>) -> Option<f64> {
    let add = |(sum, n), cluster: Cluster| (sum + cluster.sum, n + cluster.n);
    let (sum, n) = rows.into_iter().map(Into::into).fold((0.0, 0), add);
    (n > 0).then(|| sum / n as f64)
}

/// The same with its standard error, `sqrt(G/(G-1) · Σ_g (sum_g - n_g·mean)²) / n`, which is not finite for one
/// cluster. Clusters without rows are none.
pub(crate) fn clustered_mean<'a>(clusters: impl IntoIterator<Item = &'a Cluster>) -> Option<ClusteredMean> {
    let clusters: Vec<&Cluster> = clusters.into_iter().filter(|cluster| cluster.n > 0).collect();
    let mean = mean(clusters.iter().copied())?;
    let (count, rows) = (clusters.len() as f64, clusters.iter().map(|cluster| cluster.n).sum::<usize>());
    let deviation = |cluster: &&Cluster| cluster.sum - cluster.n as f64 * mean;
    let squares: f64 = clusters.iter().map(|cluster| deviation(cluster).powi(2)).sum();
    let standard_error = (count / (count - 1.0) * squares).sqrt() / rows as f64;
    let (weight, degrees_of_freedom) = spread(clusters.iter().map(|cluster| cluster.n as f64));
    Some(ClusteredMean { mean, standard_error, clusters: clusters.len(), degrees_of_freedom, weight, rows })
}

/// Typical weight and degrees of freedom of clusters with these parts of a mean, in any unit. With the weights
/// `h` as shares of all: `sqrt(Σ h³)`, the root mean square of the weight over the rows; and
/// `(Σ h²)² / Σ h⁴ - 1`, Satterthwaite's (1946, Biometrics Bull. 2:110-114) where each cluster adds `h²` to the
/// variance.
pub(super) fn spread(parts: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let [all, squares, cubes, fourths] =
        [1, 2, 3, 4].map(|power| parts.clone().map(|part| part.powi(power)).sum::<f64>());
    ((cubes / all).sqrt() / all, squares * squares / fourths - 1.0)
}
