//! f32 products by AVX-512: a kernel of 12 rows by 32 columns.
//!
//! Its 24 vectors of sums stay in registers for a whole pass of the inner axis. The right side is packed in panels of
//! 32 columns, so that a step of the inner axis is two vectors; of the left side a step is twelve values,
//! read in strips of twelve rows. Values that are not f32 are widened as they are packed.

#![allow(unsafe_code)]

use std::arch::x86_64::{
    _MM_HINT_T0, _MM_HINT_T1, _mm_prefetch, _mm512_castpd_ps, _mm512_castps_pd, _mm512_fmadd_ps,
    _mm512_loadu_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps,
    _mm512_shuffle_f32x4, _mm512_storeu_ps, _mm512_unpackhi_pd, _mm512_unpackhi_ps, _mm512_unpacklo_pd,
    _mm512_unpacklo_ps,
};
use std::cell::RefCell;
use std::sync::OnceLock;

use super::matrix::{Element, Matrix};
use super::vector::{COLUMNS, Out, ROWS};

/// How many elements ahead of the packing values are fetched.
const AHEAD: usize = 8 * LANES;
/// Values of a vector.
const LANES: usize = COLUMNS / 2;

/// Whether this machine has the instructions.
pub fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        std::is_x86_feature_detected!("avx512f")
            && std::is_x86_feature_detected!("avx512bw")
            && std::is_x86_feature_detected!("avx512vl")
    })
}

/// Some rows of the left side of a product, as the kernel reads them.
struct Strip {
    values: *const f32,
    /// From one row to the next.
    down: usize,
    /// From one step of the inner axis to the next.
    right: usize,
}

impl Strip {
    /// A strip as it lies, if its rows lie well, else copied to `copy`.
    fn new(strip: Matrix<'_>, copy: &mut Vec<f32>) -> Self {
        // Rows at multiples of 2 KiB compete for the same few places of the first-level cache.
        if strip.right == 1 && !strip.down.is_multiple_of(512) {
            assert!((strip.rows - 1) * strip.down + strip.columns <= strip.values.len());
            return Self { values: strip.values.as_ptr(), down: strip.down, right: 1 };
        }
        let (rows, inner) = (strip.rows, strip.columns);
        let apart = if (inner + LANES).is_multiple_of(512) { inner + 2 * LANES } else { inner + LANES };
        let (down, right) = if strip.right == 1 { (apart, 1) } else { (1, ROWS) };
        copy.resize(ROWS * apart, 0.0);
        if strip.right == 1 {
            for (row, copy) in copy.chunks_mut(down).take(rows).enumerate() {
                copy[..inner].copy_from_slice(&strip.values[row * strip.down..][..inner]);
            }
        } else {
            for (step, copy) in copy.chunks_mut(ROWS).take(inner).enumerate() {
                let values = strip.values[step * strip.right..].iter().step_by(strip.down);
                copy[..rows].iter_mut().zip(values).for_each(|(copy, value)| *copy = *value);
            }
        }
        Self { values: copy.as_ptr(), down, right }
    }
}

/// A vector's worth of values, as the kernel loads them.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; LANES]);

/// The right side of a product: (panel, inner, 32), the last panel filled up with zeros.
#[derive(Debug, Default)]
pub struct Panels {
    lines: Vec<Line>,
    inner: usize,
    columns: usize,
}

impl Panels {
    /// Columns of what is packed.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Packs a matrix in place of what was packed before.
    ///
    /// # Panics
    /// Without the instructions.
    pub fn pack<T: Element>(&mut self, right: Matrix<'_, T>) {
        assert!(is_available());
        (self.inner, self.columns) = (right.rows, right.columns);
        let panel = 2 * self.inner;
        let lines = self.columns.div_ceil(COLUMNS) * panel;
        if self.lines.len() < lines {
            self.lines.resize(lines, Line([0.0; LANES]));
        }
        for (number, lines) in self.lines[..lines].chunks_mut(panel).enumerate() {
            let first = number * COLUMNS;
            let width = COLUMNS.min(self.columns - first);
            // SAFETY: the instructions are there (asserted above).
            unsafe {
                if right.down == 1 {
                    pack_turned(lines, right, first, width)
                } else {
                    pack(lines, right, first, width)
                }
            }
        }
    }
}

