//! Activations, norms, rotary embedding and sums, on all cores.

use half::bf16;
use rayon::prelude::*;

use crate::gemv::dot;
use crate::init::par_init;
use crate::math::{exp, normal_cdf};
use crate::matrix::Element;

/// Elements per task.
const TASK: usize = 1 << 14;

/// Replaces values on all cores.
fn each(x: &mut [f32], part: fn(&mut [f32])) {
    x.par_chunks_mut(TASK).for_each(part);
}

/// Replaces values of x, given as many of y.
fn each_with(x: &mut [f32], y: &[f32], part: fn(&mut [f32], &[f32])) {
    x.par_chunks_mut(TASK).zip(y.par_chunks(TASK)).for_each(|(x, y)| part(x, y));
}

/// The same values in f32.
pub fn widen(x: &[bf16]) -> Vec<f32> {
    par_init(x.len(), TASK, |number, out| widen_chunk(out, &x[number * TASK..]))
}

per_isa! {
    fn widen_chunk(out: &mut [f32], x: &[bf16]) {
        out.iter_mut().zip(x).for_each(|(out, x)| *out = x.value());
    }
}

/// The nearest values in bf16; of two that are equally near the even one.
pub fn narrow(x: &[f32]) -> Vec<bf16> {
    par_init(x.len(), TASK, |number, out| narrow_chunk(out, &x[number * TASK..]))
}

per_isa! {
    fn narrow_chunk(out: &mut [bf16], x: &[f32]) {
        for (out, x) in out.iter_mut().zip(x) {
            let bits = x.to_bits();
            let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
            // A NaN stays one.
            let bits = if x.is_nan() { bits | 1 << 22 } else { nearest };
            *out = bf16::from_bits((bits >> 16) as u16);
        }
    }
}

/// silu(gate) * up, in place of the gate.
pub fn silu_mul(gate: &mut [f32], up: &[f32]) {
    each_with(gate, up, silu_mul_chunk);
}

per_isa! {
    fn silu_mul_chunk(gate: &mut [f32], up: &[f32]) {
        for (gate, up) in gate.iter_mut().zip(up) {
            *gate = *gate / (1.0 + exp(-*gate)) * up;
        }
    }
}

/// Gaussian error linear unit by tanh, in place.
pub fn gelu_tanh(x: &mut [f32]) {
    each(x, gelu_tanh_chunk);
}

per_isa! {
    fn gelu_tanh_chunk(values: &mut [f32]) {
        for value in values {
            let x = *value;
            let inner = 0.797_884_6 * (x * x * x).mul_add(0.044_715, x);
            // (1 + tanh(u)) / 2 is the logistic function of 2u.
            *value = x / (1.0 + exp(-2.0 * inner));
        }
    }
}

/// Gaussian error linear unit, exact, in place.
pub fn gelu(x: &mut [f32]) {
    each(x, gelu_chunk);
}

per_isa! {
    fn gelu_chunk(values: &mut [f32]) {
        for value in values {
            *value *= normal_cdf(*value);
        }
    }
}

/// Rotary embedding of x (n, heads, dim) by tables (n, dim), in place; rows are `row_stride` apart.
pub fn rope(x: &mut [f32], row_stride: usize, cos: &[f32], sin: &[f32], heads: usize, dim: usize) {
    let rows = x.par_chunks_mut(row_stride).zip(cos.par_chunks(dim).zip(sin.par_chunks(dim)));
    rows.with_min_len(16).for_each(|(x, (cos, sin))| rope_row(&mut x[..heads * dim], cos, sin));
}

per_isa! {
    fn rope_row(x: &mut [f32], cos: &[f32], sin: &[f32]) {
        let dim = cos.len();
        let half = dim / 2;
        for head in x.chunks_exact_mut(dim) {
            let (left, right) = head.split_at_mut(half);
            for i in 0..half {
                let (a, b) = (left[i], right[i]);
                left[i] = a * cos[i] - b * sin[i];
                right[i] = b * cos[i + half] + a * sin[i + half];
            }
        }
    }
}

/// x + y, in place of x.
pub fn add(x: &mut [f32], y: &[f32]) {
    each_with(x, y, |x, y| x.iter_mut().zip(y).for_each(|(x, y)| *x += y));
}

/// Copies y to x. On all cores: where x is fresh memory, its pages are first touched here, and clearing them in the
/// operating system takes longer than the copy.
pub fn copy(x: &mut [f32], y: &[f32]) {
    each_with(x, y, |x, y| x.copy_from_slice(y));
}

/// Adds a bias to every row of x, in place.
pub fn add_bias(x: &mut [f32], y: &[f32]) {
    x.par_chunks_mut(y.len()).with_min_len(TASK.div_ceil(y.len())).for_each(|x| add_to_row(x, y));
}

per_isa! {
    /// Adds y to one row, up to the shorter of the two.
    pub fn add_to_row(x: &mut [f32], y: &[f32]) {
        x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
    }
}

/// Weighted sums of rows of a table (any, width): ids and weights are (n, taps), the result is (n, width).
pub fn embedding_bag<T: Element>(
    table: &[T],
    width: usize,
    ids: &[u32],
    weights: &[f32],
    taps: usize,
) -> Vec<f32> {
    let rows = TASK.div_ceil(width);
    par_init(ids.len() / taps * width, rows * width, |number, out| {
        let terms = ids.chunks(taps).zip(weights.chunks(taps)).skip(number * rows);
        for (out, (ids, weights)) in out.chunks_mut(width).zip(terms) {
            for (&id, weight) in ids.iter().zip(weights) {
                let row = &table[id as usize * width..][..width];
                out.iter_mut().zip(row).for_each(|(out, value)| *out += weight * value.value());
            }
        }
    })
}

