//! Packing of both sides. Values that are not f32 are widened as they are packed.

use std::arch::x86_64::{
    _MM_HINT_T0, _mm_prefetch, _mm512_castpd_ps, _mm512_castps_pd, _mm512_loadu_ps, _mm512_setzero_ps,
    _mm512_shuffle_f32x4, _mm512_storeu_ps, _mm512_unpackhi_pd, _mm512_unpackhi_ps, _mm512_unpacklo_pd,
    _mm512_unpacklo_ps,
};

use super::super::{MR, NR};
use super::LANES;
use crate::isa::Isa;
use crate::matrix::{Element, MatRef};

/// Elements ahead of the packing that are prefetched.
const PREFETCH_DISTANCE: usize = 8 * LANES;
/// Row strides that are a multiple of this compete for the same few sets of the first-level cache: 2 KiB.
const CONFLICTING_STRIDE: usize = 512;

/// At most [`MR`] rows of A, as the kernel reads them: where they are, or a copy. The pointer is into the slice or
/// the buffer it was made from, which outlive its use in `multiply`.
pub(super) struct PackedA {
    pub first: *const f32,
    pub row_stride: usize,
    /// Elements from one step of the inner axis to the next.
    pub col_stride: usize,
}

impl PackedA {
    /// Rows in place, if their strides suit the cache, else copied to `buffer`. Columns that are read for one of B's
    /// `panels` alone are not worth a copy.
    pub(super) fn new(a: MatRef<'_>, panels: usize, buffer: &mut Vec<f32>) -> Self {
        if a.row_stride == 1 && panels == 1 && a.col_stride / LANES % 2 == 1 {
            assert!((a.cols - 1) * a.col_stride + a.rows <= a.values.len());
            return Self { first: a.values.as_ptr(), row_stride: 1, col_stride: a.col_stride };
        }
        if a.col_stride == 1 && !a.row_stride.is_multiple_of(CONFLICTING_STRIDE) {
            assert!((a.rows - 1) * a.row_stride + a.cols <= a.values.len());
            return Self { first: a.values.as_ptr(), row_stride: a.row_stride, col_stride: 1 };
        }
        let (rows, k) = (a.rows, a.cols);
        let apart = if (k + LANES).is_multiple_of(CONFLICTING_STRIDE) { k + 2 * LANES } else { k + LANES };
        let (row_stride, col_stride) = if a.col_stride == 1 { (apart, 1) } else { (1, MR) };
        buffer.resize(MR * apart, 0.0);
        if a.col_stride == 1 {
            for (row, copy) in buffer.chunks_mut(row_stride).take(rows).enumerate() {
                copy[..k].copy_from_slice(&a.values[row * a.row_stride..][..k]);
            }
        } else {
            for (step, copy) in buffer.chunks_mut(MR).take(k).enumerate() {
                let values = &a.values[step * a.col_stride..];
                if a.row_stride == 1 {
                    copy[..rows].copy_from_slice(&values[..rows]);
                } else {
                    let values = values.iter().step_by(a.row_stride);
                    copy[..rows].iter_mut().zip(values).for_each(|(copy, value)| *copy = *value);
                }
            }
        }
        Self { first: buffer.as_ptr(), row_stride, col_stride }
    }
}

/// A vector's worth of values, as the kernel loads them.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line(pub [f32; LANES]);

/// B in micro-panels: (panel, k, NR), the last panel filled up with zeros.
#[derive(Debug, Default)]
pub(crate) struct Panels {
    lines: Vec<Line>,
    k: usize,
    cols: usize,
}

impl Panels {
    /// Columns of B.
    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    /// Rows of B.
    pub(crate) fn k(&self) -> usize {
        self.k
    }

    /// The panels in the order of their columns: two lines per row of B.
    pub(crate) fn panels(&self) -> impl ExactSizeIterator<Item = &[Line]> {
        self.lines.chunks_exact(2 * self.k).take(self.cols.div_ceil(NR))
    }

    /// Packs a matrix, replacing what was packed before.
    ///
    /// # Panics
    /// Without the instructions.
    pub(crate) fn pack<T: Element>(&mut self, b: MatRef<'_, T>) {
        assert!(Isa::Avx512.is_supported());
        (self.k, self.cols) = (b.rows, b.cols);
        let panel = 2 * self.k;
        let lines = self.cols.div_ceil(NR) * panel;
        if self.lines.len() < lines {
            self.lines.resize(lines, Line([0.0; LANES]));
        }
        for (number, lines) in self.lines[..lines].chunks_mut(panel).enumerate() {
            let first = number * NR;
            let width = NR.min(self.cols - first);
            // SAFETY: the instructions are there (asserted above).
            unsafe {
                if b.row_stride == 1 {
                    pack_columns(lines, b, first, width);
                } else {
                    pack_rows(lines, b, first, width);
                }
            }
        }
    }
}

