//! Micro-kernel for AVX-512: a tile of 12 x 32 in 24 zmm accumulators of f32. With `PAIRS` a value of A and B is a pair of bf16,
//! two steps of the inner axis, and its product the sum of theirs.
//!
//! The accumulators stay in registers for a whole block of the inner axis. B is packed in micro-panels of 32 columns,
//! so that a step of the inner axis is two vector loads; of A a step is twelve broadcasts.

mod pack;

use std::arch::x86_64::{
    __m512, __m512bh, _MM_HINT_T0, _MM_HINT_T1, _mm_prefetch, _mm512_dpbf16_ps, _mm512_fmadd_ps,
    _mm512_loadu_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps,
};
use std::cell::RefCell;
use std::mem::transmute;

use super::{MR, NR, OutPtr};
use crate::isa::Isa;
use crate::matrix::MatRef;

pub(super) use pack::Panels;
use pack::{Line, PackedA};

/// f32 values per vector.
const LANES: usize = NR / 2;

thread_local! {
    /// Kept from product to product: fresh memory costs more than filling it.
    static A_BUFFER: RefCell<Vec<f32>> = RefCell::default();
}

/// A by the first columns of packed B, to `out`.
///
/// # Safety
/// `out` is valid for writes of so many columns in each of A's rows, and for reads if it is accumulated to.
///
/// # Panics
/// Without the instructions; inner sizes that differ.
pub(super) unsafe fn multiply<const PAIRS: bool>(out: OutPtr, a: MatRef<'_>, b: &Panels, cols: usize) {
    let needed = if PAIRS { Isa::Avx512Bf16 } else { Isa::Avx512 };
    assert!(needed.is_supported() && a.cols == b.k(), "{} by {}", a.cols, b.k());
    let panels = cols.div_ceil(NR);
    A_BUFFER.with_borrow_mut(|buffer| {
        for first in (0..a.rows).step_by(MR) {
            let rows = MR.min(a.rows - first);
            let packed = PackedA::new(a.row_block(first, rows), panels, buffer);
            let later = a.rows - first - rows;
            let next = (later > 0).then(|| a.row_block(first + rows, later.min(MR)));
            for (number, panel) in b.panels().take(panels).enumerate() {
                if let Some(next) = next {
                    prefetch_part(next, number, panels);
                }
                let col = number * NR;
                let tile = Tile {
                    a: &packed,
                    b: panel,
                    // SAFETY: inside of `out`, by the caller's promise.
                    first: unsafe { out.first.add(first * out.row_stride + col) },
                    out,
                    width: NR.min(cols - col),
                };
                // SAFETY: the instructions are there (asserted above), the packed rows of A have as many steps as a
                // panel of B (asserted above), and the output is valid by the caller's promise.
                unsafe { if PAIRS { tile.compute_pairs(rows) } else { tile.compute(rows) } };
            }
        }
    });
}

/// Prefetches one of `parts` parts of the rows of A that are next.
fn prefetch_part(a: MatRef<'_>, part: usize, parts: usize) {
    if a.col_stride > 1 {
        return;
    }
    let steps = part * a.cols / parts..(part + 1) * a.cols / parts;
    for row in 0..a.rows {
        for step in steps.clone().step_by(LANES) {
            let value = a.values.as_ptr().wrapping_add(row * a.row_stride + step);
            // SAFETY: every x86-64 processor has the instruction, and it reads nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(value.cast()) };
        }
    }
}

/// One tile of C: at most (MR, NR).
struct Tile<'a> {
    a: &'a PackedA,
    b: &'a [Line],
    /// First element of the tile.
    first: *mut f32,
    /// The block of C that the tile belongs to.
    out: OutPtr,
    width: usize,
}

