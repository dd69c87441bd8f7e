//! Parquet: the table's own record batch.

use ::parquet::arrow::ArrowWriter;

use super::{Failure, Format};
use crate::table::Table;

/// Parquet with every digit, typed columns.
pub(super) struct Parquet;

impl Format for Parquet {
    fn ending(&self) -> &'static str {
        "parquet"
    }

    fn write(&self, table: &Table, file: &mut Vec<u8>) -> Result<(), Failure> {
        let mut writer = ArrowWriter::try_new(file, table.batch.schema(), None)?;
        writer.write(&table.batch)?;
        writer.close()?;
        Ok(())
    }
}
