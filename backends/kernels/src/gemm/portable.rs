//! Products of one block by the micro-kernels of the `gemm` crate: of its kernels those of the instruction set in use.
//! (The crate's own function takes the best that the processor has.)

use super::{MatRef, OutPtr};

/// Calls the crate's driver with one set of its micro-kernels of `$lanes` lanes.
macro_rules! by_micro_kernels {
    ($kernels:ident, $simd:ty, $lanes:literal, $out:ident, $a:ident, $b:ident) => {{
        use gemm_common::simd::MixedSimd;
        use gemm_f32::microkernel::$kernels::f32::{H_M, H_N, H_UKR, MR_DIV_N, NR, UKR};

        let simd = <$simd as MixedSimd<f32, f32, f32, f32>>::try_new();
        gemm_common::gemm::gemm_basic_generic::<_, f32, $lanes, { MR_DIV_N * $lanes }, NR, MR_DIV_N, H_M, H_N>(
            simd.expect("`isa` is only ever an instruction set that the processor has"),
            $a.rows,
            $b.cols,
            $a.cols,
            $out.first,
            1,
            $out.row_stride as isize,
            $out.update.accumulate,
            $a.values.as_ptr(),
            $a.col_stride as isize,
            $a.row_stride as isize,
            $b.values.as_ptr(),
            $b.col_stride as isize,
            $b.row_stride as isize,
            1.0,
            $out.update.alpha,
            false,
            false,
            false,
            |a, b, c| a * b + c,
            &UKR,
            &H_UKR,
            false,
            gemm_common::Parallelism::None,
        );
    }};
}

/// Block of the inner axis without fused multiply-add: a step rounds twice there, and sums of short blocks round less.
#[cfg(target_arch = "x86_64")]
const UNFUSED_KC: usize = 64;

/// One block of a product, on the calling thread.
///
/// # Safety
/// As of [`super::multiply_block`].
pub(super) unsafe fn multiply(out: OutPtr, a: MatRef<'_>, b: MatRef<'_>) {
    assert!(a.cols == b.rows, "{} by {}", a.cols, b.rows);
    // SAFETY: matrices lie inside of their slices; `out` is the caller's.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        match crate::isa::isa() {
            crate::isa::Isa::Baseline => {
                for start in (0..a.cols).step_by(UNFUSED_KC) {
                    let count = UNFUSED_KC.min(a.cols - start);
                    let (a, b) = (a.col_block(start, count), b.row_block(start, count));
                    let out = OutPtr { update: out.update.of_block(start), ..out };
                    by_micro_kernels!(scalar, gemm_common::simd::Scalar, 1, out, a, b);
                }
            }
            // AVX-512 has its own kernel, whose sides are packed otherwise.
            _ => by_micro_kernels!(fma, gemm_common::simd::V3, 8, out, a, b),
        }
        #[cfg(target_arch = "aarch64")]
        by_micro_kernels!(neon, gemm_common::simd::Scalar, 4, out, a, b);
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        by_micro_kernels!(scalar, gemm_common::simd::Scalar, 1, out, a, b);
    }
}
