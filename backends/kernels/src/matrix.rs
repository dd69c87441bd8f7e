//! Strided views of matrices.

use half::bf16;

/// Element types of a matrix.
///
/// # Safety
/// Implementors are plain numbers without padding, for which every bit pattern is a value, of the size of a 32-bit
/// word or of a whole fraction of it. Packing copies their bytes.
pub unsafe trait Element: Copy + Send + Sync {
    /// Elements per 32-bit word.
    const PER_WORD: usize = size_of::<u32>() / size_of::<Self>();

    /// The value, exactly.
    fn value(self) -> f32;

    /// The values themselves where they are f32.
    fn as_f32(values: &[Self]) -> Option<&[f32]>;

    /// Element number `index` of a word; the first is in the low bits.
    fn of_word(word: u32, index: usize) -> f32;
}

// SAFETY: one word, every pattern of which is an f32.
unsafe impl Element for f32 {
    #[inline(always)]
    fn value(self) -> f32 {
        self
    }

    fn as_f32(values: &[Self]) -> Option<&[f32]> {
        Some(values)
    }

    #[inline(always)]
    fn of_word(word: u32, _: usize) -> f32 {
        f32::from_bits(word)
    }
}

// SAFETY: half a word, every pattern of which is a bf16.
unsafe impl Element for bf16 {
    #[inline(always)]
    fn value(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    fn as_f32(_: &[Self]) -> Option<&[f32]> {
        None
    }

    #[inline(always)]
    fn of_word(word: u32, index: usize) -> f32 {
        f32::from_bits(if index == 0 { word << 16 } else { word & 0xffff_0000 })
    }
}

/// Elements from the first to the last of a row-major matrix, the gaps between rows included.
///
/// # Panics
/// No elements, rows that overlap, or more than memory can hold.
fn span(rows: usize, cols: usize, row_stride: usize) -> usize {
    assert!(rows > 0 && cols > 0 && cols <= row_stride, "{rows} x {cols} with row stride {row_stride}");
    let last_row = (rows - 1).checked_mul(row_stride);
    last_row.and_then(|start| start.checked_add(cols)).expect("a matrix larger than memory")
}

/// A matrix inside a slice. Its elements are checked to be inside when it is made.
#[derive(Debug, Clone, Copy)]
pub struct MatRef<'a, T = f32> {
    pub(crate) values: &'a [T],
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// Elements from one row to the next.
    pub(crate) row_stride: usize,
    /// Elements from one column to the next.
    pub(crate) col_stride: usize,
}

impl<'a, T: Element> MatRef<'a, T> {
    /// A row-major matrix (rows, cols).
    ///
    /// # Panics
    /// Without elements, or with some outside of the slice.
    pub fn row_major(values: &'a [T], rows: usize, cols: usize, row_stride: usize) -> Self {
        assert!(span(rows, cols, row_stride) <= values.len(), "{rows} x {cols} in {} values", values.len());
        Self { values, rows, cols, row_stride, col_stride: 1 }
    }

    /// The same elements, (cols, rows).
    #[must_use]
    pub fn transposed(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// `count` rows from `start`.
    ///
    /// # Panics
    /// No rows, or more than there are.
    #[must_use]
    pub(crate) fn row_block(self, start: usize, count: usize) -> Self {
        assert!(
            count > 0 && start < self.rows && count <= self.rows - start,
            "{count} rows from {start} of {}",
            self.rows
        );
        Self { values: &self.values[start * self.row_stride..], rows: count, ..self }
    }

    /// `count` columns from `start`.
    ///
    /// # Panics
    /// No columns, or more than there are.
    #[must_use]
    pub(crate) fn col_block(self, start: usize, count: usize) -> Self {
        self.transposed().row_block(start, count).transposed()
    }

    /// Number of rows.
    pub fn rows(self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(self) -> usize {
        self.cols
    }

    /// One element.
    #[cfg(test)]
    pub fn at(self, row: usize, col: usize) -> T {
        self.values[row * self.row_stride + col * self.col_stride]
    }

    /// The shape of this matrix over other values, which lie as its own do.
    pub(crate) fn over<U>(self, values: &[U]) -> MatRef<'_, U> {
        let Self { rows, cols, row_stride, col_stride, .. } = self;
        MatRef { values, rows, cols, row_stride, col_stride }
    }

    /// An f32 copy in `buffer`, in the storage order of this one.
    pub(crate) fn to_f32(self, buffer: &mut Vec<f32>) -> MatRef<'_> {
        let is_transposed = self.col_stride != 1;
        let stored = if is_transposed { self.transposed() } else { self };
        buffer.clear();
        for row in 0..stored.rows {
            let values = stored.values[row * stored.row_stride..].iter().step_by(stored.col_stride);
            buffer.extend(values.take(stored.cols).map(|value| value.value()));
        }
        let copy = MatRef::row_major(buffer, stored.rows, stored.cols, stored.cols);
        if is_transposed { copy.transposed() } else { copy }
    }
}

/// A row-major matrix inside a slice, to be written.
#[derive(Debug)]
pub struct MatMut<'a> {
    pub(crate) values: &'a mut [f32],
    /// Elements from one row to the next.
    pub(crate) row_stride: usize,
}

impl<'a> MatMut<'a> {
    /// Rows that start `row_stride` apart; how many, and how wide, is up to the product that is written.
    pub fn new(values: &'a mut [f32], row_stride: usize) -> Self {
        Self { values, row_stride }
    }

    /// # Panics
    /// No room for a matrix (rows, cols).
    pub(crate) fn assert_holds(&self, rows: usize, cols: usize) {
        let span = span(rows, cols, self.row_stride);
        assert!(span <= self.values.len(), "{rows} x {cols} into {} values", self.values.len());
    }
}
