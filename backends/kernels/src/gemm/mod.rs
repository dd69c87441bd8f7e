//! f32 products by the vector units: by the kernel of [`super::panels`] where the machine has AVX-512, else by
//! `gemm`.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ops::Range;

use gemm::{Parallelism, gemm};
use rayon::prelude::*;

use super::matrix::{Element, Matrix};
#[cfg(target_arch = "x86_64")]
use super::panels::{self, Panels};

/// Most columns that a task takes: what it packs of them stays in its cache.
const TASK_COLUMNS: usize = 384;
/// About the fewest rows that a task takes: packing the right side should be little beside using it.
const TASK_ROWS: usize = 240;
/// Tasks are made for each core, so that one that is late holds up little.
const TASKS: usize = 2;
/// Rows that the kernel of [`super::panels`] takes at once, and columns: tasks are multiples of them.
pub const ROWS: usize = 12;
/// See [`ROWS`].
pub const COLUMNS: usize = 32;
/// Most elements of the inner axis at once.
pub const INNER: usize = 1024;

/// Where tasks write, each its own block.
struct Place(*mut f32);

// SAFETY: `product`, its only user, gives no element to two tasks.
unsafe impl Sync for Place {}

/// Where a product goes, and how.
#[derive(Clone, Copy)]
pub struct Out {
    /// First value of the first row.
    pub values: *mut f32,
    /// From one row to the next.
    pub stride: usize,
    /// Factor of the product.
    pub scale: f32,
    /// Whether the product comes on top of what is there.
    pub add: bool,
}

/// Blocks of rows and columns of a result, for tasks that take about as long as each other.
fn tasks(rows: usize, columns: usize) -> Vec<(Range<usize>, Range<usize>)> {
    let cores = rayon::current_num_threads();
    let share =
        columns.div_ceil(columns.div_ceil(TASK_COLUMNS).next_multiple_of(cores)).next_multiple_of(COLUMNS);
    let parts = columns.div_ceil(share);
    let blocks = (TASKS * cores).div_ceil(parts).min(rows.div_ceil(TASK_ROWS));
    let height = rows.div_ceil(blocks).next_multiple_of(ROWS);
    let ranges =
        |size: usize, step: usize| (0..size).step_by(step).map(move |start| start..size.min(start + step));
    ranges(columns, share)
        .flat_map(|columns| ranges(rows, height).map(move |rows| (rows, columns.clone())))
        .collect()
}

/// Whether each element is in exactly one block: blocks lie inside, are apart and have as many elements together.
fn covers(tasks: &[(Range<usize>, Range<usize>)], rows: usize, columns: usize) -> bool {
    let apart = |a: &Range<usize>, b: &Range<usize>| a.end <= b.start || b.end <= a.start;
    let inside =
        tasks.iter().all(|(r, c)| r.start < r.end && r.end <= rows && c.start < c.end && c.end <= columns);
    let disjoint = tasks
        .iter()
        .enumerate()
        .all(|(number, (r, c))| tasks[..number].iter().all(|(or, oc)| apart(r, or) || apart(c, oc)));
    inside && disjoint && tasks.iter().map(|(r, c)| r.len() * c.len()).sum::<usize>() == rows * columns
}

/// Both sides of a product by parts of the inner axis, each with whether its result comes on top of an earlier one's.
///
/// # Panics
/// Sides that do not fit each other.
fn passes<'a, T: Element>(
    left: Matrix<'a>,
    right: Matrix<'a, T>,
) -> impl Iterator<Item = (Matrix<'a>, Matrix<'a, T>, bool)> {
    let inner = left.columns;
    assert!(right.rows == inner, "{} x {inner} by {} x {}", left.rows, right.rows, right.columns);
    (0..inner).step_by(INNER).map(move |start| {
        let count = INNER.min(inner - start);
        (left.across(start, count), right.part(start, count), start > 0)
    })
}

/// Left by right, (rows, columns), on all cores.
///
/// # Panics
/// Sides that do not fit each other.
pub fn product<T: Element>(left: Matrix<'_>, right: Matrix<'_, T>) -> Vec<f32> {
    let (rows, columns) = (left.rows, right.columns);
    let mut out = Vec::with_capacity(rows * columns);
    let place = Place(out.as_mut_ptr());
    let tasks = tasks(rows, columns);
    debug_assert!(covers(&tasks, rows, columns), "{tasks:?} of {rows} x {columns}");
    for (left, right, later) in passes(left, right) {
        tasks.par_iter().with_max_len(1).for_each(|(rows, range)| {
            let (left, right) = (left.part(rows.start, rows.len()), right.across(range.start, range.len()));
            let place = &place;
            // SAFETY: `out` has `columns` values for each row, and the blocks of the tasks are apart.
            unsafe {
                let values = place.0.add(rows.start * columns + range.start);
                block(Out { values, stride: columns, scale: 1.0, add: later }, left, right);
            }
        });
    }
    // SAFETY: the tasks have written every block.
    unsafe { out.set_len(rows * columns) };
    out
}

