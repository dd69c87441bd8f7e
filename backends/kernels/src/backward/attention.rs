//! Gradients of attention.

use rayon::prelude::*;

use crate::attention::{Heads, SeqLens};
use crate::gemm::{PackedB, Update, gemm_packed, gemm_serial};
use crate::gemv::dot;
use crate::init::par_zeros;
use crate::math::exp_and_sum;
use crate::matrix::{MatMut, MatRef};

/// f32 values of a cache line.
const LINE: usize = 16;
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
    let mut parts = Vec::with_capacity(seqs.len() * heads.kv);
    let (mut q_start, mut k_start) = (0, 0);
    for &seq in seqs {
        let (queries, keys) = (seq.queries * q_row, seq.keys * k_row);
        let inputs = Inputs {
            q: &q[q_start..q_start + queries],
            k: &k[k_start..k_start + keys],
            v: &v[k_start..k_start + keys],
            grad: &grad[q_start..q_start + queries],
        };
        parts.extend((0..heads.kv).map(|kv| (inputs, kv, seq)));
        (q_start, k_start) = (q_start + queries, k_start + keys);
    }
    // Key heads are spread over threads too: there may be fewer sequences than cores.
    let found: Vec<_> =
        parts.par_iter().map(|(inputs, kv, seq)| one_head(inputs, *kv, heads, *seq, causal)).collect();
    let (mut dq, mut dk, mut dv) = (par_zeros(q.len()), par_zeros(k.len()), par_zeros(v.len()));
    let (mut q_row_start, mut k_row_start) = (0, 0);
    for (seq, of_heads) in seqs.iter().zip(found.chunks(heads.kv)) {
        let (queries, keys) = (q_row_start..q_row_start + seq.queries, k_row_start..k_row_start + seq.keys);
        let width = q_row / heads.kv;
        for (into, rows, row, width, which) in [
            (&mut dq, queries.clone(), q_row, width, 0),
            (&mut dk, keys.clone(), k_row, heads.dim, 1),
            (&mut dv, keys.clone(), k_row, heads.dim, 2),
        ] {
            into[rows.start * row..rows.end * row].par_chunks_mut(row).enumerate().for_each(|(at, out)| {
                for (out, of_head) in out.chunks_mut(width).zip(of_heads) {
                    out.copy_from_slice(&of_head[which][at * width..][..width]);
                }
            });
        }
        (q_row_start, k_row_start) = (queries.end, keys.end);
    }
    [dq, dk, dv]
}

/// Values of one sequence; `grad` is of the result, in the shape of q.
#[derive(Clone, Copy)]
struct Inputs<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    grad: &'a [f32],
}

/// Gradients of one key head and of the query heads that share it: by q (queries, query heads, dim), by k and v
/// (keys, dim).
fn one_head(inputs: &Inputs<'_>, kv: usize, heads: Heads, seq: SeqLens, causal: bool) -> [Vec<f32>; 3] {
    let (dim, group) = (heads.dim, heads.query / heads.kv);
    let (q_row, k_row, scale) = (heads.query * dim, heads.kv * dim, (dim as f32).powf(-0.5));
    let (mut dq, mut dk, mut dv) =
        (vec![0.0; seq.queries * group * dim], vec![0.0; seq.keys * dim], vec![0.0; seq.keys * dim]);
    let k = MatRef::row_major(&inputs.k[kv * dim..], seq.keys, dim, k_row);
    let v = MatRef::row_major(&inputs.v[kv * dim..], seq.keys, dim, k_row);
    let [packed_k, packed_v] = [k, v].map(|side| PackedB::new(side.transposed()));
    // An odd number of cache lines, so that a column's values are in different sets of the cache.
    let stride = (seq.keys.div_ceil(LINE) | 1) * LINE;
    let block = (BLOCK_PROBS / stride).clamp(16, BLOCK_Q).min(seq.queries);
    let (mut probs, mut dscores) = (vec![0.0f32; block * stride], vec![0.0f32; block * stride]);
    for first in (0..seq.queries).step_by(block) {
        let rows = block.min(seq.queries - first);
        // The last query of the block sees the largest number of keys.
        let keys = seq.visible_keys(first + rows - 1, causal);
        for head in 0..group {
            let at = first * q_row + (kv * group + head) * dim;
            let q = MatRef::row_major(&inputs.q[at..], rows, dim, q_row);
            let grad = MatRef::row_major(&inputs.grad[at..], rows, dim, q_row);
            gemm_packed(MatMut::new(&mut probs, stride), q, &packed_k, keys, Update::assign(scale));
            gemm_packed(MatMut::new(&mut dscores, stride), grad, &packed_v, keys, Update::assign(1.0));
            for row in 0..rows {
                let (probs, dscores) =
                    (&mut probs[row * stride..][..keys], &mut dscores[row * stride..][..keys]);
                let visible = seq.visible_keys(first + row, causal);
                dscores_row(&mut probs[..visible], &mut dscores[..visible], scale);
                probs[visible..].fill(0.0);
                dscores[visible..].fill(0.0);
            }
            let probs = MatRef::row_major(&probs, rows, keys, stride);
            let dscores = MatRef::row_major(&dscores, rows, keys, stride);
            let its_dq = MatMut::new(&mut dq[(first * group + head) * dim..], group * dim);
            gemm_serial(its_dq, dscores, k.row_block(0, keys), Update::assign(1.0));
            // The query heads of a group share these, and all queries.
            let add = Update::accumulate(1.0);
            gemm_serial(MatMut::new(&mut dk, dim), dscores.transposed(), q, add);
            gemm_serial(MatMut::new(&mut dv, dim), probs.transposed(), grad, add);
        }
    }
    [dq, dk, dv]
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
