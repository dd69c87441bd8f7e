//! Element by element, on all cores and vectors.

use multiversion::multiversion;
use rayon::prelude::*;

use super::attention::exp;
use super::fresh::filled;
use super::matrix::Element;

/// Elements that a task takes.
const TASK: usize = 1 << 14;

/// Replaces values on all cores.
fn each(x: &mut [f32], part: fn(&mut [f32])) {
    x.par_chunks_mut(TASK).for_each(part);
}

/// Replaces values, given others of the same number.
fn each_with(x: &mut [f32], y: &[f32], part: fn(&mut [f32], &[f32])) {
    x.par_chunks_mut(TASK).zip(y.par_chunks(TASK)).for_each(|(x, y)| part(x, y));
}

/// silu(gate) * up, in place of the gate.
pub fn gated(gate: &mut [f32], up: &[f32]) {
    each_with(gate, up, gated_part);
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+fma"))]
fn gated_part(gate: &mut [f32], up: &[f32]) {
    for (gate, up) in gate.iter_mut().zip(up) {
        *gate = *gate / (1.0 + exp(-*gate)) * up;
    }
}

/// Gaussian error linear unit by tanh, in place.
pub fn gelu_tanh(x: &mut [f32]) {
    each(x, gelu_part);
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+fma"))]
fn gelu_part(values: &mut [f32]) {
    for value in values {
        let x = *value;
        let inner = 0.797_884_6 * (x * x * x).mul_add(0.044_715, x);
        // (1 + tanh(u)) / 2 is the logistic function of 2u.
        *value = x / (1.0 + exp(-2.0 * inner));
    }
}

/// Gaussian error linear unit, exact, in place.
pub fn gelu(x: &mut [f32]) {
    each(x, gelu_exact_part);
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+fma"))]
fn gelu_exact_part(values: &mut [f32]) {
    for value in values {
        *value *= normal(*value);
    }
}

/// Distribution function of the normal distribution, within 3e-7.
///
/// erf is the rational function that Eigen and XLA use for f32.
#[inline(always)]
pub fn normal(x: f32) -> f32 {
    const ABOVE: [f32; 7] = [
        -2.726_142_3e-10,
        2.770_681_4e-8,
        -2.101_024_1e-6,
        -5.692_506_4e-5,
        -7.349_906_3e-4,
        -2.954_6e-3,
        -1.609_603_3e-2,
    ];
    const BELOW: [f32; 5] =
        [-1.456_607_2e-5, -2.133_740_6e-4, -1.682_827e-3, -7.373_329_2e-3, -1.426_473_9e-2];
    let z = (x * std::f32::consts::FRAC_1_SQRT_2).clamp(-4.0, 4.0);
    let square = z * z;
    let (mut above, mut below) = (ABOVE[0], BELOW[0]);
    // No closures: one that is not inlined would be compiled without the vector instructions.
    for part in &ABOVE[1..] {
        above = above.mul_add(square, *part);
    }
    for part in &BELOW[1..] {
        below = below.mul_add(square, *part);
    }
    0.5 + 0.5 * z * above / below
}

/// Rotary embedding of x (n, heads, dim) by tables (n, dim), in place; from one row to the next are `stride`.
pub fn rotate(x: &mut [f32], stride: usize, cos: &[f32], sin: &[f32], heads: usize, dim: usize) {
    let rows = x.par_chunks_mut(stride).zip(cos.par_chunks(dim).zip(sin.par_chunks(dim)));
    rows.with_min_len(16).for_each(|(x, (cos, sin))| rotate_row(&mut x[..heads * dim], cos, sin));
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+fma"))]
fn rotate_row(x: &mut [f32], cos: &[f32], sin: &[f32]) {
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

/// x + y, in place of x.
pub fn add(x: &mut [f32], y: &[f32]) {
    each_with(x, y, |x, y| x.iter_mut().zip(y).for_each(|(x, y)| *x += y));
}

/// y in place of x. On all cores: where a cache is fresh memory, its pages are first touched here, and the kernel's
/// clearing of them takes longer than the copy.
pub fn copy(x: &mut [f32], y: &[f32]) {
    each_with(x, y, |x, y| x.copy_from_slice(y));
}

/// Adds y to every row of x, in place.
pub fn add_to_rows(x: &mut [f32], y: &[f32]) {
    x.par_chunks_mut(y.len()).with_min_len(TASK.div_ceil(y.len())).for_each(|x| add_to_row(x, y));
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+fma"))]
/// Adds y to one row; what is longer of the two stays as it is.
pub fn add_to_row(x: &mut [f32], y: &[f32]) {
    x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
}

/// Sums of some rows of a table (any, width), `taps` for each row of the result, by weights.
pub fn weighted_rows<T: Element>(
    table: &[T],
    width: usize,
    ids: &[u32],
    weights: &[f32],
    taps: usize,
) -> Vec<f32> {
    let rows = TASK.div_ceil(width);
    filled(ids.len() / taps * width, rows * width, |number, out| {
        let terms = ids.chunks(taps).zip(weights.chunks(taps)).skip(number * rows);
        for (out, (ids, weights)) in out.chunks_mut(width).zip(terms) {
            for (&id, weight) in ids.iter().zip(weights) {
                let row = &table[id as usize * width..][..width];
                out.iter_mut().zip(row).for_each(|(out, value)| *out += weight * value.value());
            }
        }
    })
}

/// Rows of `width` to new rows.
fn by_rows(x: &[f32], width: usize, row: impl Fn(&mut [f32], &[f32]) + Sync) -> Vec<f32> {
    let task = TASK.next_multiple_of(width);
    filled(x.len(), task, |number, out| {
        out.chunks_mut(width).zip(x[number * task..].chunks(width)).for_each(|(out, x)| row(out, x));
    })
}

/// Rows by their root mean square.
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32) -> Vec<f32> {
    by_rows(x, weight.len(), |out, x| rms_norm_row(out, x, weight, eps))
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+fma"))]
fn rms_norm_row(out: &mut [f32], x: &[f32], weight: &[f32], eps: f32) {
    let factor = 1.0 / (super::dot::dot(x, x) / x.len() as f32 + eps).sqrt();
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x * factor * weight;
    }
}

/// Rows to mean 0 and variance 1, then scaled and shifted.
pub fn layer_norm(x: &[f32], weight: &[f32], bias: &[f32], eps: f32) -> Vec<f32> {
    by_rows(x, weight.len(), |out, x| layer_norm_row(out, x, weight, bias, eps))
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+fma"))]
fn layer_norm_row(out: &mut [f32], x: &[f32], weight: &[f32], bias: &[f32], eps: f32) {
    let count = x.len() as f32;
    let mut sums = [0.0f32; 16];
    for part in x.chunks(16) {
        part.iter().zip(&mut sums).for_each(|(x, sum)| *sum += x);
    }
    let mean = sums.iter().sum::<f32>() / count;
    // Twice through the row: the difference of two large sums would lose digits.
    for (out, x) in out.iter_mut().zip(x) {
        *out = x - mean;
    }
    let factor = 1.0 / (super::dot::dot(out, out) / count + eps).sqrt();
    for ((out, weight), bias) in out.iter_mut().zip(weight).zip(bias) {
        *out = *out * factor * weight + bias;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activations_are_those_of_the_definition() {
        let x: Vec<f32> = (-2000..2000).map(|i| i as f32 / 20.0).collect();
        let near = |found: f32, wanted: f64| {
            assert!((f64::from(found) - wanted).abs() <= 1e-6 * (1.0 + wanted.abs()), "{found} {wanted}");
        };
        let (mut both, mut tanh) = (x.clone(), x.clone());
        gated(&mut both, &x);
        gelu_tanh(&mut tanh);
        for ((found, gelu), &x) in both.into_iter().zip(tanh).zip(&x) {
            let x = f64::from(x);
            near(found, x * x / (1.0 + (-x).exp()));
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            near(gelu, 0.5 * x * (1.0 + inner.tanh()));
        }
    }

    #[test]
    fn the_exact_gelu_is_that_of_the_tables() {
        // Abramowitz & Stegun, table 26.1.
        let distribution = [
            (0.0, 0.5),
            (0.5, 0.691_462_461),
            (1.0, 0.841_344_746),
            (2.0, 0.977_249_868),
            (3.0, 0.998_650_102),
        ];
        for (x, share) in distribution.into_iter().chain([(9.0, 1.0)]) {
            let mut found = [x as f32, -x as f32];
            gelu(&mut found);
            assert!((f64::from(found[0]) - x * share).abs() < 1e-6 * (1.0 + x), "{x}: {found:?}");
            assert!((f64::from(found[1]) + x * (1.0 - share)).abs() < 1e-6 * (1.0 + x), "{x}: {found:?}");
        }
    }

    #[test]
    fn norms_are_those_of_the_definition() {
        let x: Vec<f32> = (0..3 * 70).map(|i| (i * 31 % 17) as f32 - 3.0).collect();
        let weight: Vec<f32> = (0..70).map(|i| i as f32 / 35.0).collect();
        let bias: Vec<f32> = (0..70).map(|i| 1.0 - i as f32 / 70.0).collect();
        let (rms, layer) = (rms_norm(&x, &weight, 1e-6), layer_norm(&x, &weight, &bias, 1e-6));
        for (row, x) in x.chunks(70).enumerate() {
            let mean = x.iter().sum::<f32>() / 70.0;
            let square = |shift: f32| x.iter().map(|x| (x - shift) * (x - shift)).sum::<f32>() / 70.0 + 1e-6;
            for i in 0..70 {
                assert!((rms[row * 70 + i] - x[i] / square(0.0).sqrt() * weight[i]).abs() < 1e-5);
                let wanted = (x[i] - mean) / square(mean).sqrt() * weight[i] + bias[i];
                assert!((layer[row * 70 + i] - wanted).abs() < 1e-5);
            }
        }
    }
}