/// Columns of which the values follow on each other: the lines of a weight (out, inner), transposed.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn pack_turned<T: Element>(lines: &mut [Line], right: Matrix<'_, T>, first: usize, width: usize) {
    let steps = LANES * T::IN_WORD;
    for half in 0..2 {
        for step in (0..right.rows).step_by(steps) {
            let count = steps.min(right.rows - step);
            let mut block = [Line([0.0; LANES]); LANES];
            for (column, line) in block.iter_mut().enumerate().take(width.saturating_sub(half * LANES)) {
                let from = (first + half * LANES + column) * right.right + step;
                // Sixteen lines at once are more than the processor fetches ahead by itself.
                _mm_prefetch::<_MM_HINT_T0>(right.values.as_ptr().wrapping_add(from + AHEAD).cast());
                let values = &right.values[from..from + count];
                let (from, to) = (values.as_ptr(), line.0.as_mut_ptr().cast());
                // SAFETY: elements are plain numbers, of which a line holds `steps`. A whole line, whose size
                // the compiler knows, needs no call.
                unsafe {
                    if count == steps {
                        std::ptr::copy_nonoverlapping(from, to, steps);
                    } else {
                        std::ptr::copy_nonoverlapping(from, to, count);
                    }
                }
            }
            let turned = transpose(&block);
            for row in 0..count {
                let line = &mut lines[(step + row) * 2 + half].0;
                let (words, place) = (&turned[row / T::IN_WORD].0, row % T::IN_WORD);
                for lane in 0..LANES {
                    line[lane] = T::of_word(words[lane].to_bits(), place);
                }
            }
        }
    }
}

/// Any other matrix; rows of which the values follow on each other are fastest.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn pack<T: Element>(lines: &mut [Line], right: Matrix<'_, T>, first: usize, width: usize) {
    for (row, lines) in lines.chunks_exact_mut(2).enumerate() {
        for (half, line) in lines.iter_mut().enumerate() {
            let count = width.saturating_sub(half * LANES).min(LANES);
            let from = row * right.down + (first + half * LANES) * right.right;
            *line = Line([0.0; LANES]);
            if count == 0 {
                continue;
            }
            if right.right == 1 {
                widen(&mut line.0, &right.values[from..from + count]);
            } else {
                let values = right.values[from..].iter().step_by(right.right);
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
        // SAFETY: lines hold sixteen values each.
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
        // SAFETY: lines hold sixteen values each.
        unsafe { _mm512_storeu_ps(lines[i].0.as_mut_ptr(), a[i]) };
    }
    lines
}

thread_local! {
    /// Kept from product to product: fresh memory costs more than filling it.
    static COPY: RefCell<Vec<f32>> = RefCell::default();
}

/// The scaled product of left and right, to `out`.
///
/// # Safety
/// `out` is good for right's columns in each of left's rows.
///
/// # Panics
/// Without the instructions; sides that do not fit each other.
pub unsafe fn multiply(out: Out, left: Matrix<'_>, right: &Panels) {
    let Out { values: out, stride, scale, add } = out;
    assert!(is_available() && left.columns == right.inner, "{} by {}", left.columns, right.inner);
    let panels = right.lines.chunks_exact(2 * right.inner).take(right.columns.div_ceil(COLUMNS));
    COPY.with_borrow_mut(|copy| {
        for first in (0..left.rows).step_by(ROWS) {
            let rows = ROWS.min(left.rows - first);
            let strip = Strip::new(left.part(first, rows), copy);
            let later = left.rows - first - rows;
            let next = (later > 0).then(|| left.part(first + rows, later.min(ROWS)));
            for (panel, lines) in panels.clone().enumerate() {
                if let Some(next) = next {
                    fetch(next, panel, panels.len());
                }
                let column = panel * COLUMNS;
                let tile = Tile {
                    left: &strip,
                    lines,
                    // SAFETY: inside of `out`, by the caller's promise.
                    out: unsafe { out.add(first * stride + column) },
                    stride,
                    width: COLUMNS.min(right.columns - column),
                    scale,
                    add,
                };
                // SAFETY: the instructions are there (asserted above), a strip holds as many steps as
                // a panel, and the output is good by the caller's promise.
                unsafe { tile.make(rows) };
            }
        }
    });
}

/// Fetches one of some parts of a strip that is used soon.
fn fetch(strip: Matrix<'_>, part: usize, parts: usize) {
    if strip.right > 1 {
        return;
    }
    let steps = part * strip.columns / parts..(part + 1) * strip.columns / parts;
    for row in 0..strip.rows {
        for step in steps.clone().step_by(LANES) {
            let value = strip.values.as_ptr().wrapping_add(row * strip.down + step);
            // SAFETY: every x86-64 has the instruction, and it reads nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(value.cast()) };
        }
    }
}

/// One block of the result.
struct Tile<'a> {
    left: &'a Strip,
    lines: &'a [Line],
    out: *mut f32,
    stride: usize,
    width: usize,
    scale: f32,
    add: bool,
}

