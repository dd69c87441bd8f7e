//! f32 products by the vector units, on values where they lie.

#![allow(unsafe_code)]

use std::ops::Range;

use gemm::{Parallelism, gemm};
use rayon::prelude::*;

/// Most columns that a task takes: their weights stay in its cache.
const TASK_COLUMNS: usize = 256;
/// Columns of the widest kernel.
const KERNEL: usize = 64;

/// A matrix inside a slice.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    /// From one row to the next.
    down: usize,
    /// From one column to the next.
    right: usize,
}

impl<'a> Matrix<'a> {
    /// Rows of `columns` values, `stride` apart.
    pub fn rows(values: &'a [f32], rows: usize, columns: usize, stride: usize) -> Self {
        Self { values, rows, columns, down: stride, right: 1 }
    }

    /// The same with rows for columns.
    pub fn turned(self) -> Self {
        Self { rows: self.columns, columns: self.rows, down: self.right, right: self.down, ..self }
    }

    /// `count` rows from `start`.
    pub fn part(self, start: usize, count: usize) -> Self {
        Self { values: &self.values[start * self.down..], rows: count, ..self }
    }

    /// Number of rows.
    pub fn count(self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(self) -> usize {
        self.columns
    }

    /// One past the last element.
    fn end(self) -> usize {
        (self.rows - 1) * self.down + (self.columns - 1) * self.right + 1
    }
}

/// Where tasks write, each its own columns.
struct Place(*mut f32);

// SAFETY: `multiply_columns`, its only user, gives no element to two tasks.
unsafe impl Sync for Place {}

/// Left by a matrix whose columns `fill` writes one after the other, a range at a time: (rows, columns), on
/// all cores. Each column is made and packed once, by the task that needs it.
pub fn multiply_columns(
    left: Matrix<'_>,
    columns: usize,
    fill: impl Fn(Range<usize>, &mut [f32]) + Sync,
) -> Vec<f32> {
    let (rows, inner) = (left.rows, left.columns);
    let mut out = Vec::with_capacity(rows * columns);
    let place = Place(out.as_mut_ptr());
    let share = columns.div_ceil(rayon::current_num_threads()).next_multiple_of(KERNEL).min(TASK_COLUMNS);
    let tasks = (0..columns.div_ceil(share)).into_par_iter().with_max_len(1);
    tasks.for_each_init(
        || vec![0.0f32; share * inner],
        |made, task| {
            let place = &place;
            let range = task * share..columns.min((task + 1) * share);
            let made = &mut made[..range.len() * inner];
            fill(range.clone(), made);
            let right = Matrix::rows(made, range.len(), inner, inner).turned();
            // SAFETY: `out` has `columns` values for each row, and the ranges of the tasks are apart.
            unsafe { product(place.0.add(range.start), columns, left, right, 1.0, false) };
        },
    );
    // SAFETY: the tasks have written every column of every row.
    unsafe { out.set_len(rows * columns) };
    out
}

/// Left by right, (rows, columns), on all cores.
pub fn multiply_rows(left: Matrix<'_>, right: Matrix<'_>) -> Vec<f32> {
    let columns = right.columns;
    let mut out = Vec::with_capacity(left.rows * columns);
    let share = left.rows.div_ceil(rayon::current_num_threads()).next_multiple_of(KERNEL);
    out.spare_capacity_mut()[..left.rows * columns].par_chunks_mut(share * columns).enumerate().for_each(
        |(task, out)| {
            let left = left.part(task * share, out.len() / columns);
            // SAFETY: `out` has `columns` places for each row.
            unsafe { product(out.as_mut_ptr().cast(), columns, left, right, 1.0, false) };
        },
    );
    // SAFETY: the tasks have written every row.
    unsafe { out.set_len(left.rows * columns) };
    out
}

/// `scale` times left by right, to rows of `out` that lie `stride` apart; on top of what is there if `add`.
///
/// # Panics
/// Shapes that do not fit each other or their slices.
pub fn multiply(out: &mut [f32], stride: usize, left: Matrix<'_>, right: Matrix<'_>, scale: f32, add: bool) {
    let (rows, columns) = (left.rows, right.columns);
    assert!(columns <= stride && rows > 0 && (rows - 1) * stride + columns <= out.len());
    // SAFETY: the last element written is inside `out` (asserted above).
    unsafe { product(out.as_mut_ptr(), stride, left, right, scale, add) };
}

/// # Safety
/// `out` is good for a row of the right side's columns every `stride` values, as many as left has.
unsafe fn product(out: *mut f32, stride: usize, left: Matrix<'_>, right: Matrix<'_>, scale: f32, add: bool) {
    let (rows, inner, columns) = (left.rows, left.columns, right.columns);
    assert!(right.rows == inner && rows * inner * columns > 0, "{rows} x {inner} x {columns}");
    assert!(left.end() <= left.values.len() && right.end() <= right.values.len());
    // SAFETY: the last element of each side is inside its slice (asserted above); `out` is the caller's.
    unsafe {
        gemm(
            rows,
            columns,
            inner,
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
