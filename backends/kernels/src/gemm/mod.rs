//! GEMM: C = alpha A B, on its own or added to C. AVX-512 has a micro-kernel here; every other instruction set uses
//! those of the `gemm` crate, block by block.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use std::cell::RefCell;
use std::ops::Range;

use half::bf16;
use rayon::prelude::*;

use crate::isa::{Isa, isa};
use crate::matrix::{Element, MatMut, MatRef};

/// Rows of the micro-kernel's tile; blocks are multiples of it.
const MR: usize = 12;
/// Columns of the micro-kernel's tile; blocks are multiples of it.
const NR: usize = 32;
/// Largest block of the inner axis.
pub(crate) const KC: usize = 1024;
/// Largest number of columns per task: what it packs of B stays in its cache.
const NC: usize = 384;
/// Smallest number of rows per task, about: packing B should be little beside using it.
const MC: usize = 240;
/// Tasks per core, so that a late one delays little.
const TASKS_PER_CORE: usize = 2;

/// How a product goes to its destination.
#[derive(Debug, Clone, Copy)]
pub struct Update {
    alpha: f32,
    accumulate: bool,
}

impl Update {
    /// C = alpha A B.
    pub(crate) fn assign(alpha: f32) -> Self {
        Self { alpha, accumulate: false }
    }

    /// C += alpha A B.
    pub(crate) fn accumulate(alpha: f32) -> Self {
        Self { alpha, accumulate: true }
    }

    /// The update by block number `block` of the inner axis: later ones add to the first one's result.
    fn of_block(self, block: usize) -> Self {
        Self { accumulate: self.accumulate || block > 0, ..self }
    }
}

/// Destination of one block: a pointer, because the blocks of one matrix interleave in memory.
#[derive(Clone, Copy)]
struct OutPtr {
    first: *mut f32,
    row_stride: usize,
    update: Update,
}

/// The output of [`gemm`], which its tasks share.
struct SharedOut(*mut f32);

// SAFETY: `gemm` gives each element to one task at a time.
unsafe impl Sync for SharedOut {}

/// A partition of a matrix (rows, cols) into blocks of at most (height, width).
struct Grid {
    rows: usize,
    cols: usize,
    height: usize,
    width: usize,
}

impl Grid {
    /// Blocks that take about as long as each other, a few per core.
    fn new(rows: usize, cols: usize) -> Self {
        let cores = rayon::current_num_threads();
        let width = cols.div_ceil(cols.div_ceil(NC).next_multiple_of(cores)).next_multiple_of(NR);
        let parts = cols.div_ceil(width);
        let blocks = (TASKS_PER_CORE * cores).div_ceil(parts).min(rows.div_ceil(MC));
        let height = rows.div_ceil(blocks).next_multiple_of(MR);
        Self { rows, cols, height, width }
    }

    fn len(&self) -> usize {
        self.rows.div_ceil(self.height) * self.cols.div_ceil(self.width)
    }

    /// Rows and columns of a block; blocks of the same columns follow each other.
    fn block(&self, number: usize) -> (Range<usize>, Range<usize>) {
        let down = self.rows.div_ceil(self.height);
        let (top, left) = (number % down * self.height, number / down * self.width);
        (top..self.rows.min(top + self.height), left..self.cols.min(left + self.width))
    }
}

/// Both sides of a product in blocks of the inner axis.
///
/// # Panics
/// Inner sizes differ.
fn inner_blocks<'a, T: Element>(
    a: MatRef<'a>,
    b: MatRef<'a, T>,
) -> impl Iterator<Item = (MatRef<'a>, MatRef<'a, T>)> {
    let k = a.cols;
    assert!(b.rows == k, "{} x {k} by {} x {}", a.rows, b.rows, b.cols);
    (0..k).step_by(KC).map(move |start| {
        let count = KC.min(k - start);
        (a.col_block(start, count), b.row_block(start, count))
    })
}

/// A (m, k) by B (k, n): C (m, n), on all cores.
///
/// # Panics
/// Inner sizes differ.
pub fn gemm<T: Element>(a: MatRef<'_>, b: MatRef<'_, T>) -> Vec<f32> {
    // SAFETY: as `by_blocks` promises.
    by_blocks(a, b, |out, a, b| unsafe { multiply_block(out, a, b) })
}

/// x (m, k) by the transpose of w (n, k): (m, n), on all cores, by the dot product of pairs, whose products are exact and
/// whose sums are f32. `None` where the instruction set in use has none, or the values are not in aligned pairs.
///
/// # Panics
/// No values; slices that are no matrices of these sizes.
pub fn gemm_bf16(x: &[bf16], w: &[bf16], k: usize, n: usize) -> Option<Vec<f32>> {
    #[cfg(target_arch = "x86_64")]
    if isa() == Isa::Avx512Bf16 && k.is_multiple_of(2) {
        let (m, k) = (x.len() / k, k / 2);
        let a = MatRef::row_major(pairs(x)?, m, k, k);
        let b = MatRef::row_major(pairs(w)?, n, k, k).transposed();
        return Some(by_blocks(a, b, |out, a, b| {
            PANELS.with_borrow_mut(|panels| {
                panels.pack(b);
                // SAFETY: as `by_blocks` promises.
                unsafe { avx512::multiply::<true>(out, a, panels, panels.cols()) };
            });
        }));
    }
    let _ = (x, w, k, n);
    None
}

/// Pairs of values as words, which are moved and not computed with; `None` where they are not aligned.
#[cfg(target_arch = "x86_64")]
fn pairs(values: &[bf16]) -> Option<&[f32]> {
    // SAFETY: every pattern of bits is an f32.
    let (before, words, after) = unsafe { values.align_to() };
    (before.is_empty() && after.is_empty()).then_some(words)
}

