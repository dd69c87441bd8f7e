//! Rows as they are read, counted before they are made: text is cheap to repeat.

use std::path::Path;

use serde_json::{Map, Value};

use super::DataError;

/// One published row: column name to value.
pub type JsonRow = Map<String, Value>;

/// Stands in for a value of a type that no sample is made of (dates, pictures), with the type's
/// name: a column that is wanted and of such a type is then reported by its type, not as missing.
pub const UNREADABLE: &str = "unreadable column type";

/// Bytes that a file may have; the largest published one has 1.6 million.
pub(super) const MAX_FILE: u64 = 64 << 20;
/// Bytes that the values of a split may come to: text is cheap to repeat in parquet.
const MAX_DECODED: u64 = 256 << 20;
/// Bytes of one text: samples hold copies of it.
const MAX_TEXT: usize = 16 << 20;
/// Rows of a split, or of another tool's log; the longest published split has 5,130.
pub const MAX_ROWS: usize = 250_000;
/// Bytes counted for a value beside its text.
const VALUE_BYTES: u64 = 64;
/// Why a file gives no rows.
#[derive(Debug)]
pub(super) enum Problem {
    Io(std::io::Error),
    /// Not of the format, or of a part of it that is not read.
    Format(String),
    /// Bytes that the format does not allow.
    Damaged(String),
    /// Larger than rows of a split may be.
    Limit(String),
}

impl Problem {
    pub(super) fn of(self, path: &Path) -> DataError {
        let path = path.to_owned();
        match self {
            Self::Io(source) => DataError::Io { path, source },
            Self::Format(message) | Self::Damaged(message) => DataError::Format { path, message },
            Self::Limit(what) => DataError::Format { path, message: format!("too large: {what}") },
        }
    }
}

/// Rows as they are read.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub rows: Vec<JsonRow>,
    /// Line of each row of the file that is being read.
    pub lines: Vec<usize>,
    pub budget: Budget,
    /// Column of pictures in base64, of which a row gets the file name.
    pub pictures: Option<String>,
}

impl Table {
    pub(super) fn is_picture(&self, column: &str) -> bool {
        self.pictures.as_deref() == Some(column)
    }

    /// Adds a row and, where its format has lines, the one on which it begins.
    pub(super) fn push(&mut self, row: JsonRow, line: Option<usize>) -> Result<(), Problem> {
        let left = self.budget.rows.checked_sub(1);
        self.budget.rows = left.ok_or_else(|| Problem::Limit(format!("more than {MAX_ROWS} rows")))?;
        self.budget.take(0)?;
        self.rows.push(row);
        self.lines.extend(line);
        Ok(())
    }
}

/// Rows and bytes of values that a split may still have.
#[derive(Debug)]
pub(super) struct Budget {
    rows: usize,
    bytes: u64,
    /// Bytes of one text.
    text: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { rows: MAX_ROWS, bytes: MAX_DECODED, text: MAX_TEXT }
    }
}

impl Budget {
    /// For values that are counted elsewhere.
    pub(super) fn without_end() -> Self {
        Self { rows: usize::MAX, bytes: u64::MAX, text: usize::MAX }
    }

    /// Refuses more rows than may still come.
    pub(super) fn has_rows(&self, rows: usize) -> Result<(), Problem> {
        if rows <= self.rows {
            return Ok(());
        }
        let all = (MAX_ROWS - self.rows).saturating_add(rows);
        Err(Problem::Limit(format!("{all} rows, at most {MAX_ROWS} are read")))
    }

    /// Refuses more bytes than may still come.
    pub(super) fn has_bytes(&self, bytes: u64) -> Result<(), Problem> {
        if bytes <= self.bytes {
            return Ok(());
        }
        Err(Problem::Limit(format!("{bytes} bytes when decompressed, at most {MAX_DECODED} are read")))
    }

    /// Counts a value with this many bytes of text.
    pub(super) fn take(&mut self, text: usize) -> Result<(), Problem> {
        if text > self.text {
            return Err(Problem::Limit(format!("one text of {text} bytes, at most {} are read", self.text)));
        }
        let left = self.bytes.checked_sub(text as u64 + VALUE_BYTES);
        self.bytes = left.ok_or_else(|| {
            Problem::Limit(format!("more than {MAX_DECODED} bytes when decoded, which is the limit"))
        })?;
        Ok(())
    }

    /// Counts a text and copies it.
    pub(super) fn text(&mut self, text: &str) -> Result<Value, Problem> {
        self.take(text.len())?;
        Ok(text.into())
    }
}
