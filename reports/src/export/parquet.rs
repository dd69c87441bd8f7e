//! Parquet: the frame's columns as Arrow's, typed.

use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array};

use super::Failure;
use crate::frame::Values;
use crate::table::Table;

/// Parquet with every digit; every column is nullable.
pub(super) fn write(table: &Table, file: &mut Vec<u8>) -> Result<(), Failure> {
    let array = |name| {
        let array: ArrayRef = match table.values(name) {
            Values::Text(values) => Arc::new(StringArray::from(values)),
            Values::Count(values) => Arc::new(UInt64Array::from(values)),
            Values::Real(values) => Arc::new(Float64Array::from(values)),
            Values::Flag(values) => Arc::new(BooleanArray::from(values)),
        };
        (name, array, true)
    };
    let arrays = table.headings.iter().map(|heading| array(heading.name));
    let batch = RecordBatch::try_from_iter_with_nullable(arrays)?;
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None)?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(())
}
