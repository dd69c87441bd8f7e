//! Products with a weight as it is stored.

use half::bf16;

use crate::gemm::gemm;
use crate::gemv::{gemv_bf16, gemv_f32};
use crate::matrix::MatRef;

/// A weight (n, k), row-major.
#[derive(Clone, Copy)]
pub enum Weight<'a> {
    /// 32 bits.
    F32(&'a [f32]),
    /// bfloat16, as published; widened on the fly, exactly.
    Bf16(&'a [bf16]),
}

/// Rows of x up to which [`linear`] is fastest as a GEMV, bound by reading the weight.
pub const GEMV_MAX_M: usize = 16;

/// x (m, k) by the transpose of w (n, k): (m, n). Up to `gemv_max_m` rows ([`GEMV_MAX_M`] is fastest) each row's
/// result is the same, bit for bit, whatever rows it is computed with (batch-invariant).
pub fn linear(x: &[f32], w: Weight<'_>, k: usize, n: usize, gemv_max_m: usize) -> Vec<f32> {
    let m = x.len() / k;
    if m <= gemv_max_m {
        return match w {
            Weight::F32(w) => gemv_f32(x, w, k, n),
            Weight::Bf16(w) => gemv_bf16(x, w, k, n),
        };
    }
    let x = MatRef::row_major(x, m, k, k);
    match w {
        Weight::F32(w) => gemm(x, MatRef::row_major(w, n, k, k).transposed()),
        Weight::Bf16(w) => gemm(x, MatRef::row_major(w, n, k, k).transposed()),
    }
}
