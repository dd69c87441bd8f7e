//! Many queries by the vector units.

use paravt_qwen_vl::ops::Segment;
use rayon::prelude::*;

use super::{Heads, seen, soften};
use crate::cpu::vector::{Matrix, multiply};

/// Queries that a task takes: their scores stay in its cache.
const TASK_QUERIES: usize = 128;
/// Keys between two updates of the running maximum.
const CHUNK: usize = 256;

pub fn many_queries(
    out: &mut [f32],
    q: &[f32],
    k: &[f32],
    v: &[f32],
    heads: Heads,
    segment: Segment,
    causal: bool,
) {
    let (dim, row, group) = (heads.dim, heads.queries * heads.dim, heads.queries / heads.keys);
    out.par_chunks_mut(TASK_QUERIES * row).enumerate().for_each(|(task, out)| {
        let first = task * TASK_QUERIES;
        let mut scores = vec![0.0f32; TASK_QUERIES * CHUNK];
        let mut sums = vec![0.0f32; TASK_QUERIES * dim];
        for head in 0..heads.queries {
            let key_head = head / group * dim;
            let keys = Matrix::rows(&k[key_head..], segment.keys, dim, heads.keys * dim);
            let values = Matrix::rows(&v[key_head..], segment.keys, dim, heads.keys * dim);
            let queries = Matrix::rows(&q[first * row + head * dim..], out.len() / row, dim, row);
            let total = weigh(&mut sums, &mut scores, queries, keys, values, |query| {
                seen(first + query, segment, causal)
            });
            for (query, out) in out.chunks_mut(row).enumerate() {
                let sums = &sums[query * dim..][..dim];
                let out = &mut out[head * dim..][..dim];
                out.iter_mut().zip(sums).for_each(|(out, sum)| *out = sum / total[query]);
            }
        }
    });
}

/// Sums of values by unscaled shares, a row per query; what each row's shares add up to is returned.
fn weigh(
    sums: &mut [f32],
    scores: &mut [f32],
    queries: Matrix<'_>,
    keys: Matrix<'_>,
    values: Matrix<'_>,
    seen: impl Fn(usize) -> usize,
) -> [f32; TASK_QUERIES] {
    let dim = queries.columns();
    let scale = (dim as f32).powf(-0.5);
    let (mut most, mut total) = ([f32::NEG_INFINITY; TASK_QUERIES], [0.0f32; TASK_QUERIES]);
    sums.fill(0.0);
    let end = seen(queries.count() - 1);
    for start in (0..end).step_by(CHUNK) {
        let count = CHUNK.min(end - start);
        multiply(scores, CHUNK, queries, keys.part(start, count).turned(), scale, false);
        for row in 0..queries.count() {
            soften(
                &mut scores[row * CHUNK..][..count],
                seen(row).saturating_sub(start).min(count),
                &mut most[row],
                &mut total[row],
                &mut sums[row * dim..][..dim],
            );
        }
        let shares = Matrix::rows(scores, queries.count(), count, CHUNK);
        multiply(sums, dim, shares, values.part(start, count), 1.0, true);
    }
    total
}
