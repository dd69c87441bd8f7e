//! Several tests at once.

/// Holm's step-down adjusted p-values, in the order given (Holm 1979, Scand. J. Statist. 6:65-70):
/// of `m` sorted p-values the `k`-th becomes `max_{j ≤ k} min(1, (m - j + 1)·p_j)`.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut largest: f64 = 0.0;
    for (rank, &index) in order.iter().enumerate() {
        largest = largest.max(((p.len() - rank) as f64 * p[index]).min(1.0));
        adjusted[index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::holm;

    #[test]
    fn holm_multiplies_the_smallest_p_by_their_number() {
        assert_eq!(holm(&[0.25, 0.0625, 0.25]), [0.5, 0.1875, 0.5]);
        assert_eq!(holm(&[]), Vec::<f64>::new());
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }
}