/// Maps rows of `width` to rows of a new matrix.
fn map_rows(x: &[f32], width: usize, row: impl Fn(&mut [f32], &[f32]) + Sync) -> Vec<f32> {
    let task = TASK.next_multiple_of(width);
    par_init(x.len(), task, |number, out| {
        out.chunks_mut(width).zip(x[number * task..].chunks(width)).for_each(|(out, x)| row(out, x));
    })
}

/// Rows divided by their root mean square, times weight.
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32) -> Vec<f32> {
    map_rows(x, weight.len(), |out, x| rms_norm_row(out, x, weight, eps))
}

per_isa! {
    fn rms_norm_row(out: &mut [f32], x: &[f32], weight: &[f32], eps: f32) {
        let factor = 1.0 / (dot(x, x) / x.len() as f32 + eps).sqrt();
        for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
            *out = x * factor * weight;
        }
    }
}

/// Rows normalised to mean 0 and variance 1, times weight, plus bias.
pub fn layer_norm(x: &[f32], weight: &[f32], bias: &[f32], eps: f32) -> Vec<f32> {
    map_rows(x, weight.len(), |out, x| layer_norm_row(out, x, weight, bias, eps))
}

per_isa! {
    fn layer_norm_row(out: &mut [f32], x: &[f32], weight: &[f32], bias: &[f32], eps: f32) {
        let count = x.len() as f32;
        let mut sums = [0.0f32; 16];
        for part in x.chunks(16) {
            part.iter().zip(&mut sums).for_each(|(x, sum)| *sum += x);
        }
        let mean = sums.iter().sum::<f32>() / count;
        // Two passes over the row: the difference of two large sums would lose digits.
        for (out, x) in out.iter_mut().zip(x) {
            *out = x - mean;
        }
        let factor = 1.0 / (dot(out, out) / count + eps).sqrt();
        for ((out, weight), bias) in out.iter_mut().zip(weight).zip(bias) {
            *out = *out * factor * weight + bias;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::tests::for_each_isa;

    #[test]
    fn activations_equal_their_f64_definitions_under_every_isa() {
        let x: Vec<f32> = (-2000..2000).map(|i| i as f32 / 20.0).collect();
        for_each_isa(|isa| {
            let near = |found: f32, expected: f64| {
                let error = (f64::from(found) - expected).abs();
                assert!(error <= 1e-6 * (1.0 + expected.abs()), "{isa}: {found} {expected}");
            };
            let (mut both, mut tanh) = (x.clone(), x.clone());
            silu_mul(&mut both, &x);
            gelu_tanh(&mut tanh);
            for ((found, gelu), &x) in both.into_iter().zip(tanh).zip(&x) {
                let x = f64::from(x);
                near(found, x * x / (1.0 + (-x).exp()));
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
                near(gelu, 0.5 * x * (1.0 + inner.tanh()));
            }
        });
    }

    #[test]
    fn narrowing_is_that_of_half_under_every_isa() {
        // Every bf16, and around the middle between it and the next.
        let around =
            |high: u32| [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff].map(|low| f32::from_bits(high << 16 | low));
        let x: Vec<f32> = (0..=0xffff).flat_map(around).collect();
        let bits = |x: &[bf16]| x.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        for_each_isa(|isa| {
            let found = narrow(&x);
            let wanted: Vec<bf16> = x.iter().map(|&value| bf16::from_f32(value)).collect();
            assert!(bits(&found) == bits(&wanted), "{isa}");
            assert!(bits(&narrow(&widen(&found))) == bits(&found), "{isa}");
        });
    }

    #[test]
    fn exact_gelu_equals_tabulated_values_under_every_isa() {
        // Abramowitz & Stegun, table 26.1.
        let distribution = [
            (0.0, 0.5),
            (0.5, 0.691_462_461),
            (1.0, 0.841_344_746),
            (2.0, 0.977_249_868),
            (3.0, 0.998_650_102),
        ];
        for_each_isa(|isa| {
            for (x, share) in distribution.into_iter().chain([(9.0, 1.0)]) {
                let mut found = [x as f32, -x as f32];
                gelu(&mut found);
                assert!((f64::from(found[0]) - x * share).abs() < 1e-6 * (1.0 + x), "{isa} {x}: {found:?}");
                let negative = x * (1.0 - share);
                assert!((f64::from(found[1]) + negative).abs() < 1e-6 * (1.0 + x), "{isa} {x}: {found:?}");
            }
        });
    }

    #[test]
    fn norms_equal_their_definitions_under_every_isa() {
        let x: Vec<f32> = (0..3 * 70).map(|i| (i * 31 % 17) as f32 - 3.0).collect();
        let weight: Vec<f32> = (0..70).map(|i| i as f32 / 35.0).collect();
        let bias: Vec<f32> = (0..70).map(|i| 1.0 - i as f32 / 70.0).collect();
        for_each_isa(|isa| {
            let (rms, layer) = (rms_norm(&x, &weight, 1e-6), layer_norm(&x, &weight, &bias, 1e-6));
            for (row, x) in x.chunks(70).enumerate() {
                let mean = x.iter().sum::<f32>() / 70.0;
                let square =
                    |shift: f32| x.iter().map(|x| (x - shift) * (x - shift)).sum::<f32>() / 70.0 + 1e-6;
                for i in 0..70 {
                    let expected = x[i] / square(0.0).sqrt() * weight[i];
                    assert!((rms[row * 70 + i] - expected).abs() < 1e-5, "{isa}");
                    let expected = (x[i] - mean) / square(mean).sqrt() * weight[i] + bias[i];
                    assert!((layer[row * 70 + i] - expected).abs() < 1e-5, "{isa}");
                }
            }
        });
    }
}
