//! Gradients of the kernels in [`crate::elementwise`], of [`crate::linear`] and of [`crate::attention`].

mod attention;

use rayon::prelude::*;

pub use attention::attention;

use crate::elementwise::add_to_row;
use crate::gemm::gemm;
use crate::gemv::dot;
use crate::init::{par_init, par_zeros};
use crate::math::{exp, normal_cdf};
use crate::matrix::MatRef;

/// Elements per task.
const TASK: usize = 1 << 14;
/// Rows per task.
const ROWS: usize = 64;

/// Gradients of [`crate::elementwise::silu_mul`]: gradients of gate and up.
pub fn silu_mul(gate: &[f32], up: &[f32], grad: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let (mut d_gate, mut d_up) = (par_zeros(gate.len()), par_zeros(gate.len()));
    let inputs = gate.par_chunks(TASK).zip(up.par_chunks(TASK)).zip(grad.par_chunks(TASK));
    let outputs = d_gate.par_chunks_mut(TASK).zip(d_up.par_chunks_mut(TASK));
    outputs.zip(inputs).for_each(|((d_gate, d_up), ((gate, up), grad))| {
        silu_mul_chunk(d_gate, d_up, gate, up, grad);
    });
    (d_gate, d_up)
}

per_isa! {
    fn silu_mul_chunk(d_gate: &mut [f32], d_up: &mut [f32], gate: &[f32], up: &[f32], grad: &[f32]) {
        for ((((d_gate, d_up), gate), up), grad) in d_gate.iter_mut().zip(d_up).zip(gate).zip(up).zip(grad) {
            let sigmoid = 1.0 / (1.0 + exp(-gate));
            *d_gate = grad * up * sigmoid * (1.0 + gate * (1.0 - sigmoid));
            *d_up = grad * gate * sigmoid;
        }
    }
}

/// Maps values and their gradients by chunks, on all cores.
fn map_chunks(x: &[f32], grad: &[f32], part: fn(&mut [f32], &[f32], &[f32])) -> Vec<f32> {
    par_init(x.len(), TASK, |number, out| {
        let values = number * TASK..number * TASK + out.len();
        part(out, &x[values.clone()], &grad[values]);
    })
}

/// Gradients of [`crate::elementwise::gelu_tanh`].
pub fn gelu_tanh(x: &[f32], grad: &[f32]) -> Vec<f32> {
    map_chunks(x, grad, gelu_tanh_chunk)
}

per_isa! {
    fn gelu_tanh_chunk(out: &mut [f32], x: &[f32], grad: &[f32]) {
        for ((out, &x), grad) in out.iter_mut().zip(x).zip(grad) {
            let inner = 1.595_769 * (x + 0.044_715 * x * x * x);
            let slope = 1.595_769 * (1.0 + 3.0 * 0.044_715 * x * x);
            let sigmoid = 1.0 / (1.0 + exp(-inner));
            *out = grad * sigmoid * (1.0 + x * slope * (1.0 - sigmoid));
        }
    }
}

/// Gradients of [`crate::elementwise::gelu`].
pub fn gelu(x: &[f32], grad: &[f32]) -> Vec<f32> {
    map_chunks(x, grad, gelu_chunk)
}

per_isa! {
    fn gelu_chunk(out: &mut [f32], x: &[f32], grad: &[f32]) {
        for ((out, &x), grad) in out.iter_mut().zip(x).zip(grad) {
            // 1 / sqrt(2 pi)
            *out = grad * (normal_cdf(x) + x * 0.398_942_3 * exp(-0.5 * x * x));
        }
    }
}

/// Gradients of [`crate::elementwise::rms_norm`]: gradients of x and of the weight.
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, grad: &[f32]) -> (Vec<f32>, Vec<f32>) {
    rows_and_sums(x, grad, weight.len(), |out, sums, x, grad| rms_norm_row(out, sums, x, weight, eps, grad))
}

per_isa! {
    fn rms_norm_row(out: &mut [f32], sums: &mut [f32], x: &[f32], weight: &[f32], eps: f32, grad: &[f32]) {
        let count = x.len() as f32;
        let factor = 1.0 / (dot(x, x) / count + eps).sqrt();
        for ((out, weight), grad) in out.iter_mut().zip(weight).zip(grad) {
            *out = grad * weight;
        }
        let along = dot(out, x) * factor * factor / count;
        for (((out, sum), x), grad) in out.iter_mut().zip(sums).zip(x).zip(grad) {
            *out = factor * (*out - x * along);
            *sum += grad * x * factor;
        }
    }
}

/// Gradients of [`crate::elementwise::layer_norm`]: gradients of x and of the weight; the bias takes the sum of
/// the rows of `grad`.
pub fn layer_norm(x: &[f32], weight: &[f32], eps: f32, grad: &[f32]) -> (Vec<f32>, Vec<f32>) {
    rows_and_sums(x, grad, weight.len(), |out, sums, x, grad| layer_norm_row(out, sums, x, weight, eps, grad))
}

