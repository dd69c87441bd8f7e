//! Shares.

use super::normal::Z95;

/// Wilson score interval of `hits` out of `n` at 95 % (Wilson 1927, JASA 22:209-212):
/// `(p + z²/2n ± z·sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n)`. `None` when `n` is 0 or below `hits`.
pub fn wilson(hits: usize, n: usize) -> Option<(f64, f64)> {
    if n == 0 || hits > n {
        return None;
    }
    let (p, n) = (hits as f64 / n as f64, n as f64);
    let z2 = Z95 * Z95;
    let centre = p + z2 / (2.0 * n);
    let half = Z95 * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    let scale = 1.0 + z2 / n;
    Some((((centre - half) / scale).max(0.0), ((centre + half) / scale).min(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilson_agrees_with_the_textbook() {
        let (low, high) = wilson(5, 10).unwrap();
        assert!((low - 0.236_593).abs() < 1e-5 && (high - 0.763_407).abs() < 1e-5);
        assert_eq!(wilson(0, 0), None);
        assert_eq!(wilson(0, 10).unwrap().0, 0.0);
    }
}
