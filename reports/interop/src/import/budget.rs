//! What a file may come to in memory, counted over its members and cells.

use paravt_suite::data::MAX_ROWS;

use super::error::Problem;

/// Bytes of a file, and of the text that it decodes to.
pub(super) const MAX_BYTES: u64 = 256 << 20;
/// JSON values, or cells of a table: each takes some 100 bytes beside its text. Logs have one in 35 to 70 bytes.
const MAX_VALUES: u64 = 4 << 20;

/// Bytes of one text of a row: a record has several copies of it.
pub(super) const MAX_TEXT: usize = 16 << 20;

/// What may still be decoded of one file.
#[derive(Clone)]
pub(super) struct Budget {
    bytes: u64,
    values: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { bytes: MAX_BYTES, values: MAX_VALUES }
    }
}

impl Budget {
    /// Bytes that may still be decoded.
    pub(super) fn bytes_left(&self) -> u64 {
        self.bytes
    }

    /// Counts decoded text before it is kept.
    pub(super) fn take_bytes(&mut self, bytes: usize) -> Result<(), Problem> {
        self.bytes = left(self.bytes, bytes, MAX_BYTES, "bytes")?;
        Ok(())
    }

    /// Counts values before they are made.
    pub(super) fn take_values(&mut self, values: usize) -> Result<(), Problem> {
        self.values = left(self.values, values, MAX_VALUES, "values")?;
        Ok(())
    }
}

fn left(left: u64, taken: usize, limit: u64, unit: &str) -> Result<u64, Problem> {
    let message =
        || format!("more than {limit} {unit} when decoded, which is the limit; split it into parts");
    left.checked_sub(taken as u64).ok_or_else(|| Problem::File(message()))
}

/// Refuses more rows than are read: each becomes a record of some kilobytes.
pub(super) fn check_rows(rows: usize) -> Result<(), Problem> {
    if rows <= MAX_ROWS {
        return Ok(());
    }
    Err(Problem::File(format!("{rows} rows, at most {MAX_ROWS} are read; split it into parts")))
}
