//! Parquet, through Arrow.

use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};

use super::{Export, ExportError};
use crate::table::{Datum, Kind, Table};

/// Parquet with every digit, typed columns.
pub struct Parquet;

impl Export for Parquet {
    fn ending(&self) -> &'static str {
        "parquet"
    }

    fn write(&self, table: &Table) -> Result<Vec<u8>, ExportError> {
        let failed = |message: String| ExportError::Format { table: table.name, format: "Parquet", message };
        let rows = table.rows();
        let columns = table.headings.iter().enumerate().map(|(index, heading)| {
            let cells = rows.iter().map(|row| &row[index]);
            (heading.name, array(heading.kind, cells), true)
        });
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns).map_err(|error| failed(error.to_string()))?;
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None)
            .map_err(|error| failed(error.to_string()))?;
        writer.write(&batch).map_err(|error| failed(error.to_string()))?;
        writer.close().map_err(|error| failed(error.to_string()))?;
        Ok(bytes)
    }
}

fn array<'a>(kind: Kind, cells: impl Iterator<Item = &'a Datum>) -> ArrayRef {
    match kind {
        Kind::Text => Arc::new(StringArray::from_iter(cells.map(|cell| match cell {
            Datum::Text(text) => Some(text),
            _ => None,
        }))),
        Kind::Count => Arc::new(UInt64Array::from_iter(cells.map(|cell| match cell {
            Datum::Count(count) => Some(*count),
            _ => None,
        }))),
        _ => Arc::new(Float64Array::from_iter(cells.map(|cell| match cell {
            Datum::Real(value) => Some(*value),
            _ => None,
        }))),
    }
}
