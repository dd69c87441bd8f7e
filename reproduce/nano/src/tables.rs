//! Parquet files in the published column types.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Float16Builder, ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use half::f16;
use parquet::arrow::ArrowWriter;

use crate::WorldError;

/// One named column.
pub(crate) type Column = (&'static str, ArrayRef);

pub(crate) fn text<T: AsRef<str>>(values: impl IntoIterator<Item = T>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

/// 64-bit integers.
pub(crate) fn integers(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

pub(crate) fn doubles(values: impl IntoIterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}

pub(crate) fn text_lists<T: AsRef<str>>(rows: impl IntoIterator<Item = Vec<T>>) -> ArrayRef {
    let mut builder = ListBuilder::new(StringBuilder::new());
    for row in rows {
        for value in row {
            builder.values().append_value(value);
        }
        builder.append(true);
    }
    Arc::new(builder.finish())
}

/// Lists of half floats, as Charades-STA publishes its intervals.
pub(crate) fn half_lists(rows: impl IntoIterator<Item = Vec<f64>>) -> ArrayRef {
    let mut builder = ListBuilder::new(Float16Builder::new());
    for row in rows {
        for value in row {
            builder.values().append_value(f16::from_f64(value));
        }
        builder.append(true);
    }
    Arc::new(builder.finish())
}

/// Writes a table, folders included.
pub(crate) fn write(path: &Path, columns: Vec<Column>) -> Result<(), WorldError> {
    let error = |message: String| WorldError::Write { path: path.to_owned(), message };
    make_parent(path)?;
    let batch = RecordBatch::try_from_iter(columns).map_err(|e| error(e.to_string()))?;
    let file = File::create(path).map_err(|e| error(e.to_string()))?;
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).map_err(|e| error(e.to_string()))?;
    writer.write(&batch).and_then(|()| writer.close()).map(|_| ()).map_err(|e| error(e.to_string()))
}

/// Writes a text file, folders included.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), WorldError> {
    make_parent(path)?;
    std::fs::write(path, text)
        .map_err(|e| WorldError::Write { path: path.to_owned(), message: e.to_string() })
}

/// Makes the folder that a file goes into.
pub(crate) fn make_parent(path: &Path) -> Result<(), WorldError> {
    let Some(parent) = path.parent() else { return Ok(()) };
    std::fs::create_dir_all(parent)
        .map_err(|e| WorldError::Write { path: parent.to_owned(), message: e.to_string() })
}