/// Methods of a tile that are compiled for instructions: intrinsics are inlined only into functions that name theirs.
macro_rules! micro_kernel {
    ($compute:ident, $rows:ident, $features:literal, $add:ident) => {
        impl Tile<'_> {
            /// # Safety
            /// A has `rows` rows of as many steps as B, the destination is valid, and the instructions are there.
            #[target_feature(enable = $features)]
            unsafe fn $compute(&self, rows: usize) {
                // SAFETY: the caller's.
                unsafe {
                    match rows {
                        1 => self.$rows::<1>(),
                        2 => self.$rows::<2>(),
                        3 => self.$rows::<3>(),
                        4 => self.$rows::<4>(),
                        5 => self.$rows::<5>(),
                        6 => self.$rows::<6>(),
                        7 => self.$rows::<7>(),
                        8 => self.$rows::<8>(),
                        9 => self.$rows::<9>(),
                        10 => self.$rows::<10>(),
                        11 => self.$rows::<11>(),
                        _ => self.$rows::<MR>(),
                    }
                }
            }

            /// # Safety
            /// As of [`Tile::compute`].
            #[target_feature(enable = $features)]
            unsafe fn $rows<const N: usize>(&self) {
                let mut sums = [[_mm512_setzero_ps(); 2]; N];
                let PackedA { first: mut a, row_stride, col_stride } = *self.a;
                let (update, out_stride) = (self.out.update, self.out.row_stride);
                // SAFETY: every read and write is inside of what the caller promises; prefetching reads nothing.
                unsafe {
                    for row in 0..N {
                        let out = self.first.add(row * out_stride);
                        _mm_prefetch::<_MM_HINT_T0>(out.cast());
                        _mm_prefetch::<_MM_HINT_T0>(out.add(self.width - 1).cast());
                    }
                    for step in self.b.as_chunks::<2>().0 {
                        let line = [_mm512_loadu_ps(step[0].0.as_ptr()), _mm512_loadu_ps(step[1].0.as_ptr())];
                        for (row, sums) in sums.iter_mut().enumerate() {
                            let value = _mm512_set1_ps(*a.add(row * row_stride));
                            sums[0] = $add(sums[0], value, line[0]);
                            sums[1] = $add(sums[1], value, line[1]);
                        }
                        a = a.wrapping_add(col_stride);
                    }
                    // Without branches: a longer loop is not unrolled, and the sums would go to memory and back.
                    let alpha = _mm512_set1_ps(update.alpha);
                    let written = [mask(self.width), mask(self.width.saturating_sub(LANES))];
                    let read = if update.accumulate { written } else { [0; 2] };
                    for (row, sums) in sums.iter().enumerate() {
                        let out = self.first.wrapping_add(row * out_stride);
                        for half in 0..2 {
                            let out = out.wrapping_add(half * LANES);
                            let sum =
                                _mm512_fmadd_ps(sums[half], alpha, _mm512_maskz_loadu_ps(read[half], out));
                            _mm512_mask_storeu_ps(out, written[half], sum);
                        }
                    }
                }
            }
        }
    };
}

micro_kernel!(compute, rows, "avx512f,avx512bw,avx512vl", add_products);
micro_kernel!(compute_pairs, rows_of_pairs, "avx512f,avx512bw,avx512vl,avx512bf16", add_pairs);

/// Adds products to sums.
#[inline]
#[target_feature(enable = "avx512f")]
fn add_products(sums: __m512, a: __m512, b: __m512) -> __m512 {
    _mm512_fmadd_ps(a, b, sums)
}

/// Adds the products of pairs of bf16 to sums.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn add_pairs(sums: __m512, a: __m512, b: __m512) -> __m512 {
    // SAFETY: both are 512 bits, of which every pattern is a vector of either.
    let [a, b] = unsafe { [transmute::<__m512, __m512bh>(a), transmute::<__m512, __m512bh>(b)] };
    _mm512_dpbf16_ps(sums, a, b)
}

/// The first `count` lanes of a vector, or all.
fn mask(count: usize) -> u16 {
    if count < LANES { (1 << count) - 1 } else { u16::MAX }
}