/// C (m, n) of a product on all cores, block by block: `multiply` may write and read the block's part of C, of B's columns in
/// each of A's rows.
///
/// # Panics
/// Inner sizes differ.
fn by_blocks<T: Element>(
    a: MatRef<'_>,
    b: MatRef<'_, T>,
    multiply: impl Fn(OutPtr, MatRef<'_>, MatRef<'_, T>) + Sync,
) -> Vec<f32> {
    let (m, n) = (a.rows, b.cols);
    let mut c = Vec::with_capacity(m * n);
    let shared = SharedOut(c.as_mut_ptr());
    let grid = Grid::new(m, n);
    for (number, (a, b)) in inner_blocks(a, b).enumerate() {
        (0..grid.len()).into_par_iter().with_max_len(1).for_each(|block| {
            let (rows, cols) = grid.block(block);
            let (a, b) = (a.row_block(rows.start, rows.len()), b.col_block(cols.start, cols.len()));
            let shared = &shared;
            // SAFETY: `c` has room for n values in each of m rows, and the blocks of a grid partition those.
            let first = unsafe { shared.0.add(rows.start * n + cols.start) };
            let update = Update::assign(1.0).of_block(number);
            multiply(OutPtr { first, row_stride: n, update }, a, b);
        });
    }
    // SAFETY: k > 0, so that the first block of the inner axis has written every block of the grid, which cover C.
    unsafe { c.set_len(m * n) };
    c
}

/// A (m, k) by B (k, n) to C (m, n), on the calling thread: one task of many.
///
/// # Panics
/// Sizes that do not fit each other.
pub(crate) fn gemm_serial(c: MatMut<'_>, a: MatRef<'_>, b: MatRef<'_>, update: Update) {
    c.assert_holds(a.rows, b.cols);
    for (number, (a, b)) in inner_blocks(a, b).enumerate() {
        let out = OutPtr {
            first: c.values.as_mut_ptr(),
            row_stride: c.row_stride,
            update: update.of_block(number),
        };
        // SAFETY: C holds m rows of n values (asserted above) and is borrowed mutably.
        unsafe { multiply_block(out, a, b) };
    }
}

/// B of a product, as the kernel in use reads it.
pub(crate) enum PackedB<'a> {
    #[cfg(target_arch = "x86_64")]
    Panels(avx512::Panels),
    /// In place, for kernels that pack it themselves.
    InPlace(MatRef<'a>),
    /// An f32 copy for such kernels; `values` of the matrix are elsewhere.
    Widened { values: Vec<f32>, shape: MatRef<'static> },
}

impl<'a> PackedB<'a> {
    /// Packs a matrix of at most [`KC`] rows: worth it for what is used often.
    pub(crate) fn new<T: Element>(b: MatRef<'a, T>) -> Self {
        #[cfg(target_arch = "x86_64")]
        if isa().has_avx512() {
            let mut panels = avx512::Panels::default();
            panels.pack(b);
            return Self::Panels(panels);
        }
        let mut copy = Vec::new();
        match T::as_f32(b.values) {
            Some(values) => Self::InPlace(b.over(values)),
            None => {
                let shape = b.to_f32(&mut copy).over(&[]);
                Self::Widened { values: copy, shape }
            }
        }
    }

    fn cols(&self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Panels(panels) => panels.cols(),
            Self::InPlace(b) => b.cols,
            Self::Widened { shape, .. } => shape.cols,
        }
    }
}

/// [`gemm_serial`] with the first columns of a packed B.
///
/// # Panics
/// Sizes that do not fit each other.
pub(crate) fn gemm_packed(c: MatMut<'_>, a: MatRef<'_>, b: &PackedB<'_>, cols: usize, update: Update) {
    assert!(cols <= b.cols(), "{cols} of {} columns", b.cols());
    c.assert_holds(a.rows, cols);
    let out = OutPtr { first: c.values.as_mut_ptr(), row_stride: c.row_stride, update };
    // SAFETY: C holds m rows of n values (asserted above) and is borrowed mutably.
    unsafe {
        match b {
            #[cfg(target_arch = "x86_64")]
            PackedB::Panels(b) => avx512::multiply::<false>(out, a, b, cols),
            PackedB::InPlace(b) => portable::multiply(out, a, b.col_block(0, cols)),
            PackedB::Widened { values, shape } => {
                portable::multiply(out, a, shape.over(values).col_block(0, cols));
            }
        }
    }
}

thread_local! {
    /// Kept between blocks: fresh memory costs more than filling it.
    #[cfg(target_arch = "x86_64")]
    static PANELS: RefCell<avx512::Panels> = RefCell::default();
    static WIDENED: RefCell<Vec<f32>> = RefCell::default();
}

/// One block of a product, on the calling thread.
///
/// # Safety
/// `out` is valid for writes of B's columns in each of A's rows, and for reads if it is accumulated to.
unsafe fn multiply_block<T: Element>(out: OutPtr, a: MatRef<'_>, b: MatRef<'_, T>) {
    #[cfg(target_arch = "x86_64")]
    if isa().has_avx512() {
        PANELS.with_borrow_mut(|panels| {
            panels.pack(b);
            // SAFETY: the caller's.
            unsafe { avx512::multiply::<false>(out, a, panels, panels.cols()) };
        });
        return;
    }
    // SAFETY: the caller's.
    WIDENED.with_borrow_mut(|buffer| unsafe { portable::multiply(out, a, b.to_f32(buffer)) });
}

#[cfg(test)]
mod tests;
