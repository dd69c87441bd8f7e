//! The exact sign-flip test of a few clusters.

/// Clusters of both signs up to which all patterns of signs are counted (`2^9`); with more Student's t
/// has enough clusters.
const FEW: usize = 9;

/// One-sided p-value of "the values are below zero" (Fisher 1935, The Design of Experiments, §21): where
/// the two runs of a cluster could be exchanged, its difference is as probable with the other sign, and
/// the p-value is the share of the `2^G` patterns of signs with a sum no larger than the one seen.
/// Exact for any distribution; the smallest possible value is `1 / 2^G`. Zeros have no sign and do not
/// count. `None` with more than nine values of both signs, and without a value.
///
/// ```
/// use paravt_reports::statistics::sign_flip;
///
/// assert_eq!(sign_flip(&[-4.0; 5]), Some(1.0 / 32.0));
/// assert_eq!(sign_flip(&[-4.0, -2.0, 1.0]), Some(0.25));
/// ```
pub fn sign_flip(values: &[f64]) -> Option<f64> {
    let sizes: Vec<f64> = values.iter().map(|value| value.abs()).filter(|size| *size > 0.0).collect();
    if sizes.is_empty() {
        return None;
    }
    if values.iter().all(|value| *value <= 0.0) {
        return Some(0.5f64.powf(sizes.len() as f64));
    }
    if sizes.len() > FEW {
        return None;
    }
    // Sums of one set of values in another order differ in their last bits.
    let seen = values.iter().sum::<f64>() + ROUNDING * sizes.iter().sum::<f64>();
    let sum = |pattern: u32| {
        let signed = |(bit, size): (usize, &f64)| if pattern >> bit & 1 == 1 { -size } else { *size };
        sizes.iter().enumerate().map(signed).sum::<f64>()
    };
    let patterns = 1u32 << sizes.len();
    let as_low = (0..patterns).filter(|pattern| sum(*pattern) <= seen).count();
    Some(as_low as f64 / f64::from(patterns))
}

const ROUNDING: f64 = 1e-12;

#[cfg(test)]
mod tests {
    use super::sign_flip;

    #[test]
    fn patterns_at_or_below_the_sum_are_counted() {
        assert_eq!(sign_flip(&[]), None);
        assert_eq!(sign_flip(&[0.0, 0.0]), None);
        assert_eq!(sign_flip(&[-1.0, 0.0]), Some(0.5), "a zero has no sign");
        assert_eq!(sign_flip(&[1.0; 4]), Some(1.0));
        // Equal sizes: the binomial sign test, (1 + 6) / 64 with one of six above.
        assert_eq!(sign_flip(&[-0.1, -0.1, -0.1, 0.1, -0.1, -0.1]), Some(7.0 / 64.0));
        // One large gain outweighs all losses.
        assert_eq!(sign_flip(&[-1.0, -1.0, -1.0, 10.0]), Some(9.0 / 16.0));
        assert_eq!(sign_flip(&[&[-1.0; 9][..], &[1.0]].concat()), None, "ten of both signs");
        assert_eq!(sign_flip(&[-1.0; 30]), Some(0.5f64.powi(30)));
    }
}
