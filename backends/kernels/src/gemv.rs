//! A few rows by a matrix: as fast as the matrix can be read.

use half::bf16;
use rayon::prelude::*;

use crate::matrix::Element;

/// Independent partial sums of a dot product: four vectors of sixteen.
const LANES: usize = 64;
/// Rows of the matrix per task.
const TASK_ROWS: usize = 32;
/// Results that a task transposes.
const TASK_TRANSPOSE: usize = 1 << 14;

/// x (m, k) by the transpose of w (n, k): (m, n).
pub(crate) fn gemv_f32(x: &[f32], w: &[f32], k: usize, n: usize) -> Vec<f32> {
    gemv(x, w, k, n, dots_f32)
}

/// x (m, k) by the transpose of w (n, k): (m, n).
pub(crate) fn gemv_bf16(x: &[f32], w: &[bf16], k: usize, n: usize) -> Vec<f32> {
    gemv(x, w, k, n, dots_bf16)
}

fn gemv<W: Element>(x: &[f32], w: &[W], k: usize, n: usize, dots: fn(&[f32], &[W], &mut [f32])) -> Vec<f32> {
    let m = x.len() / k;
    // (n, m) while computing: the results of a task are contiguous.
    let mut products = vec![0.0; n * m];
    products.par_chunks_mut(TASK_ROWS * m).zip(w.par_chunks(TASK_ROWS * k)).for_each(|(products, rows)| {
        for (products, row) in products.chunks_mut(m).zip(rows.chunks(k)) {
            dots(x, row, products);
        }
    });
    if m == 1 {
        return products;
    }
    // A task writes a part of one row.
    let mut transposed = vec![0.0; n * m];
    transposed.par_chunks_mut(n).enumerate().for_each(|(token, row)| {
        row.par_chunks_mut(TASK_TRANSPOSE).enumerate().for_each(|(part, row)| {
            let products = products[part * TASK_TRANSPOSE * m + token..].iter().step_by(m);
            row.iter_mut().zip(products).for_each(|(value, product)| *value = *product);
        });
    });
    transposed
}

per_isa! {
    fn dots_f32(x: &[f32], row: &[f32], products: &mut [f32]) {
        for (x, product) in x.chunks_exact(row.len()).zip(products) {
            *product = dot(x, row);
        }
    }
}

per_isa! {
    fn dots_bf16(x: &[f32], row: &[bf16], products: &mut [f32]) {
        for (x, product) in x.chunks_exact(row.len()).zip(products) {
            *product = dot(x, row);
        }
    }
}

/// Dot product, summed in an order that vectorises and is the same for every instruction set.
#[inline(always)]
pub(crate) fn dot<W: Element>(x: &[f32], row: &[W]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let ((x, x_rest), (row, row_rest)) = (x.as_chunks::<LANES>(), row.as_chunks::<LANES>());
    let rest: f32 = x_rest.iter().zip(row_rest).map(|(a, b)| a * b.value()).sum();
    // By index: an iterator's step that is not inlined would be compiled without the vector instructions.
    for chunk in 0..x.len().min(row.len()) {
        for lane in 0..LANES {
            sums[lane] += x[chunk][lane] * row[chunk][lane].value();
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
    use crate::isa::tests::for_each_isa;

    #[test]
    fn products_equal_f64_sums_under_every_isa() {
        for_each_isa(|isa| {
            for (m, k, n) in [(1, 1, 1), (1, 64, 3), (3, 130, 70), (2, 63, 33)] {
                let x: Vec<f32> = (0..m * k).map(|i| ((i * 37 % 101) as f32 - 50.0) / 31.0).collect();
                let w: Vec<bf16> =
                    (0..n * k).map(|i| bf16::from_f32(((i * 53 % 89) as f32 - 44.0) / 17.0)).collect();
                let wide: Vec<f32> = w.iter().map(|value| value.to_f32()).collect();
                for found in [gemv_bf16(&x, &w, k, n), gemv_f32(&x, &wide, k, n)] {
                    for token in 0..m {
                        for row in 0..n {
                            let terms =
                                (0..k).map(|i| f64::from(x[token * k + i]) * f64::from(wide[row * k + i]));
                            let error = (f64::from(found[token * n + row]) - terms.sum::<f64>()).abs();
                            assert!(error < 1e-3, "{isa} {m} {k} {n}: {error}");
                        }
                    }
                }
            }
        });
    }
}
