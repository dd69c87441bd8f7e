//! The standard normal distribution.

use statrs::function::erf::erfc;

/// Standard normal quantile of a two-sided 95 % interval.
pub const Z95: f64 = 1.959_963_984_540_054;

/// Two-sided p-value of a standard normal statistic: `2·(1 - Φ(|z|)) = erfc(|z|/√2)`; the right-hand
/// side keeps its digits far out in the tail.
pub fn two_sided_p(z: f64) -> f64 {
    erfc(z.abs() / std::f64::consts::SQRT_2)
}
