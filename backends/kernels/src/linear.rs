//! x (n, k) by w (out, k) transposed, whatever w is stored as.

use half::bf16;
use multiversion::multiversion;
use rayon::prelude::*;

use super::amx::{self, Pieces, SIDE, STEP, TILE, Tiles};
use super::dot::{few_rows_bf16, few_rows_f32};
use super::elementwise::add_to_row;
use super::matrix::Matrix;
use super::vector::product;

/// A matrix (out, k), row by row.
#[derive(Clone, Copy)]
pub enum Weight<'a> {
    /// 32 bits.
    F32(&'a [f32]),
    /// bfloat16, as published.
    Bf16(&'a [bf16]),
}

/// Up to so many rows, reading the matrix is what takes time.
pub const FEW: usize = 16;
/// Rows and columns of the result that one call of the kernel makes.
const BLOCK: usize = 2 * SIDE;
/// Elements of the inner axis that are packed at once.
const INNER: usize = 1024;
/// Rows of x that a task holds in its second-level cache.
const TASK_ROWS: usize = 128;
/// Values that a task checks.
const PART: usize = 1 << 16;
/// Columns whose packed weights are held at once.
const COLUMNS: usize = 4096;

/// The product (n, out). `narrow` says that the values of x are bfloat16. Up to `few` rows ([`FEW`] is
/// fastest) each row's result is the same, bit for bit, whatever rows it is computed with.
pub fn matmul(x: &[f32], narrow: bool, w: Weight<'_>, k: usize, out: usize, few: usize) -> Vec<f32> {
    let n = x.len() / k;
    if n <= few {
        return match w {
            Weight::F32(w) => few_rows_f32(x, w, k, out),
            Weight::Bf16(w) => few_rows_bf16(x, w, k, out),
        };
    }
    if !amx::is_available() || !can_split(x, w) {
        let x = Matrix::rows(x, n, k, k);
        return match w {
            Weight::F32(w) => product(x, Matrix::rows(w, out, k, k).turned()),
            Weight::Bf16(w) => product(x, Matrix::rows(w, out, k, k).turned()),
        };
    }
    let is_wide = matches!(w, Weight::F32(_));
    let pieces = Pieces { left: if narrow && !is_wide { 1 } else { 3 }, right: if is_wide { 3 } else { 1 } };
    tiled(x, w, k, out, pieces)
}

/// Whether both sides can be products of the matrix units.
fn can_split(x: &[f32], w: Weight<'_>) -> bool {
    let finite = |w: &[bf16]| w.iter().fold(true, |all, value| all & value.is_finite());
    x.par_chunks(PART).all(amx::can_split)
        && match w {
            Weight::F32(w) => w.par_chunks(PART).all(amx::can_split),
            Weight::Bf16(w) => w.par_chunks(PART).all(finite),
        }
}

fn tiled(x: &[f32], w: Weight<'_>, k: usize, out: usize, pieces: Pieces) -> Vec<f32> {
    let n = x.len() / k;
    let mut product = vec![0.0f32; n * out];
    let row_blocks = n.div_ceil(BLOCK);
    for start in (0..k).step_by(INNER) {
        let inner = INNER.min(k - start);
        let steps = inner.div_ceil(STEP);
        let left_block = steps * pieces.left * 2 * TILE;
        let mut left = vec![bf16::ZERO; row_blocks * left_block];
        left.par_chunks_mut(left_block).enumerate().for_each(|(block, packed)| {
            let rows = &x[block * BLOCK * k..(block * BLOCK * k + BLOCK * k).min(n * k)];
            pack_left(rows, k, start, inner, pieces.left, packed);
        });
        for first in (0..out).step_by(COLUMNS) {
            let columns = COLUMNS.min(out - first);
            let right_block = steps * pieces.right * 2 * TILE;
            let mut right = vec![bf16::ZERO; columns.div_ceil(BLOCK) * right_block];
            right.par_chunks_mut(right_block).enumerate().for_each(|(block, packed)| {
                let (from, to) = (first + block * BLOCK, (first + block * BLOCK + BLOCK).min(out));
                match w {
                    Weight::F32(w) => pack_right_f32(&w[from * k..to * k], k, start, inner, packed),
                    Weight::Bf16(w) => pack_right_bf16(&w[from * k..to * k], k, start, inner, packed),
                }
            });
            product
                .par_chunks_mut(TASK_ROWS * out)
                .zip(left.par_chunks(TASK_ROWS / BLOCK * left_block))
                .for_each(|(product, left)| {
                    let tiles = Tiles::new();
                    let mut square = [0.0f32; BLOCK * BLOCK];
                    for (block, right) in right.chunks(right_block).enumerate() {
                        let column = first + block * BLOCK;
                        let width = BLOCK.min(first + columns - column);
                        for (rows, left) in product.chunks_mut(BLOCK * out).zip(left.chunks(left_block)) {
                            tiles.multiply(left, right, pieces, steps, &mut square);
                            for (row, sums) in rows.chunks_mut(out).zip(square.chunks(BLOCK)) {
                                add_to_row(&mut row[column..column + width], sums);
                            }
                        }
                    }
                });
        }
    }
    product
}

/// Up to 32 rows of x as tiles: (step, piece, half, row, 32).
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+fma"))]
pub(super) fn pack_left(
    rows: &[f32],
    k: usize,
    start: usize,
    inner: usize,
    pieces: usize,
    packed: &mut [bf16],
) {
    let step_size = pieces * 2 * TILE;
    for (number, row) in rows.chunks(k).enumerate() {
        let place = number / SIDE * TILE + number % SIDE * STEP;
        for (step, values) in row[start..start + inner].chunks(STEP).enumerate() {
            let tile = &mut packed[step * step_size..(step + 1) * step_size];
            // Piece after piece over the whole step: loops that vectorise.
            let mut rest = [0.0f32; STEP];
            rest[..values.len()].copy_from_slice(values);
            for piece in 0..pieces {
                let part: &mut [bf16] = &mut tile[piece * 2 * TILE + place..][..STEP];
                for (part, rest) in part.iter_mut().zip(&mut rest) {
                    let first = amx::round(*rest);
                    *part = bf16::from_bits(first);
                    *rest -= amx::widen(first);
                }
            }
        }
    }
}

/// Up to 32 rows of w as transposed tiles: (step, half, pair of inner elements, row, 2).
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+fma"))]
fn pack_right_bf16(rows: &[bf16], k: usize, start: usize, inner: usize, packed: &mut [bf16]) {
    for (number, row) in rows.chunks(k).enumerate() {
        let (half, column) = (number / SIDE, number % SIDE);
        for (step, values) in row[start..start + inner].chunks(STEP).enumerate() {
            let tile = &mut packed[(step * 2 + half) * TILE..][..TILE];
            for (pair, values) in values.chunks(2).enumerate() {
                let place = (pair * SIDE + column) * 2;
                tile[place..place + values.len()].copy_from_slice(values);
            }
        }
    }
}

/// The same of f32 values in three pieces: (step, piece, half, pair, row, 2).
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+fma"))]
pub(super) fn pack_right_f32(rows: &[f32], k: usize, start: usize, inner: usize, packed: &mut [bf16]) {
    for (number, row) in rows.chunks(k).enumerate() {
        let (half, column) = (number / SIDE, number % SIDE);
        for (step, values) in row[start..start + inner].chunks(STEP).enumerate() {
            let tiles = &mut packed[step * 6 * TILE..(step + 1) * 6 * TILE];
            for (element, &value) in values.iter().enumerate() {
                let place = half * TILE + (element / 2 * SIDE + column) * 2 + element % 2;
                for (piece, part) in amx::split(value).into_iter().enumerate() {
                    tiles[piece * 2 * TILE + place] = part;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng as _, SeedableRng as _};

    #[test]
    fn tiles_are_as_exact_as_f32() {
        if !amx::is_available() {
            eprintln!("no AMX here: nothing to test");
            return;
        }
        let mut rng = StdRng::seed_from_u64(0);
        for (n, k, out) in [(17, 32, 32), (33, 40, 7), (130, 1100, 65), (64, 2048, 4100)] {
            let x: Vec<f32> = (0..n * k).map(|_| rng.random::<f32>() * 2.0 - 1.0).collect();
            let wide: Vec<f32> = (0..out * k).map(|_| rng.random::<f32>() * 2.0 - 1.0).collect();
            let narrow: Vec<bf16> = wide.iter().map(|&value| bf16::from_f32(value)).collect();
            let narrow_wide: Vec<f32> = narrow.iter().map(|value| value.to_f32()).collect();
            let short: Vec<f32> = x.iter().map(|&value| bf16::from_f32(value).to_f32()).collect();
            for (x, weight, values, left) in [
                (&x, Weight::F32(&wide), &wide, 3),
                (&x, Weight::Bf16(&narrow), &narrow_wide, 3),
                (&short, Weight::Bf16(&narrow), &narrow_wide, 1),
            ] {
                let right = if matches!(weight, Weight::F32(_)) { 3 } else { 1 };
                let found = tiled(x, weight, k, out, Pieces { left, right });
                for _ in 0..200 {
                    let (row, column) = (rng.random_range(0..n), rng.random_range(0..out));
                    let terms = (0..k).map(|i| f64::from(x[row * k + i]) * f64::from(values[column * k + i]));
                    let wanted: f64 = terms.sum();
                    let error = (f64::from(found[row * out + column]) - wanted).abs();
                    assert!(error < 1e-6 * (k as f64).sqrt(), "{n} {k} {out}: {error}");
                }
            }
        }
    }
}
