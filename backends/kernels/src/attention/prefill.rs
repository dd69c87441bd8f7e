//! Attention of many queries: blocks of keys by GEMM, with an online softmax (flash attention).

use rayon::prelude::*;

use super::{Heads, KvElement, SeqLens, Strided};
use crate::gemm::{PackedB, Update, gemm_packed};
use crate::math::{exp, exp_and_sum};
use crate::matrix::{MatMut, MatRef};

/// Queries per task: their scores stay in its cache.
const BLOCK_Q: usize = 128;
/// Keys between two updates of the online softmax.
const BLOCK_K: usize = 256;

/// A block of keys of one head and their values, as right sides.
struct PackedBlock<'a> {
    count: usize,
    /// (dim, keys): scores.
    keys: PackedB<'a>,
    /// (keys, dim): results.
    values: PackedB<'a>,
}

pub(super) fn attention_prefill<T: KvElement>(
    out: &mut [f32],
    q: Strided<'_>,
    [k, v]: [Strided<'_, T>; 2],
    heads: Heads,
    seq: SeqLens,
    causal: bool,
) {
    let dim = heads.dim;
    let blocks = seq.keys.div_ceil(BLOCK_K);
    let pack = |number: usize| {
        let (head, first) = (number / blocks, number % blocks * BLOCK_K);
        let count = BLOCK_K.min(seq.keys - first);
        let (keys, values) = (k.head(first, count, head, dim), v.head(first, count, head, dim));
        PackedBlock { count, keys: PackedB::new(keys.transposed()), values: PackedB::new(values) }
    };
    let packed: Vec<PackedBlock<'_>> = (0..heads.kv * blocks).into_par_iter().map(pack).collect();
    let row = heads.query * dim;
    out.par_chunks_mut(BLOCK_Q * row).enumerate().for_each(|(task, out)| {
        let (first, count) = (task * BLOCK_Q, out.len() / row);
        // Heads are spread over threads too: a short prompt is one block of queries.
        let one_head = |head: usize| {
            let queries = q.head(first, count, head, dim);
            let packed = &packed[heads.kv_of(head) * blocks..][..blocks];
            attend_block(queries, packed, |query| seq.visible_keys(first + query, causal))
        };
        let results: Vec<Vec<f32>> = (0..heads.query).into_par_iter().map(one_head).collect();
        for (head, result) in results.iter().enumerate() {
            for (out, result) in out.chunks_mut(row).zip(result.chunks(dim)) {
                out[head * dim..][..dim].copy_from_slice(result);
            }
        }
    });
}

/// A block of queries of one head over all blocks of keys that they see: (queries, dim).
fn attend_block(
    queries: MatRef<'_>,
    packed: &[PackedBlock<'_>],
    visible_keys: impl Fn(usize) -> usize,
) -> Vec<f32> {
    let (count, dim) = (queries.rows(), queries.cols());
    let scale = (dim as f32).powf(-0.5);
    let (mut max, mut total) = ([f32::NEG_INFINITY; BLOCK_Q], [0.0f32; BLOCK_Q]);
    let mut scores = vec![0.0f32; count * BLOCK_K];
    let mut sums = vec![0.0f32; count * dim];
    // The last query of the block sees the largest number of keys.
    let visible_blocks = visible_keys(count - 1).div_ceil(BLOCK_K);
    for (number, block) in packed.iter().enumerate().take(visible_blocks) {
        gemm_packed(
            MatMut::new(&mut scores, BLOCK_K),
            queries,
            &block.keys,
            block.count,
            Update::assign(scale),
        );
        for row in 0..count {
            online_softmax_step(
                &mut scores[row * BLOCK_K..][..block.count],
                visible_keys(row).saturating_sub(number * BLOCK_K).min(block.count),
                &mut max[row],
                &mut total[row],
                &mut sums[row * dim..][..dim],
            );
        }
        let probs = MatRef::row_major(&scores, count, block.count, BLOCK_K);
        gemm_packed(MatMut::new(&mut sums, dim), probs, &block.values, dim, Update::accumulate(1.0));
    }
    for (sums, total) in sums.chunks_mut(dim).zip(total) {
        sums.iter_mut().for_each(|sum| *sum /= total);
    }
    sums
}

per_isa! {
    /// Online-softmax update of one query: the first `visible` scores become exp(score - max), the others 0, and the
    /// accumulated total and sums are rescaled to the new maximum.
    fn online_softmax_step(scores: &mut [f32], visible: usize, max: &mut f32, total: &mut f32, sums: &mut [f32]) {
        let (scores, hidden) = scores.split_at_mut(visible);
        hidden.fill(0.0);
        if scores.is_empty() {
            return;
        }
        let mut largest = [*max; 16];
        let chunks = scores.chunks_exact(16);
        let rest = chunks.remainder().iter().copied().fold(*max, f32::max);
        for chunk in chunks {
            for lane in 0..16 {
                largest[lane] = if chunk[lane] > largest[lane] { chunk[lane] } else { largest[lane] };
            }
        }
        let new_max = largest.iter().copied().fold(rest, f32::max);
        if new_max > *max {
            let factor = if *max == f32::NEG_INFINITY { 0.0 } else { exp(*max - new_max) };
            *total *= factor;
            sums.iter_mut().for_each(|sum| *sum *= factor);
            *max = new_max;
        }
        *total += exp_and_sum(scores, new_max);
    }
}
