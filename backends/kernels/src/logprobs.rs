//! Log-probability of a token and entropy, from a row of logits, and their gradient.

use crate::math::exp;

/// Sums are kept in as many parts, which are a vector or two.
const LANES: usize = 16;

per_isa! {
    /// Log-probability of the target and entropy, in nats, under the softmax of a row of logits divided by the
    /// temperature.
    pub fn forward_row(row: &[f32], target: usize, temperature: f32) -> (f32, f32) {
        let mut largest = [f32::NEG_INFINITY; LANES];
        for part in row.chunks(LANES) {
            part.iter().zip(&mut largest).for_each(|(value, largest)| *largest = largest.max(*value));
        }
        let largest = largest.into_iter().fold(f32::NEG_INFINITY, f32::max);
        let rate = 1.0 / temperature;
        // Of e = exp(u) and of e * u, with u at most 0.
        let (mut sums, mut weighted) = ([0.0f32; LANES], [0.0f32; LANES]);
        for part in row.chunks(LANES) {
            for ((&value, sum), weighted) in part.iter().zip(&mut sums).zip(&mut weighted) {
                // A logit of minus infinity has no share, which 0 * infinity would not say.
                let u = ((value - largest) * rate).max(-87.3);
                let e = exp(u);
                *sum += e;
                *weighted += e * u;
            }
        }
        let wide = |parts: [f32; LANES]| parts.into_iter().map(f64::from).sum::<f64>();
        let (sum, weighted) = (wide(sums), wide(weighted));
        let log_sum = sum.ln();
        let logprob = f64::from(row[target] - largest) / f64::from(temperature) - log_sum;
        (logprob as f32, (log_sum - weighted / sum) as f32)
    }
}

/// Saved values for the gradient of a row.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// As of [`forward_row`].
    pub target: usize,
    /// As of [`forward_row`].
    pub temperature: f32,
    /// Result of [`forward_row`].
    pub logprob: f32,
    /// Result of [`forward_row`].
    pub entropy: f32,
    /// Gradient of the outcome by the log-probability.
    pub by_logprob: f32,
    /// Gradient of the outcome by the entropy.
    pub by_entropy: f32,
}

per_isa! {
    /// Gradient by the logits: one-hot minus softmax for the log-probability, -p (log p + entropy) for the entropy.
    pub fn backward_row(out: &mut [f32], row: &[f32], from: &Row) {
        let rate = 1.0 / from.temperature;
        let (by_logprob, by_entropy) = (from.by_logprob * rate, from.by_entropy * rate);
        let at_target = row[from.target];
        for (out, &value) in out.iter_mut().zip(row) {
            // Differences of logits first: large ones would lose the digits of the log-probability.
            let log_p = ((value - at_target) * rate + from.logprob).max(-87.3);
            *out = -exp(log_p) * (by_logprob + by_entropy * (log_p + from.entropy));
        }
        out[from.target] += by_logprob;
    }
}
