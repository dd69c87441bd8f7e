//! Many queries by the vector units.

use paravt_qwen_vl::ops::Segment;
use rayon::prelude::*;

use super::{Heads, Rows, by_head, seen, soften};
use crate::cpu::matrix::Matrix;
use crate::cpu::vector::{Right, multiply_ready};

/// Queries that a task takes: their scores stay in its cache.
const TASK_QUERIES: usize = 128;
/// Keys between two updates of the running maximum.
const CHUNK: usize = 256;

/// Some keys of one head and their values, as right sides.
struct Packed<'a> {
    count: usize,
    /// (dim, keys): scores.
    keys: Right<'a>,
    /// (keys, dim): results.
    values: Right<'a>,
}

pub fn many_queries(out: &mut [f32], [q, k, v]: [Rows<'_>; 3], heads: Heads, segment: Segment, causal: bool) {
    let (dim, group) = (heads.dim, heads.queries / heads.keys);
    let chunks = segment.keys.div_ceil(CHUNK);
    let pack = |place: usize| {
        let (head, start) = (place / chunks, place % chunks * CHUNK);
        let count = CHUNK.min(segment.keys - start);
        let (keys, values) = (k.part(start, count, head * dim, dim), v.part(start, count, head * dim, dim));
        Packed { count, keys: Right::new(keys.turned()), values: Right::new(values) }
    };
    let packed: Vec<Packed<'_>> = (0..heads.keys * chunks).into_par_iter().map(pack).collect();
    by_head(out, heads, TASK_QUERIES, |head, first, count| {
        let queries = q.part(first, count, head * dim, dim);
        let packed = &packed[head / group * chunks..][..chunks];
        weigh(queries, packed, |query| seen(first + query, segment, causal))
    });
}

/// Values by shares, a row per query.
fn weigh(queries: Matrix<'_>, packed: &[Packed<'_>], seen: impl Fn(usize) -> usize) -> Vec<f32> {
    let (count, dim) = (queries.count(), queries.columns());
    let scale = (dim as f32).powf(-0.5);
    let (mut most, mut total) = ([f32::NEG_INFINITY; TASK_QUERIES], [0.0f32; TASK_QUERIES]);
    let mut scores = vec![0.0f32; count * CHUNK];
    let mut sums = vec![0.0f32; count * dim];
    // The last query of these sees most.
    for (number, packed) in packed.iter().enumerate().take(seen(count - 1).div_ceil(CHUNK)) {
        multiply_ready(&mut scores, CHUNK, queries, &packed.keys, scale, false);
        for row in 0..count {
            soften(
                &mut scores[row * CHUNK..][..packed.count],
                seen(row).saturating_sub(number * CHUNK).min(packed.count),
                &mut most[row],
                &mut total[row],
                &mut sums[row * dim..][..dim],
            );
        }
        let shares = Matrix::rows(&scores, count, packed.count, CHUNK);
        multiply_ready(&mut sums, dim, shares, &packed.values, 1.0, true);
    }
    for (sums, total) in sums.chunks_mut(dim).zip(total) {
        sums.iter_mut().for_each(|sum| *sum /= total);
    }
    sums
}