/// `scale` times left by right, to rows of `out` that lie `stride` apart; on top of what is there if `add`. On one
/// core, for one task of many.
///
/// # Panics
/// Shapes that do not fit each other or `out`.
pub fn multiply(out: &mut [f32], stride: usize, left: Matrix<'_>, right: Matrix<'_>, scale: f32, add: bool) {
    let (rows, columns) = (left.rows, right.columns);
    assert!(columns <= stride && (rows - 1) * stride + columns <= out.len());
    for (left, right, later) in passes(left, right) {
        // SAFETY: the last element written is inside `out` (asserted above).
        unsafe { block(Out { values: out.as_mut_ptr(), stride, scale, add: add || later }, left, right) };
    }
}

/// The same by a right side that has been made ready.
///
/// # Panics
/// As above.
pub fn multiply_ready(
    out: &mut [f32],
    stride: usize,
    left: Matrix<'_>,
    right: &Right<'_>,
    scale: f32,
    add: bool,
) {
    let (rows, columns) = (left.rows, right.columns());
    assert!(columns <= stride && (rows - 1) * stride + columns <= out.len());
    let out = Out { values: out.as_mut_ptr(), stride, scale, add };
    // SAFETY: the last element written is inside `out` (asserted above).
    unsafe {
        match right {
            #[cfg(target_arch = "x86_64")]
            Right::Panels(right) => panels::multiply(out, left, right),
            Right::Plain(right) => plain(out, left, *right),
        }
    }
}

/// The right side of a product, as the kernel of this machine reads it.
pub enum Right<'a> {
    /// Packed.
    #[cfg(target_arch = "x86_64")]
    Panels(Panels),
    /// As it lies.
    Plain(Matrix<'a>),
}

impl<'a> Right<'a> {
    /// Packs a matrix of at most [`INNER`] rows, if the kernel wants that: worth it for what is used often.
    pub fn new(right: Matrix<'a>) -> Self {
        #[cfg(target_arch = "x86_64")]
        if panels::is_available() {
            let mut panels = Panels::default();
            panels.pack(right);
            return Self::Panels(panels);
        }
        Self::Plain(right)
    }

    fn columns(&self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Panels(panels) => panels.columns(),
            Self::Plain(matrix) => matrix.columns,
        }
    }
}

thread_local! {
    /// Kept from block to block: fresh memory costs more than filling it.
    #[cfg(target_arch = "x86_64")]
    static PANELS: RefCell<Panels> = RefCell::default();
    static WIDE: RefCell<Vec<f32>> = RefCell::default();
}

/// Left by right, on one core.
///
/// # Safety
/// `out` is good for right's columns in each of left's rows.
unsafe fn block<T: Element>(out: Out, left: Matrix<'_>, right: Matrix<'_, T>) {
    #[cfg(target_arch = "x86_64")]
    if panels::is_available() {
        PANELS.with_borrow_mut(|panels| {
            panels.pack(right);
            // SAFETY: the caller's.
            unsafe { panels::multiply(out, left, panels) };
        });
        return;
    }
    // SAFETY: the caller's.
    WIDE.with_borrow_mut(|wide| unsafe { plain(out, left, right.widen(wide)) });
}