impl Tile<'_> {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn make(&self, rows: usize) {
        // SAFETY: the caller's.
        unsafe {
            match rows {
                1 => self.rows::<1>(),
                2 => self.rows::<2>(),
                3 => self.rows::<3>(),
                4 => self.rows::<4>(),
                5 => self.rows::<5>(),
                6 => self.rows::<6>(),
                7 => self.rows::<7>(),
                8 => self.rows::<8>(),
                9 => self.rows::<9>(),
                10 => self.rows::<10>(),
                11 => self.rows::<11>(),
                _ => self.rows::<ROWS>(),
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn rows<const N: usize>(&self) {
        let mut sums = [[_mm512_setzero_ps(); 2]; N];
        let Strip { values: mut left, down, right } = *self.left;
        // SAFETY: every read and write is inside of what the caller promises; prefetching reads nothing.
        unsafe {
            for row in 0..N {
                let out = self.out.add(row * self.stride);
                _mm_prefetch::<_MM_HINT_T0>(out.cast());
                _mm_prefetch::<_MM_HINT_T0>(out.add(self.width - 1).cast());
            }
            for step in self.lines.as_chunks::<2>().0 {
                let line = [_mm512_loadu_ps(step[0].0.as_ptr()), _mm512_loadu_ps(step[1].0.as_ptr())];
                for (row, sums) in sums.iter_mut().enumerate() {
                    let value = _mm512_set1_ps(*left.add(row * down));
                    sums[0] = _mm512_fmadd_ps(value, line[0], sums[0]);
                    sums[1] = _mm512_fmadd_ps(value, line[1], sums[1]);
                }
                left = left.wrapping_add(right);
            }
            // Without branches: a longer loop is not unrolled, and the sums would go to memory and back.
            let scale = _mm512_set1_ps(self.scale);
            let written = [lanes(self.width), lanes(self.width.saturating_sub(LANES))];
            let read = if self.add { written } else { [0; 2] };
            for (row, sums) in sums.iter().enumerate() {
                let out = self.out.wrapping_add(row * self.stride);
                for half in 0..2 {
                    let out = out.wrapping_add(half * LANES);
                    let sum = _mm512_fmadd_ps(sums[half], scale, _mm512_maskz_loadu_ps(read[half], out));
                    _mm512_mask_storeu_ps(out, written[half], sum);
                }
            }
        }
    }
}

/// The first `count` lanes of a vector, or all.
fn lanes(count: usize) -> u16 {
    if count < LANES { (1 << count) - 1 } else { u16::MAX }
}
