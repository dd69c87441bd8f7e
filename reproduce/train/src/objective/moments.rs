//! Mean and spread of rewards and advantages.

/// Mean and unbiased standard deviation; that of one value is 0.
pub(super) fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count();
    let mean = values.clone().sum::<f64>() / count.max(1) as f64;
    let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / count.saturating_sub(1).max(1) as f64).sqrt())
}
