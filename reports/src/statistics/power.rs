//! What a sample of this size could have shown.

use super::normal::{Z95, cdf};

/// Chance with which a difference should be found.
pub const POWER: f64 = 0.8;

/// Smallest true difference that a two-sided test at 5 % finds with probability [`POWER`], given the
/// standard error of the measured one: the `δ` that solves
/// `Φ(δ/SE - z) + Φ(-δ/SE - z) = POWER` (Cohen 1988, §2; both tails counted, as statsmodels does).
pub fn minimal_detectable_difference(standard_error: f64) -> f64 {
    let found = |shift: f64| cdf(shift - Z95) + cdf(-shift - Z95);
    // The power grows with the shift; sixty halvings of [0, 10] are below a float's resolution.
    let (mut low, mut high) = (0.0, 10.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if found(middle) < POWER { low = middle } else { high = middle }
    }
    0.5 * (low + high) * standard_error
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule of thumb for 80 % power: 2.8 standard errors.
    #[test]
    fn about_two_point_eight_standard_errors() {
        assert!((minimal_detectable_difference(1.0) - 2.8).abs() < 0.01);
        assert_eq!(minimal_detectable_difference(0.0), 0.0);
    }
}
