//! Few rows by a matrix: as fast as the matrix can be read.

use half::bf16;
use multiversion::multiversion;
use rayon::prelude::*;

use super::matrix::Element;

/// Independent sums of a dot product: four vectors of sixteen.
const LANES: usize = 64;
/// Rows of the matrix that a task takes.
const TASK_ROWS: usize = 32;
/// Results that a task puts in order.
const TURNED: usize = 1 << 14;

/// x (n, k) by w (out, k) transposed: (n, out).
pub fn few_rows_f32(x: &[f32], w: &[f32], k: usize, out: usize) -> Vec<f32> {
    few_rows(x, w, k, out, dots_f32)
}

/// x (n, k) by w (out, k) transposed: (n, out).
pub fn few_rows_bf16(x: &[f32], w: &[bf16], k: usize, out: usize) -> Vec<f32> {
    few_rows(x, w, k, out, dots_bf16)
}

fn few_rows<W: Element>(
    x: &[f32],
    w: &[W],
    k: usize,
    out: usize,
    dots: fn(&[f32], &[W], &mut [f32]),
) -> Vec<f32> {
    let n = x.len() / k;
    // (out, n) while computing: a task's results lie together.
    let mut products = vec![0.0; out * n];
    products.par_chunks_mut(TASK_ROWS * n).zip(w.par_chunks(TASK_ROWS * k)).for_each(|(products, rows)| {
        for (products, row) in products.chunks_mut(n).zip(rows.chunks(k)) {
            dots(x, row, products);
        }
    });
    if n == 1 {
        return products;
    }
    // A task writes a part of one row.
    let mut turned = vec![0.0; out * n];
    turned.par_chunks_mut(out).enumerate().for_each(|(token, row)| {
        row.par_chunks_mut(TURNED).enumerate().for_each(|(part, row)| {
            let products = products[part * TURNED * n + token..].iter().step_by(n);
            row.iter_mut().zip(products).for_each(|(value, product)| *value = *product);
        });
    });
    turned
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+fma"))]
fn dots_f32(x: &[f32], row: &[f32], products: &mut [f32]) {
    for (x, product) in x.chunks_exact(row.len()).zip(products) {
        *product = dot(x, row);
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+fma"))]
fn dots_bf16(x: &[f32], row: &[bf16], products: &mut [f32]) {
    for (x, product) in x.chunks_exact(row.len()).zip(products) {
        *product = dot(x, row);
    }
}

/// Their dot product, in an order that vectorises.
#[inline(always)]
pub fn dot<W: Element>(x: &[f32], row: &[W]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let ((x, x_rest), (row, row_rest)) = (x.as_chunks::<LANES>(), row.as_chunks::<LANES>());
    let rest: f32 = x_rest.iter().zip(row_rest).map(|(a, b)| a * b.value()).sum();
    // By index: an iterator's step that is not inlined would be compiled without the vector instructions.
    for part in 0..x.len().min(row.len()) {
        for lane in 0..LANES {
            sums[lane] += x[part][lane] * row[part][lane].value();
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0] + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_those_of_the_definition() {
        for (n, k, out) in [(1, 1, 1), (1, 64, 3), (3, 130, 70), (2, 63, 33)] {
            let x: Vec<f32> = (0..n * k).map(|i| ((i * 37 % 101) as f32 - 50.0) / 31.0).collect();
            let w: Vec<bf16> =
                (0..out * k).map(|i| bf16::from_f32(((i * 53 % 89) as f32 - 44.0) / 17.0)).collect();
            let wide: Vec<f32> = w.iter().map(|value| value.to_f32()).collect();
            for found in [few_rows_bf16(&x, &w, k, out), few_rows_f32(&x, &wide, k, out)] {
                for token in 0..n {
                    for row in 0..out {
                        let terms =
                            (0..k).map(|i| f64::from(x[token * k + i]) * f64::from(wide[row * k + i]));
                        let wanted: f64 = terms.sum();
                        assert!((f64::from(found[token * out + row]) - wanted).abs() < 1e-3, "{n} {k} {out}");
                    }
                }
            }
        }
    }
}
