//! Gradients of attention.

use rayon::prelude::*;

use crate::attention::{Heads, SeqLens};
use crate::gemm::{Update, gemm_serial};
use crate::gemv::dot;
use crate::init::par_zeros;
use crate::math::exp_and_sum;
use crate::matrix::{MatMut, MatRef};

/// Largest number of queries whose probabilities are held at once.
const BLOCK_Q: usize = 128;
/// Probabilities held at once: with the gradients of their scores, half of a core's second-level cache.
const BLOCK_PROBS: usize = 1 << 16;

/// Gradients of [`crate::attention`] by q, k and v, all contiguous. Probabilities are computed again: storing them
/// would take memory quadratic in the length.
pub fn attention(
    [q, k, v]: [&[f32]; 3],
    grad: &[f32],
    heads: Heads,
    seqs: &[SeqLens],
    causal: bool,
) -> [Vec<f32>; 3] {
    let (q_row, k_row) = (heads.query * heads.dim, heads.kv * heads.dim);
    let (mut dq, mut dk, mut dv) = (par_zeros(q.len()), par_zeros(k.len()), par_zeros(v.len()));
    let mut parts = Vec::with_capacity(seqs.len());
    let (mut rest_q, mut rest_k, mut rest_v) = (&mut dq[..], &mut dk[..], &mut dv[..]);
    let (mut q_start, mut k_start) = (0, 0);
    for &seq in seqs {
        let (queries, keys) = (seq.queries * q_row, seq.keys * k_row);
        let (dq, dk, dv);
        (dq, rest_q) = rest_q.split_at_mut(queries);
        (dk, rest_k) = rest_k.split_at_mut(keys);
        (dv, rest_v) = rest_v.split_at_mut(keys);
        let inputs = Inputs {
            q: &q[q_start..q_start + queries],
            k: &k[k_start..k_start + keys],
            v: &v[k_start..k_start + keys],
            grad: &grad[q_start..q_start + queries],
        };
        parts.push((inputs, [dq, dk, dv], seq));
        (q_start, k_start) = (q_start + queries, k_start + keys);
    }
    parts.into_par_iter().for_each(|(inputs, outputs, seq)| {
        one_sequence(&inputs, outputs, heads, seq, causal);
    });
    [dq, dk, dv]
}

/// Values of one sequence; `grad` is of the result, in the shape of q.
struct Inputs<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    grad: &'a [f32],
}

fn one_sequence(
    inputs: &Inputs<'_>,
    [dq, dk, dv]: [&mut [f32]; 3],
    heads: Heads,
    seq: SeqLens,
    causal: bool,
) {
    let dim = heads.dim;
    let (q_row, k_row, scale) = (heads.query * dim, heads.kv * dim, (dim as f32).powf(-0.5));
    let block = (BLOCK_PROBS / seq.keys).clamp(16, BLOCK_Q).min(seq.queries);
    let (mut probs, mut dscores) = (vec![0.0f32; block * seq.keys], vec![0.0f32; block * seq.keys]);
    for first in (0..seq.queries).step_by(block) {
        let rows = block.min(seq.queries - first);
        // The last query of the block sees the largest number of keys.
        let keys = seq.visible_keys(first + rows - 1, causal);
        for head in 0..heads.query {
            let (at, key_at) = (first * q_row + head * dim, heads.kv_of(head) * dim);
            let q = MatRef::row_major(&inputs.q[at..], rows, dim, q_row);
            let grad = MatRef::row_major(&inputs.grad[at..], rows, dim, q_row);
            let k = MatRef::row_major(&inputs.k[key_at..], keys, dim, k_row);
            let v = MatRef::row_major(&inputs.v[key_at..], keys, dim, k_row);
            gemm_serial(MatMut::new(&mut probs, keys), q, k.transposed(), Update::assign(scale));
            gemm_serial(MatMut::new(&mut dscores, keys), grad, v.transposed(), Update::assign(1.0));
            for row in 0..rows {
                let (probs, dscores) = (&mut probs[row * keys..][..keys], &mut dscores[row * keys..][..keys]);
                let visible = seq.visible_keys(first + row, causal);
                dscores_row(&mut probs[..visible], &mut dscores[..visible], scale);
                probs[visible..].fill(0.0);
                dscores[visible..].fill(0.0);
            }
            let probs = MatRef::row_major(&probs, rows, keys, keys);
            let dscores = MatRef::row_major(&dscores, rows, keys, keys);
            gemm_serial(MatMut::new(&mut dq[at..], q_row), dscores, k, Update::assign(1.0));
            // The query heads of a group share these, and all queries.
            let add = Update::accumulate(1.0);
            gemm_serial(MatMut::new(&mut dk[key_at..], k_row), dscores.transposed(), q, add);
            gemm_serial(MatMut::new(&mut dv[key_at..], k_row), probs.transposed(), grad, add);
        }
    }
}

per_isa! {
    /// Scores to probabilities, and gradients of probabilities to gradients of unscaled scores.
    fn dscores_row(probs: &mut [f32], dscores: &mut [f32], scale: f32) {
        let max = probs.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let factor = 1.0 / exp_and_sum(probs, max);
        probs.iter_mut().for_each(|prob| *prob *= factor);
        let mean = dot(probs, dscores);
        for (dscore, prob) in dscores.iter_mut().zip(probs) {
            *dscore = scale * *prob * (*dscore - mean);
        }
    }
}