/// A panel of a matrix with contiguous columns, as of a weight (n, k) transposed: blocks of 16 x 16 are transposed.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn pack_columns<T: Element>(lines: &mut [Line], b: MatRef<'_, T>, first: usize, width: usize) {
    let steps = LANES * T::PER_WORD;
    for half in 0..2 {
        for step in (0..b.rows).step_by(steps) {
            let count = steps.min(b.rows - step);
            let mut block = [Line([0.0; LANES]); LANES];
            for (col, line) in block.iter_mut().enumerate().take(width.saturating_sub(half * LANES)) {
                let from = (first + half * LANES + col) * b.col_stride + step;
                // Sixteen streams at once are more than the hardware prefetcher follows.
                _mm_prefetch::<_MM_HINT_T0>(b.values.as_ptr().wrapping_add(from + PREFETCH_DISTANCE).cast());
                let values = &b.values[from..from + count];
                let (from, to) = (values.as_ptr(), line.0.as_mut_ptr().cast());
                // SAFETY: a line holds `steps` elements, whose bytes are those of plain numbers (`Element`), and
                // count <= steps. A copy of a constant size needs no call.
                unsafe {
                    if count == steps {
                        std::ptr::copy_nonoverlapping(from, to, steps);
                    } else {
                        std::ptr::copy_nonoverlapping(from, to, count);
                    }
                }
            }
            let transposed = transpose(&block);
            for row in 0..count {
                let line = &mut lines[(step + row) * 2 + half].0;
                let (words, index) = (&transposed[row / T::PER_WORD].0, row % T::PER_WORD);
                for lane in 0..LANES {
                    line[lane] = T::of_word(words[lane].to_bits(), index);
                }
            }
        }
    }
}

/// A panel of any other matrix; contiguous rows are fastest.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn pack_rows<T: Element>(lines: &mut [Line], b: MatRef<'_, T>, first: usize, width: usize) {
    for (row, lines) in lines.chunks_exact_mut(2).enumerate() {
        for (half, line) in lines.iter_mut().enumerate() {
            let count = width.saturating_sub(half * LANES).min(LANES);
            let from = row * b.row_stride + (first + half * LANES) * b.col_stride;
            *line = Line([0.0; LANES]);
            if count == 0 {
                continue;
            }
            if b.col_stride == 1 {
                widen(&mut line.0, &b.values[from..from + count]);
            } else {
                let values = b.values[from..].iter().step_by(b.col_stride);
                line.0[..count].iter_mut().zip(values).for_each(|(wide, value)| *wide = value.value());
            }
        }
    }
}

// No closures here and below: one that is called through a function without the instructions is not inlined.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn widen<T: Element>(wide: &mut [f32; LANES], values: &[T]) {
    if values.len() == LANES {
        for lane in 0..LANES {
            wide[lane] = values[lane].value();
        }
    } else {
        for (wide, value) in wide.iter_mut().zip(values) {
            *wide = value.value();
        }
    }
}

/// Sixteen rows of sixteen values to columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn transpose(rows: &[Line; LANES]) -> [Line; LANES] {
    let (mut a, mut b) = ([_mm512_setzero_ps(); LANES], [_mm512_setzero_ps(); LANES]);
    for i in 0..LANES {
        // SAFETY: a line holds sixteen values.
        a[i] = unsafe { _mm512_loadu_ps(rows[i].0.as_ptr()) };
    }
    for i in 0..8 {
        b[2 * i] = _mm512_unpacklo_ps(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm512_unpackhi_ps(a[2 * i], a[2 * i + 1]);
    }
    for i in [0, 4, 8, 12] {
        for j in 0..2 {
            let (low, high) = (_mm512_castps_pd(b[i + j]), _mm512_castps_pd(b[i + j + 2]));
            a[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            a[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
    }
    for i in 0..4 {
        for j in [0, 8] {
            b[i + j] = _mm512_shuffle_f32x4::<0x88>(a[i + j], a[i + j + 4]);
            b[i + j + 4] = _mm512_shuffle_f32x4::<0xdd>(a[i + j], a[i + j + 4]);
        }
    }
    for i in 0..8 {
        a[i] = _mm512_shuffle_f32x4::<0x88>(b[i], b[i + 8]);
        a[i + 8] = _mm512_shuffle_f32x4::<0xdd>(b[i], b[i + 8]);
    }
    let mut lines = [Line([0.0; LANES]); LANES];
    for i in 0..LANES {
        // SAFETY: a line holds sixteen values.
        unsafe { _mm512_storeu_ps(lines[i].0.as_mut_ptr(), a[i]) };
    }
    lines
}
