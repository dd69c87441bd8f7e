//! Numeric answers: mean relative accuracy.

/// Lowest confidence threshold of the mean relative accuracy.
const LOWEST: f64 = 0.5;
const HIGHEST: f64 = 0.95;
const THRESHOLDS: usize = 10;

/// Mean relative accuracy (arXiv:2412.14171, section 3.3): the share of the thresholds θ in 0.5, 0.55, …, 0.95
/// for which `|predicted - target| / target <= 1 - θ`. Exact at the edges: the thresholds are the doubles of
/// `numpy.linspace(0.5, 0.95, 10)`.
///
/// ```
/// use paravt_suite::scoring::number::mean_relative_accuracy;
///
/// assert_eq!(mean_relative_accuracy(9.0, 10.0), 0.9);
/// assert_eq!(mean_relative_accuracy(9.5, 10.0), 1.0);
/// ```
pub fn mean_relative_accuracy(predicted: f64, target: f64) -> f64 {
    let error = (predicted - target).abs() / target;
    let within = thresholds().filter(|threshold| error <= 1.0 - threshold).count();
    within as f64 / THRESHOLDS as f64
}

/// `numpy.linspace(LOWEST, HIGHEST, THRESHOLDS)`: multiples of the rounded step, and the last one exact.
fn thresholds() -> impl Iterator<Item = f64> {
    let step = (HIGHEST - LOWEST) / (THRESHOLDS - 1) as f64;
    let inner = (0..THRESHOLDS - 1).map(move |index| index as f64 * step + LOWEST);
    inner.chain(std::iter::once(HIGHEST))
}