per_isa! {
    fn layer_norm_row(out: &mut [f32], sums: &mut [f32], x: &[f32], weight: &[f32], eps: f32, grad: &[f32]) {
        let count = x.len() as f32;
        let mean = x.iter().sum::<f32>() / count;
        let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / count;
        let factor = 1.0 / (variance + eps).sqrt();
        let (mut level, mut along) = (0.0, 0.0);
        for ((x, weight), grad) in x.iter().zip(weight).zip(grad) {
            level += grad * weight;
            along += grad * weight * (x - mean) * factor;
        }
        (level, along) = (level / count, along / count);
        for ((((out, sum), x), weight), grad) in out.iter_mut().zip(sums).zip(x).zip(weight).zip(grad) {
            let normed = (x - mean) * factor;
            *out = factor * (grad * weight - level - normed * along);
            *sum += grad * normed;
        }
    }
}

/// Rows of x and grad to rows of the gradient of x, and to sums over rows: of a task, then of all tasks
/// in order, so that a result does not depend on which thread was first.
fn rows_and_sums(
    x: &[f32],
    grad: &[f32],
    width: usize,
    row: impl Fn(&mut [f32], &mut [f32], &[f32], &[f32]) + Sync,
) -> (Vec<f32>, Vec<f32>) {
    let mut out = par_zeros(x.len());
    let tasks = out.par_chunks_mut(ROWS * width).zip(x.par_chunks(ROWS * width));
    let sums: Vec<Vec<f32>> = tasks
        .zip(grad.par_chunks(ROWS * width))
        .map(|((out, x), grad)| {
            let mut sums = vec![0.0; width];
            let rows = out.chunks_mut(width).zip(x.chunks(width)).zip(grad.chunks(width));
            rows.for_each(|((out, x), grad)| row(out, &mut sums, x, grad));
            sums
        })
        .collect();
    (out, total(&sums))
}

/// Gradient of a bias that is added to every row: the sums of the columns of `grad`.
pub fn bias(grad: &[f32], width: usize) -> Vec<f32> {
    let sums: Vec<Vec<f32>> = grad
        .par_chunks(ROWS * width)
        .map(|grad| {
            let mut sums = vec![0.0; width];
            grad.chunks(width).for_each(|row| add_to_row(&mut sums, row));
            sums
        })
        .collect();
    total(&sums)
}

fn total(parts: &[Vec<f32>]) -> Vec<f32> {
    let mut all = parts[0].clone();
    parts[1..].iter().for_each(|part| add_to_row(&mut all, part));
    all
}

/// Gradients of a product x (n, k) by weight (out, k) transposed: gradients of x, if wanted, and of the weight.
pub fn linear(
    x: &[f32],
    weight: &[f32],
    grad: &[f32],
    (out, k): (usize, usize),
    wants_d_x: bool,
) -> (Option<Vec<f32>>, Vec<f32>) {
    let n = x.len() / k;
    let (x, grad) = (MatRef::row_major(x, n, k, k), MatRef::row_major(grad, n, out, out));
    let d_x = wants_d_x.then(|| gemm(grad, MatRef::row_major(weight, out, k, k)));
    (d_x, gemm(grad.transposed(), x))
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng as _, SeedableRng as _};

    use super::*;
    use crate::attention::{Heads, SeqLens};
    use crate::isa::{Isa, set_isa, tests::for_each_isa};

    fn random(count: usize, seed: u64) -> Vec<f32> {
        let mut rng = StdRng::seed_from_u64(seed);
        (0..count).map(|_| rng.random_range(-1.5..1.5)).collect()
    }

    /// Every gradient of this module, each flattened.
    fn all() -> Vec<Vec<f32>> {
        let (x, y, grad) = (random(70 * 48, 1), random(70 * 48, 2), random(70 * 48, 3));
        let (weight, matrix) = (random(48, 4), random(130 * 48, 5));
        let (d_gate, d_up) = silu_mul(&x, &y, &grad);
        let (rms_x, rms_weight) = rms_norm(&x, &weight, 1e-6, &grad);
        let (norm_x, norm_weight) = layer_norm(&x, &weight, 1e-6, &grad);
        let (linear_x, linear_weight) = linear(&x, &matrix, &random(70 * 130, 6), (130, 48), true);
        let heads = Heads { query: 4, kv: 2, dim: 12 };
        let seqs = [SeqLens { queries: 50, keys: 50 }, SeqLens { queries: 20, keys: 90 }];
        let (k, v) = (random(140 * 24, 7), random(140 * 24, 8));
        let [dq, dk, dv] = attention([&x, &k, &v], &grad, heads, &seqs, true);
        let pairs = [d_gate, d_up, rms_x, rms_weight, norm_x, norm_weight];
        let products = [linear_x.expect("wanted"), linear_weight, dq, dk, dv];
        let others = [gelu(&x, &grad), gelu_tanh(&x, &grad), bias(&grad, 48)];
        pairs.into_iter().chain(others).chain(products).collect()
    }

    /// Against finite differences and compositions they are tested where they have a graph: in the trainer.
    #[test]
    fn every_isa_has_the_gradients_of_the_baseline() {
        for_each_isa(|isa| {
            set_isa(Isa::Baseline).expect("every processor has it");
            let expected = all();
            set_isa(isa).expect("supported");
            for (number, (found, expected)) in all().into_iter().zip(expected).enumerate() {
                for (found, expected) in found.into_iter().zip(expected) {
                    // Only products are summed in another order.
                    let bound = if number < 9 { 0.0 } else { 1e-5 * (1.0 + expected.abs()) };
                    assert!(
                        (found - expected).abs() <= bound,
                        "{isa}, gradient {number}: {found} {expected}"
                    );
                }
            }
        });
    }
}
