//! Matrices that lie inside slices.

use half::bf16;

/// Elements that a matrix can be stored as.
///
/// # Safety
/// Plain numbers without padding, for which every pattern of bits is a value, as large as a word of 32 bits or as a
/// whole part of it; `IN_WORD` says how many are in a word. Kernels copy their bytes.
#[allow(unsafe_code)]
pub unsafe trait Element: Copy + Send + Sync {
    /// Elements in a word.
    const IN_WORD: usize = size_of::<u32>() / size_of::<Self>();

    /// The value, exactly.
    fn value(self) -> f32;

    /// The value of one element of a word; the first is in the low bits.
    fn of_word(word: u32, place: usize) -> f32;
}

// SAFETY: one word.
#[allow(unsafe_code)]
unsafe impl Element for f32 {
    #[inline(always)]
    fn value(self) -> f32 {
        self
    }

    #[inline(always)]
    fn of_word(word: u32, _: usize) -> f32 {
        f32::from_bits(word)
    }
}

// SAFETY: half a word.
#[allow(unsafe_code)]
unsafe impl Element for bf16 {
    #[inline(always)]
    fn value(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    #[inline(always)]
    fn of_word(word: u32, place: usize) -> f32 {
        f32::from_bits(if place == 0 { word << 16 } else { word & 0xffff_0000 })
    }
}

/// A matrix inside a slice. Its elements are checked to be inside when it is made.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a, T = f32> {
    pub(super) values: &'a [T],
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// From one row to the next.
    pub(super) down: usize,
    /// From one column to the next.
    pub(super) right: usize,
}

impl<'a, T: Element> Matrix<'a, T> {
    /// Rows of `columns` values, `stride` apart.
    ///
    /// # Panics
    /// Without elements, or with some outside of the slice.
    pub fn rows(values: &'a [T], rows: usize, columns: usize, stride: usize) -> Self {
        assert!(rows * columns > 0 && columns <= stride, "{rows} x {columns} by {stride}");
        assert!((rows - 1) * stride + columns <= values.len(), "{rows} x {columns} of {}", values.len());
        Self { values, rows, columns, down: stride, right: 1 }
    }

    /// The same with rows for columns.
    pub fn turned(self) -> Self {
        Self { rows: self.columns, columns: self.rows, down: self.right, right: self.down, ..self }
    }

    /// `count` rows from `start`.
    ///
    /// # Panics
    /// More rows than there are.
    pub fn part(self, start: usize, count: usize) -> Self {
        assert!(count > 0 && start + count <= self.rows, "{count} rows from {start} of {}", self.rows);
        Self { values: &self.values[start * self.down..], rows: count, ..self }
    }

    /// `count` columns from `start`.
    ///
    /// # Panics
    /// More columns than there are.
    pub fn across(self, start: usize, count: usize) -> Self {
        self.turned().part(start, count).turned()
    }

    /// An f32 copy in `wide`, its values in the order they lie in.
    pub fn widen(self, wide: &mut Vec<f32>) -> Matrix<'_> {
        let (lying, is_turned) = if self.right == 1 { (self, false) } else { (self.turned(), true) };
        wide.clear();
        for row in 0..lying.rows {
            let values = lying.values[row * lying.down..].iter().step_by(lying.right);
            wide.extend(values.take(lying.columns).map(|value| value.value()));
        }
        let wide = Matrix::rows(wide, lying.rows, lying.columns, lying.columns);
        if is_turned { wide.turned() } else { wide }
    }

    /// One element.
    #[cfg(test)]
    pub fn at(self, row: usize, column: usize) -> T {
        self.values[row * self.down + column * self.right]
    }

    /// Number of rows.
    pub fn count(self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(self) -> usize {
        self.columns
    }
}
