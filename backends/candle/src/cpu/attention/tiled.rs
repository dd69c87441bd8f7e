//! Many queries by the matrix units.

use std::ops::Range;

use half::bf16;
use paravt_qwen_vl::ops::Segment;
use rayon::prelude::*;

use super::{CHUNK, Heads, Rows, by_head, seen, soften};
use crate::cpu::amx::{Pieces, SIDE, STEP, TILE, Tiles};
use crate::cpu::matmul::{pack_left, pack_right_f32};

/// Queries that a task takes: keys and values stay in its cache for all of them.
const TASK_QUERIES: usize = 128;
/// Queries, or keys, of one call of the kernel.
const BLOCK: usize = 2 * SIDE;

/// Everything of one key head that the tiles multiply by.
struct Packed {
    /// (key block, step of dim, 3, 2 tiles): scores.
    keys: Vec<bf16>,
    /// (dim block, step of keys, 3, 2 tiles): values, transposed.
    values: Vec<bf16>,
}

pub fn many_queries(out: &mut [f32], [q, k, v]: [Rows<'_>; 3], heads: Heads, segment: Segment, causal: bool) {
    let group = heads.queries / heads.keys;
    let packed: Vec<Packed> =
        (0..heads.keys).into_par_iter().map(|head| pack_head(k, v, heads.dim, head, segment.keys)).collect();
    by_head(out, heads, TASK_QUERIES, |head, first, count| {
        let queries = gather(q, heads.dim, head, first..first + count);
        head_chunk(&queries, &packed[head / group], heads.dim, first, segment, causal)
    });
}

/// Rows of one head, one after the other.
fn gather(x: Rows<'_>, dim: usize, head: usize, rows: Range<usize>) -> Vec<f32> {
    rows.flat_map(|row| &x.values[row * x.stride + head * dim..][..dim]).copied().collect()
}

fn pack_head(k: Rows<'_>, v: Rows<'_>, dim: usize, head: usize, keys: usize) -> Packed {
    let (k, v) = (gather(k, dim, head, 0..keys), gather(v, dim, head, 0..keys));
    let key_block = dim.div_ceil(STEP) * 6 * TILE;
    let mut packed_keys = vec![bf16::ZERO; keys.div_ceil(BLOCK) * key_block];
    for (rows, packed) in k.chunks(BLOCK * dim).zip(packed_keys.chunks_mut(key_block)) {
        pack_right_f32(rows, dim, 0, dim, packed);
    }
    let turned: Vec<f32> = (0..dim).flat_map(|column| v.iter().skip(column).step_by(dim)).copied().collect();
    let value_block = keys.div_ceil(STEP) * 6 * TILE;
    let mut packed_values = vec![bf16::ZERO; dim.div_ceil(BLOCK) * value_block];
    for (rows, packed) in turned.chunks(BLOCK * keys).zip(packed_values.chunks_mut(value_block)) {
        pack_right_f32(rows, keys, 0, keys, packed);
    }
    Packed { keys: packed_keys, values: packed_values }
}

/// Up to 128 queries (n, dim) of one head; the first is number `first` of its segment.
fn head_chunk(
    q: &[f32],
    packed: &Packed,
    dim: usize,
    first: usize,
    segment: Segment,
    causal: bool,
) -> Vec<f32> {
    const BOTH: Pieces = Pieces { left: 3, right: 3 };
    let tiles = Tiles::new();
    let scale = (dim as f32).powf(-0.5);
    let (dim_steps, dim_blocks) = (dim.div_ceil(STEP), dim.div_ceil(BLOCK));
    let key_block = dim_steps * 6 * TILE;
    let value_block = segment.keys.div_ceil(STEP) * 6 * TILE;
    let count = q.len() / dim;
    let width = dim_blocks * BLOCK;
    let mut out = vec![0.0f32; count * dim];
    let mut left = vec![bf16::ZERO; key_block];
    let mut shares = vec![bf16::ZERO; CHUNK / STEP * 6 * TILE];
    let mut scores = vec![0.0f32; BLOCK * CHUNK];
    let mut sums = vec![0.0f32; BLOCK * width];
    let mut square = [0.0f32; BLOCK * BLOCK];
    for (number, block) in q.chunks(BLOCK * dim).enumerate() {
        let rows = block.len() / dim;
        let block_first = first + number * BLOCK;
        let scaled: Vec<f32> = block.iter().map(|value| value * scale).collect();
        left.fill(bf16::ZERO);
        pack_left(&scaled, dim, 0, dim, 3, &mut left);
        sums.fill(0.0);
        let (mut most, mut total) = ([f32::NEG_INFINITY; BLOCK], [0.0f32; BLOCK]);
        let end = seen(block_first + rows - 1, segment, causal);
        for chunk in (0..end).step_by(CHUNK) {
            let keys = CHUNK.min(end - chunk);
            let padded = keys.div_ceil(BLOCK) * BLOCK;
            for key in (0..padded).step_by(BLOCK) {
                let right = &packed.keys[(chunk + key) / BLOCK * key_block..][..key_block];
                tiles.multiply(&left, right, BOTH, dim_steps, &mut square);
                for (row, part) in square.chunks(BLOCK).enumerate() {
                    scores[row * padded + key..][..BLOCK].copy_from_slice(part);
                }
            }
            for row in 0..rows {
                let scores = &mut scores[row * padded..(row + 1) * padded];
                let visible = seen(block_first + row, segment, causal).saturating_sub(chunk).min(keys);
                soften(
                    scores,
                    visible,
                    &mut most[row],
                    &mut total[row],
                    &mut sums[row * width..(row + 1) * width],
                );
            }
            scores[rows * padded..BLOCK * padded].fill(0.0);
            let steps = padded / STEP;
            let shares = &mut shares[..steps * 6 * TILE];
            pack_left(&scores[..BLOCK * padded], padded, 0, padded, 3, shares);
            for dim_block in 0..dim_blocks {
                let right = &packed.values[dim_block * value_block + chunk / STEP * 6 * TILE..];
                tiles.multiply(shares, &right[..steps * 6 * TILE], BOTH, steps, &mut square);
                for (row, part) in square.chunks(BLOCK).enumerate() {
                    let sums = &mut sums[row * width + dim_block * BLOCK..][..BLOCK];
                    sums.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
                }
            }
        }
        for row in 0..rows {
            let result = &mut out[(number * BLOCK + row) * dim..][..dim];
            result.iter_mut().zip(&sums[row * width..]).for_each(|(out, sum)| *out = sum / total[row]);
        }
    }
    out
}
