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

/// All rows of a `.parquet` or `.json` file, column name to value. Columns of types that hold no
/// text or numbers (pictures, say) are left out.
///
/// # Errors
/// The file cannot be read or is damaged.
pub fn read_rows(path: &Path) -> Result<Vec<Map<String, Value>>, DataError> {
    if path.extension().is_some_and(|extension| extension == "json") {
        json_rows(path)
    } else {
        parquet_rows(path)
    }
}

fn json_rows(path: &Path) -> Result<Vec<Map<String, Value>>, DataError> {
    let bytes = std::fs::read(path).map_err(|source| DataError::Io { path: path.to_owned(), source })?;
    serde_json::from_slice(&bytes).map_err(|error| DataError::Format {
        path: path.to_owned(),
        message: format!("this is no JSON array of objects: {error}"),
    })
}

fn parquet_rows(path: &Path) -> Result<Vec<Map<String, Value>>, DataError> {
    let file = File::open(path).map_err(|source| DataError::Io { path: path.to_owned(), source })?;
    let damaged = |error: &dyn std::fmt::Display| DataError::Format {
        path: path.to_owned(),
        message: format!("this parquet file is damaged or cut off; fetch it again ({error})"),
    };
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)
        .and_then(ParquetRecordBatchReaderBuilder::build)
        .map_err(|error| damaged(&error))?;
    let mut rows = Vec::new();
    for batch in reader {
        append(&mut rows, &batch.map_err(|error| damaged(&error))?);
    }
    Ok(rows)
}

fn append(rows: &mut Vec<Map<String, Value>>, batch: &RecordBatch) {
    let start = rows.len();
    rows.resize_with(start + batch.num_rows(), Map::new);
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        if !readable(column.data_type()) {
            continue;
        }
        for (row, target) in rows[start..].iter_mut().enumerate() {
            target.insert(field.name().clone(), cell(column, row));
        }
    }
}

fn readable(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Boolean | DataType::Null => {
            true
        }
        DataType::List(field) | DataType::LargeList(field) => readable(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| readable(field.data_type())),
        DataType::Dictionary(_, values) => readable(values),
        other => other.is_integer() || other.is_floating(),
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
        DataType::Struct(_) => object(column.as_struct(), row),
        DataType::Dictionary(_, _) => {
            let dictionary = column.as_any_dictionary();
            cell(dictionary.values(), dictionary.normalized_keys()[row])
        }
        _ => Value::Null,
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
