//! Published annotation files as rows of JSON: parquet by column name, or a JSON array.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use paravt_files::{open_regular, read_text};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use serde_json::{Map, Value};

use super::DataError;

/// One published row: column name to value.
pub type JsonRow = Map<String, Value>;

/// Stands in for a value of a type that no sample is made of (dates, pictures), with the type's
/// name: a column that is wanted and of such a type is then reported by its type, not as missing.
pub const UNREADABLE: &str = "unreadable column type";

/// Bytes that an annotation file may have; the largest published one has 1.6 million.
const MAX_FILE: u64 = 64 << 20;
/// Bytes that a file may come to, by its own account and as decoded: text is cheap to repeat in parquet.
const MAX_DECODED: u64 = 256 << 20;
/// Rows of a file; the longest published split has 3,720.
const MAX_ROWS: usize = 100_000;
/// Bytes counted for a value beside its text.
const VALUE_BYTES: u64 = 32;

/// All rows of a `.parquet` or `.json` file, column name to value.
///
/// # Errors
/// The file cannot be read, is damaged (the message says how many rows could be read), or is larger
/// than a published file could be.
pub fn read_rows(path: &Path) -> Result<Vec<JsonRow>, DataError> {
    let read = if path.extension().is_some_and(|extension| extension == "json") {
        json_rows(path)
    } else {
        parquet_rows(path)
    };
    read.map_err(|problem| match problem {
        Problem::Io(source) => DataError::Io { path: path.to_owned(), source },
        Problem::Format(message) => DataError::Format { path: path.to_owned(), message },
        Problem::TooLarge(what) => DataError::Format {
            path: path.to_owned(),
            message: format!("{what}; not a published annotation file, fetch it again"),
        },
    })
}

/// Why a file gives no rows.
enum Problem {
    Io(std::io::Error),
    Format(String),
    TooLarge(String),
}

fn json_rows(path: &Path) -> Result<Vec<JsonRow>, Problem> {
    let text = read_text(path, MAX_FILE).map_err(Problem::Io)?;
    let rows: Vec<JsonRow> = serde_json::from_str(&text)
        .map_err(|error| Problem::Format(format!("expected a JSON array of objects: {error}")))?;
    check_rows(rows.len())?;
    Ok(rows)
}

fn check_rows(rows: usize) -> Result<(), Problem> {
    if rows <= MAX_ROWS {
        return Ok(());
    }
    Err(Problem::TooLarge(format!("{rows} rows, at most {MAX_ROWS} are read")))
}

fn parquet_rows(path: &Path) -> Result<Vec<JsonRow>, Problem> {
    let file = open_regular(path).map_err(Problem::Io)?;
    let length = file.metadata().map_err(Problem::Io)?.len();
    if length > MAX_FILE {
        return Err(Problem::TooLarge(format!("{length} bytes, at most {MAX_FILE} are read")));
    }
    let mut rows = Vec::new();
    // The reader's own checks do not cover every damaged byte: some make it panic.
    let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| decode(file, &mut rows)));
    let damage = match read {
        Ok(Ok(())) => return Ok(rows),
        Ok(Err(Problem::Format(damage))) => damage,
        Ok(Err(other)) => return Err(other),
        Err(_) => "the parquet reader panicked".to_owned(),
    };
    Err(Problem::Format(format!(
        "this parquet file is damaged or cut off after row {}; fetch it again ({damage})",
        rows.len()
    )))
}

fn decode(file: File, rows: &mut Vec<JsonRow>) -> Result<(), Problem> {
    let damaged = |error: &dyn std::fmt::Display| Problem::Format(error.to_string());
    let mut budget = Budget(MAX_DECODED);
    for batch in reader(file)? {
        append(rows, &batch.map_err(|error| damaged(&error))?, &mut budget)?;
    }
    Ok(())
}

