//! Intervals for shares and means: pure functions of plain data.

use std::collections::BTreeMap;

/// Standard normal quantile of a two-sided 95 % interval.
pub const Z95: f64 = 1.959_963_984_540_054;

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

/// Standard error of a mean whose rows come in clusters, here the questions about one video
/// (Miller 2024, "Adding Error Bars to Evals", arXiv 2411.00640):
/// `sqrt(Σ_c (Σ_{i in c} (s_i - mean))²) / n`. `None` without rows.
pub fn clustered_standard_error<'a>(rows: impl IntoIterator<Item = (&'a str, f64)>) -> Option<f64> {
    let rows: Vec<(&str, f64)> = rows.into_iter().collect();
    if rows.is_empty() {
        return None;
    }
    let n = rows.len() as f64;
    let mean = rows.iter().map(|(_, score)| score).sum::<f64>() / n;
    let mut clusters: BTreeMap<&str, f64> = BTreeMap::new();
    for (cluster, score) in &rows {
        *clusters.entry(cluster).or_default() += score - mean;
    }
    Some(clusters.values().map(|sum| sum * sum).sum::<f64>().sqrt() / n)
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
