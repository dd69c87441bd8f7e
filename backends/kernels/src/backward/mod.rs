//! Gradients of the kernels in [`super::elementwise`], of products and of attention.

mod attention;

use multiversion::multiversion;
use rayon::prelude::*;

pub use attention::attention;

use super::attention::exp;
use super::dot::dot;
use super::elementwise::{add_to_row, normal};
use super::fresh::{filled, zeros};
use super::matrix::Matrix;
use super::vector::product;

/// Elements that a task takes.
const TASK: usize = 1 << 14;
/// Rows that a task takes.
const ROWS: usize = 64;

/// Of [`super::elementwise::gated`]: gradients of gate and up.
pub fn gated(gate: &[f32], up: &[f32], grad: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let (mut to_gate, mut to_up) = (zeros(gate.len()), zeros(gate.len()));
    let inputs = gate.par_chunks(TASK).zip(up.par_chunks(TASK)).zip(grad.par_chunks(TASK));
    let outputs = to_gate.par_chunks_mut(TASK).zip(to_up.par_chunks_mut(TASK));
    outputs.zip(inputs).for_each(|((to_gate, to_up), ((gate, up), grad))| {
        gated_part(to_gate, to_up, gate, up, grad);
    });
    (to_gate, to_up)
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+fma"))]
fn gated_part(to_gate: &mut [f32], to_up: &mut [f32], gate: &[f32], up: &[f32], grad: &[f32]) {
    for ((((to_gate, to_up), gate), up), grad) in to_gate.iter_mut().zip(to_up).zip(gate).zip(up).zip(grad) {
        let share = 1.0 / (1.0 + exp(-gate));
        *to_gate = grad * up * share * (1.0 + gate * (1.0 - share));
        *to_up = grad * gate * share;
    }
}

/// A kernel of values and the gradient, on all cores.
fn each_of(x: &[f32], grad: &[f32], part: fn(&mut [f32], &[f32], &[f32])) -> Vec<f32> {
    filled(x.len(), TASK, |number, out| {
        let values = number * TASK..number * TASK + out.len();
        part(out, &x[values.clone()], &grad[values]);
    })
}

/// Of [`super::elementwise::gelu_tanh`].
pub fn gelu_tanh(x: &[f32], grad: &[f32]) -> Vec<f32> {
    each_of(x, grad, gelu_part)
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+fma"))]
fn gelu_part(out: &mut [f32], x: &[f32], grad: &[f32]) {
    for ((out, &x), grad) in out.iter_mut().zip(x).zip(grad) {
        let inner = 1.595_769 * (x + 0.044_715 * x * x * x);
        let slope = 1.595_769 * (1.0 + 3.0 * 0.044_715 * x * x);
        let share = 1.0 / (1.0 + exp(-inner));
        *out = grad * share * (1.0 + x * slope * (1.0 - share));
    }
}

/// Of [`super::elementwise::gelu`].
pub fn gelu(x: &[f32], grad: &[f32]) -> Vec<f32> {
    each_of(x, grad, gelu_exact_part)
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+fma"))]
fn gelu_exact_part(out: &mut [f32], x: &[f32], grad: &[f32]) {
    for ((out, &x), grad) in out.iter_mut().zip(x).zip(grad) {
        // 1 / sqrt(2 pi)
        *out = grad * (normal(x) + x * 0.398_942_3 * exp(-0.5 * x * x));
    }
}

/// Of [`super::elementwise::rms_norm`]: gradients of x and of the weight.
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, grad: &[f32]) -> (Vec<f32>, Vec<f32>) {
    by_rows(x, grad, weight.len(), |out, sums, x, grad| rms_norm_row(out, sums, x, weight, eps, grad))
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+fma"))]
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

/// Of [`super::elementwise::layer_norm`]: gradients of x and of the weight; the bias takes the sum of
/// the rows of `grad`.
pub fn layer_norm(x: &[f32], weight: &[f32], eps: f32, grad: &[f32]) -> (Vec<f32>, Vec<f32>) {
    by_rows(x, grad, weight.len(), |out, sums, x, grad| layer_norm_row(out, sums, x, weight, eps, grad))
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+fma"))]
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

/// Rows of x and grad to rows of the gradient of x, and to sums over rows: of a task, then of all tasks
/// in order, so that a result does not depend on which thread was first.
fn by_rows(
    x: &[f32],
    grad: &[f32],
    width: usize,
    row: impl Fn(&mut [f32], &mut [f32], &[f32], &[f32]) + Sync,
) -> (Vec<f32>, Vec<f32>) {
    let mut out = zeros(x.len());
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

/// Of a bias that is added to every row: the sums of the columns of `grad`.
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

/// Of a product x (n, k) by weight (out, k) transposed: gradients of x, if wanted, and of the weight.
pub fn linear(
    x: &[f32],
    weight: &[f32],
    grad: &[f32],
    (out, k): (usize, usize),
    wants_x: bool,
) -> (Option<Vec<f32>>, Vec<f32>) {
    let n = x.len() / k;
    let (x, grad) = (Matrix::rows(x, n, k, k), Matrix::rows(grad, n, out, out));
    let to_x = wants_x.then(|| product(grad, Matrix::rows(weight, out, k, k)));
    (to_x, product(grad.turned(), x))
}