/// A reader of a file whose own account of its size is within the limits.
fn reader(file: File) -> Result<ParquetRecordBatchReader, Problem> {
    let damaged = |error: parquet::errors::ParquetError| Problem::Format(error.to_string());
    let published = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).map_err(damaged)?;
    let account = published.metadata();
    check_rows(usize::try_from(account.file_metadata().num_rows()).unwrap_or(usize::MAX))?;
    let columns = account.row_groups().iter().flat_map(|group| group.columns());
    let sizes = columns.map(|column| u64::try_from(column.uncompressed_size()).unwrap_or(u64::MAX));
    let decoded = sizes.fold(0, u64::saturating_add);
    if decoded > MAX_DECODED {
        return Err(Problem::TooLarge(format!(
            "{decoded} bytes when decompressed, at most {MAX_DECODED} are read"
        )));
    }
    // Texts as references into their dictionary: repeated ones are not copied before they are counted.
    let fields: Vec<FieldRef> = published.schema().fields().iter().map(by_reference).collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, published.schema().metadata().clone()));
    let options = ArrowReaderOptions::new().with_schema(schema);
    let metadata = ArrowReaderMetadata::try_new(Arc::clone(account), options).map_err(damaged)?;
    ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata).build().map_err(damaged)
}

fn by_reference(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        text @ (DataType::Utf8 | DataType::LargeUtf8) => {
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(text.clone()))
        }
        DataType::List(item) => DataType::List(by_reference(item)),
        DataType::LargeList(item) => DataType::LargeList(by_reference(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(by_reference(item), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(by_reference).collect()),
        other => other.clone(),
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}

/// Bytes of decoded values that may still be made.
struct Budget(u64);

impl Budget {
    fn take(&mut self, bytes: usize) -> Result<(), Problem> {
        let left = self.0.checked_sub(bytes as u64 + VALUE_BYTES);
        self.0 = left.ok_or_else(|| {
            Problem::TooLarge(format!("more than {MAX_DECODED} bytes when decoded, which is the limit"))
        })?;
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<Value, Problem> {
        self.take(text.len())?;
        Ok(text.into())
    }
}

fn append(rows: &mut Vec<JsonRow>, batch: &RecordBatch, budget: &mut Budget) -> Result<(), Problem> {
    for row in 0..batch.num_rows() {
        let schema = batch.schema_ref();
        let cells = schema.fields().iter().zip(batch.columns());
        let cells = cells.map(|(field, column)| Ok((field.name().clone(), cell(column, row, budget)?)));
        rows.push(cells.collect::<Result<_, Problem>>()?);
    }
    Ok(())
}

/// One value; half floats become exactly the double they stand for.
fn cell(column: &ArrayRef, row: usize, budget: &mut Budget) -> Result<Value, Problem> {
    if column.is_null(row) {
        return Ok(Value::Null);
    }
    let value = match column.data_type() {
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
        DataType::Utf8 => return budget.text(column.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => return budget.text(column.as_string::<i64>().value(row)),
        DataType::Utf8View => return budget.text(column.as_string_view().value(row)),
        DataType::List(_) => return list(&column.as_list::<i32>().value(row), budget),
        DataType::LargeList(_) => return list(&column.as_list::<i64>().value(row), budget),
        DataType::FixedSizeList(_, _) => return list(&column.as_fixed_size_list().value(row), budget),
        DataType::Struct(_) => return object(column.as_struct(), row, budget),
        DataType::Dictionary(_, _) => {
            let dictionary = column.as_any_dictionary();
            let key = cell(&dictionary.keys().slice(row, 1), 0, budget)?.as_u64();
            let key = key.map(|key| key as usize).filter(|&key| key < dictionary.values().len());
            let key =
                key.ok_or_else(|| Problem::Format("a key points outside of its dictionary".to_owned()))?;
            return cell(dictionary.values(), key, budget);
        }
        other => serde_json::json!({ UNREADABLE: other.to_string() }),
    };
    budget.take(0)?;
    Ok(value)
}

fn list(items: &ArrayRef, budget: &mut Budget) -> Result<Value, Problem> {
    (0..items.len()).map(|index| cell(items, index, budget)).collect::<Result<Vec<_>, _>>().map(Value::Array)
}

fn object(fields: &StructArray, row: usize, budget: &mut Budget) -> Result<Value, Problem> {
    let cells = fields.column_names().into_iter().zip(fields.columns());
    let cells = cells.map(|(name, column)| Ok((name.to_owned(), cell(column, row, budget)?)));
    cells.collect::<Result<Map<_, _>, Problem>>().map(Value::Object)
}
