//! Published annotation files as rows of JSON: parquet by column name, or a JSON array.

use std::fs::File;
use std::path::Path;

use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatch, StructArray};
use arrow::datatypes::{
    DataType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Map, Value};

use super::DataError;

/// One published row: column name to value.
pub type JsonRow = Map<String, Value>;

/// Stands in for a value of a type that no sample is made of (dates, pictures), with the type's
/// name: a column that is wanted and of such a type is then reported by its type, not as missing.
pub const UNREADABLE: &str = "unreadable column type";

/// All rows of a `.parquet` or `.json` file, column name to value.
///
/// # Errors
/// The file cannot be read or is damaged; the message says how many rows could be read.
pub fn read_rows(path: &Path) -> Result<Vec<JsonRow>, DataError> {
    if path.extension().is_some_and(|extension| extension == "json") {
        json_rows(path)
    } else {
        parquet_rows(path)
    }
}

fn json_rows(path: &Path) -> Result<Vec<JsonRow>, DataError> {
    let bytes = std::fs::read(path).map_err(|source| DataError::Io { path: path.to_owned(), source })?;
    serde_json::from_slice(&bytes).map_err(|error| DataError::Format {
        path: path.to_owned(),
        message: format!("this is no JSON array of objects: {error}"),
    })
}

fn parquet_rows(path: &Path) -> Result<Vec<JsonRow>, DataError> {
    let file = File::open(path).map_err(|source| DataError::Io { path: path.to_owned(), source })?;
    let mut rows = Vec::new();
    // The reader's own checks do not cover every damaged byte: some make it panic.
    let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| -> Result<(), String> {
        let reader = ParquetRecordBatchReaderBuilder::try_new(file)
            .and_then(ParquetRecordBatchReaderBuilder::build)
            .map_err(|error| error.to_string())?;
        for batch in reader {
            append(&mut rows, &batch.map_err(|error| error.to_string())?);
        }
        Ok(())
    }));
    let problem = match read {
        Ok(Ok(())) => return Ok(rows),
        Ok(Err(problem)) => problem,
        Err(_) => "the parquet reader gave up".to_owned(),
    };
    Err(DataError::Format {
        path: path.to_owned(),
        message: format!(
            "this parquet file is damaged or cut off after row {}; fetch it again ({problem})",
            rows.len()
        ),
    })
}

fn append(rows: &mut Vec<JsonRow>, batch: &RecordBatch) {
    let start = rows.len();
    rows.resize_with(start + batch.num_rows(), Map::new);
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        for (row, target) in rows[start..].iter_mut().enumerate() {
            target.insert(field.name().clone(), cell(column, row));
        }
    }
}

/// One value; half floats become exactly the double they stand for.
fn cell(column: &ArrayRef, row: usize) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    match column.data_type() {
        DataType::Boolean => column.as_boolean().value(row).into(),
        DataType::Int8 => column.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => column.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into(),
        DataType::UInt8 => column.as_primitive::<UInt8Type>().value(row).into(),
        DataType::UInt16 => column.as_primitive::<UInt16Type>().value(row).into(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).into(),
        DataType::Float16 => f64::from(column.as_primitive::<Float16Type>().value(row)).into(),
        DataType::Float32 => f64::from(column.as_primitive::<Float32Type>().value(row)).into(),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).into(),
        DataType::Utf8 => column.as_string::<i32>().value(row).into(),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row).into(),
        DataType::Utf8View => column.as_string_view().value(row).into(),
        DataType::List(_) => list(&column.as_list::<i32>().value(row)),
        DataType::LargeList(_) => list(&column.as_list::<i64>().value(row)),
        DataType::FixedSizeList(_, _) => list(&column.as_fixed_size_list().value(row)),
        DataType::Struct(_) => object(column.as_struct(), row),
        DataType::Dictionary(_, _) => {
            let dictionary = column.as_any_dictionary();
            let key = dictionary.keys().slice(row, 1);
            match cell(&key, 0).as_u64().map(usize::try_from) {
                Some(Ok(key)) => cell(dictionary.values(), key),
                _ => Value::Null,
            }
        }
        other => serde_json::json!({ UNREADABLE: other.to_string() }),
    }
}

fn list(items: &ArrayRef) -> Value {
    (0..items.len()).map(|index| cell(items, index)).collect()
}

fn object(fields: &StructArray, row: usize) -> Value {
    let names = fields.column_names();
    names
        .into_iter()
        .zip(fields.columns())
        .map(|(name, column)| (name.to_owned(), cell(column, row)))
        .collect()
}