/// # Safety
/// As of [`block`].
unsafe fn plain(out: Out, left: Matrix<'_>, right: Matrix<'_>) {
    let Out { values: out, stride, scale, add } = out;
    assert!(left.columns == right.rows, "{} by {}", left.columns, right.rows);
    // SAFETY: matrices lie inside their slices; `out` is the caller's.
    unsafe {
        gemm(
            left.rows,
            right.columns,
            left.columns,
            out,
            1,
            stride as isize,
            add,
            left.values.as_ptr(),
            left.right as isize,
            left.down as isize,
            right.values.as_ptr(),
            right.right as isize,
            right.down as isize,
            1.0,
            scale,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;
    use rand::rngs::StdRng;
    use rand::{Rng as _, SeedableRng as _};

    use super::*;

    /// A matrix of random values with gaps between rows, either way round.
    fn random(rng: &mut StdRng, rows: usize, columns: usize) -> (Vec<f32>, usize) {
        let stride = columns + rng.random_range(0..3);
        ((0..rows * stride).map(|_| rng.random::<f32>() * 2.0 - 1.0).collect(), stride)
    }

    /// Every element of `found` against its sum in f64, on top of `before`.
    fn check<T: Element>(
        found: &[f32],
        stride: usize,
        left: Matrix<'_>,
        right: Matrix<'_, T>,
        scale: f64,
        before: f64,
    ) {
        for row in 0..left.rows {
            for column in 0..right.columns {
                let term = |i| f64::from(left.at(row, i)) * f64::from(right.at(i, column).value());
                let wanted = before + scale * (0..left.columns).map(term).sum::<f64>();
                let error = (f64::from(found[row * stride + column]) - wanted).abs();
                let size = (left.rows, left.columns, right.columns);
                let bound = 2e-6 * (left.columns as f64).sqrt() * scale.max(1.0);
                assert!(error < bound, "{size:?} at {row}, {column}: {error}");
            }
        }
    }

    #[test]
    fn tasks_cover_every_element_once() {
        for (rows, columns) in
            [(1, 1), (17, 5), (240, 384), (241, 385), (640, 4096), (33, 151_936), (5000, 31)]
        {
            assert!(covers(&tasks(rows, columns), rows, columns), "{rows} x {columns}");
        }
        let two = [(0..2, 0..3), (1..2, 0..3)];
        assert!(!covers(&two, 2, 3) && !covers(&two[1..], 2, 3));
    }

    #[test]
    fn rows_at_multiples_of_two_kibibytes_are_copied_right() {
        let mut rng = StdRng::seed_from_u64(6);
        for (stride, k) in [(512, 512), (1024, 700), (1536, 1008), (1024, 496)] {
            let mut values =
                |count: usize| -> Vec<f32> { (0..count).map(|_| rng.random::<f32>() * 2.0 - 1.0).collect() };
            let (a, b) = (values(13 * stride), values(k * 40));
            let (left, right) = (Matrix::rows(&a, 13, k, stride), Matrix::rows(&b, k, 40, 40));
            let mut out = vec![0.5; 13 * 40];
            multiply(&mut out, 40, left, right, 0.25, true);
            check(&out, 40, left, right, 0.25, 0.5);
        }
    }

    #[test]
    fn products_are_those_of_the_definition() {
        let mut rng = StdRng::seed_from_u64(5);
        for (n, k, m) in [(1, 1, 1), (13, 7, 33), (12, 512, 32), (25, 40, 15), (40, 1100, 70), (300, 65, 400)]
        {
            for turned in 0..4 {
                let side = |rng: &mut StdRng, rows, columns, turned| {
                    if turned { random(rng, columns, rows) } else { random(rng, rows, columns) }
                };
                let (a, a_stride) = side(&mut rng, n, k, turned & 1 > 0);
                let (b, b_stride) = side(&mut rng, k, m, turned & 2 > 0);
                let left = if turned & 1 > 0 {
                    Matrix::rows(&a, k, n, a_stride).turned()
                } else {
                    Matrix::rows(&a, n, k, a_stride)
                };
                let narrow: Vec<bf16> = b.iter().map(|&value| bf16::from_f32(value)).collect();
                let right = if turned & 2 > 0 {
                    Matrix::rows(&b, m, k, b_stride).turned()
                } else {
                    Matrix::rows(&b, k, m, b_stride)
                };
                let short = if turned & 2 > 0 {
                    Matrix::rows(&narrow, m, k, b_stride).turned()
                } else {
                    Matrix::rows(&narrow, k, m, b_stride)
                };
                check(&product(left, right), m, left, right, 1.0, 0.0);
                check(&product(left, short), m, left, short, 1.0, 0.0);
                let stride = m + 3;
                let mut out = vec![0.5; n * stride];
                multiply(&mut out, stride, left, right, 0.25, true);
                check(&out, stride, left, right, 0.25, 0.5);
                assert!(out.chunks(stride).all(|row| row[m..] == [0.5; 3]), "wrote beside its columns");
                // What machines without AVX-512 use.
                let mut out = vec![0.5; n * stride];
                let wide = &mut Vec::new();
                // SAFETY: `out` has room for the columns of every row.
                unsafe {
                    plain(
                        Out { values: out.as_mut_ptr(), stride, scale: 0.25, add: true },
                        left,
                        short.widen(wide),
                    );
                }
                check(&out, stride, left, short, 0.25, 0.5);
                multiply(&mut out, stride, left, right, 2.0, false);
                check(&out, stride, left, right, 2.0, 0.0);
            }
        }
    }
}
