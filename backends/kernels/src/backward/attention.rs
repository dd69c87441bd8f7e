//! Gradients of attention.

use multiversion::multiversion;
use paravt_qwen_vl::ops::Segment;
use rayon::prelude::*;

use crate::cpu::Heads;
use crate::cpu::attention::{exponentials, seen};
use crate::cpu::dot::dot;
use crate::cpu::fresh::zeros;
use crate::cpu::matrix::Matrix;
use crate::cpu::vector::multiply;

/// Most queries whose shares are held at once.
const QUERIES: usize = 128;
/// Shares that are held at once: with their slopes, half of a core's second-level cache.
const SHARES: usize = 1 << 16;

/// Of [`crate::cpu::attention`] of q, k and v: their gradients. Shares are made anew: to keep them would
/// take memory by the square of the length.
pub fn attention(
    [q, k, v]: [&[f32]; 3],
    grad: &[f32],
    heads: Heads,
    segments: &[Segment],
    causal: bool,
) -> [Vec<f32>; 3] {
    let (q_row, k_row) = (heads.queries * heads.dim, heads.keys * heads.dim);
    let (mut to_q, mut to_k, mut to_v) = (zeros(q.len()), zeros(k.len()), zeros(v.len()));
    let mut parts = Vec::with_capacity(segments.len());
    let (mut rest_q, mut rest_k, mut rest_v) = (&mut to_q[..], &mut to_k[..], &mut to_v[..]);
    let (mut q_start, mut k_start) = (0, 0);
    for &segment in segments {
        let (queries, keys) = (segment.queries * q_row, segment.keys * k_row);
        let (to_q, to_k, to_v);
        (to_q, rest_q) = rest_q.split_at_mut(queries);
        (to_k, rest_k) = rest_k.split_at_mut(keys);
        (to_v, rest_v) = rest_v.split_at_mut(keys);
        let inputs = Inputs {
            q: &q[q_start..q_start + queries],
            k: &k[k_start..k_start + keys],
            v: &v[k_start..k_start + keys],
            grad: &grad[q_start..q_start + queries],
        };
        parts.push((inputs, [to_q, to_k, to_v], segment));
        (q_start, k_start) = (q_start + queries, k_start + keys);
    }
    parts.into_par_iter().for_each(|(inputs, outputs, segment)| {
        one_segment(&inputs, outputs, heads, segment, causal);
    });
    [to_q, to_k, to_v]
}

/// Values of one segment; `grad` is of the result, in the shape of q.
struct Inputs<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    grad: &'a [f32],
}

fn one_segment(
    inputs: &Inputs<'_>,
    [to_q, to_k, to_v]: [&mut [f32]; 3],
    heads: Heads,
    segment: Segment,
    causal: bool,
) {
    let Heads { queries, keys, dim } = heads;
    let (q_row, k_row, scale) = (queries * dim, keys * dim, (dim as f32).powf(-0.5));
    let block = (SHARES / segment.keys).clamp(16, QUERIES).min(segment.queries);
    let (mut shares, mut slopes) = (vec![0.0f32; block * segment.keys], vec![0.0f32; block * segment.keys]);
    for first in (0..segment.queries).step_by(block) {
        let rows = block.min(segment.queries - first);
        // The last query of these sees most.
        let count = seen(first + rows - 1, segment, causal);
        for head in 0..queries {
            let (at, key_at) = (first * q_row + head * dim, head / (queries / keys) * dim);
            let q = Matrix::rows(&inputs.q[at..], rows, dim, q_row);
            let grad = Matrix::rows(&inputs.grad[at..], rows, dim, q_row);
            let k = Matrix::rows(&inputs.k[key_at..], count, dim, k_row);
            let v = Matrix::rows(&inputs.v[key_at..], count, dim, k_row);
            multiply(&mut shares, count, q, k.turned(), scale, false);
            multiply(&mut slopes, count, grad, v.turned(), 1.0, false);
            for row in 0..rows {
                let (shares, slopes) =
                    (&mut shares[row * count..][..count], &mut slopes[row * count..][..count]);
                let seen = seen(first + row, segment, causal);
                slopes_row(&mut shares[..seen], &mut slopes[..seen], scale);
                shares[seen..].fill(0.0);
                slopes[seen..].fill(0.0);
            }
            let shares = Matrix::rows(&shares, rows, count, count);
            let slopes = Matrix::rows(&slopes, rows, count, count);
            multiply(&mut to_q[at..], q_row, slopes, k, 1.0, false);
            // Several queries' heads share these, and all queries.
            multiply(&mut to_k[key_at..], k_row, slopes.turned(), q, 1.0, true);
            multiply(&mut to_v[key_at..], k_row, shares.turned(), grad, 1.0, true);
        }
    }
}

/// Scores to shares, and gradients of shares to those of unscaled scores.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+fma"))]
fn slopes_row(shares: &mut [f32], slopes: &mut [f32], scale: f32) {
    let most = shares.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let factor = 1.0 / exponentials(shares, most);
    shares.iter_mut().for_each(|share| *share *= factor);
    let along = dot(shares, slopes);
    for (slope, share) in slopes.iter_mut().zip(shares) {
        *slope = scale * *share * (*slope - along);
    }
}
