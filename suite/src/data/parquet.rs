//! Parquet files: rows by column name, within the limits of a split.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use paravt_files::picture_name;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use serde_json::{Map, Value};

use super::limits::{Budget, MAX_FILE, Problem, Table, UNREADABLE};

/// Rows of one batch: a batch's columns are decoded whole before they are counted.
const BATCH: usize = 256;
/// The same where rows hold pictures, which have megabytes.
const PICTURE_BATCH: usize = 4;

/// Bytes of a footer, which lists columns and pieces.
const MAX_FOOTER: u32 = 1 << 20;
/// Bytes of the stack that a file is read on; memory is taken only as it is used. A footer may have 210,000 levels in its
/// bytes, and one level of it was measured to take 1,100 bytes.
const STACK: usize = 1 << 30;
/// Levels of nesting of a column, lists and structs.
const MAX_DEPTH: usize = 64;

/// Adds the rows of a file.
pub(super) fn read(file: File, table: &mut Table) -> Result<(), Problem> {
    let length = file.metadata().map_err(Problem::Io)?.len();
    if length > MAX_FILE && table.pictures.is_none() {
        return Err(Problem::Limit(format!("{length} bytes, at most {MAX_FILE} are read")));
    }
    let before = table.rows.len();
    check_footer(&file, length)?;
    // The reader's own checks do not cover every damaged byte: some make it panic. It calls itself for each level of a
    // nested column, and an overflow of the stack would end the program.
    let read = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        thread.spawn_scoped(scope, || decode(file, table)).map(|thread| thread.join())
    });
    let damage = match read.map_err(Problem::Io)? {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(Problem::Damaged(damage))) => damage,
        Ok(Err(other)) => return Err(other),
        Err(_) => "the parquet reader panicked".to_owned(),
    };
    Err(Problem::Damaged(format!(
        "this parquet file is damaged or cut off after row {}; fetch it again ({damage})",
        table.rows.len() - before
    )))
}

fn decode(file: File, table: &mut Table) -> Result<(), Problem> {
    for batch in reader(file, table)? {
        append(table, &batch.map_err(unread)?)?;
    }
    Ok(())
}

/// What is wrong with a file that the reader refuses: a part of the format that it does not know is no damage.
fn unread(error: impl Into<ParquetError>) -> Problem {
    match error.into() {
        ParquetError::NYI(what) => Problem::Format(format!("a parquet file with what is not read: {what}")),
        other => Problem::Damaged(other.to_string()),
    }
}

fn check_footer(file: &File, length: u64) -> Result<(), Problem> {
    let mut end = [0; 8];
    let Some(at) = length.checked_sub(8) else { return Ok(()) };
    file.read_exact_at(&mut end, at).map_err(Problem::Io)?;
    let [a, b, c, d, magic @ ..] = end;
    let footer = u32::from_le_bytes([a, b, c, d]);
    if magic == *b"PAR1" && u64::from(footer) <= length && footer > MAX_FOOTER {
        return Err(Problem::Limit(format!("a footer of {footer} bytes, at most {MAX_FOOTER} are read")));
    }
    Ok(())
}

/// Refuses columns that are nested without sense before each level is called for, and two of one name, of which a row
/// would hold the last.
fn check_columns(account: &ParquetMetaData) -> Result<(), Problem> {
    let mut left = vec![(account.file_metadata().schema(), 0)];
    while let Some((column, depth)) = left.pop() {
        if depth > MAX_DEPTH {
            return Err(Problem::Limit(format!("a column of more than {MAX_DEPTH} levels")));
        }
        if column.is_group() {
            let mut names: Vec<&str> = column.get_fields().iter().map(|field| field.name()).collect();
            names.sort_unstable();
            if let Some([name, _]) = names.array_windows().find(|[one, next]| one == next) {
                return Err(Problem::Format(format!("two columns have the name `{name}`; rename one")));
            }
            left.extend(column.get_fields().iter().map(|field| (&**field, depth + 1)));
        }
    }
    Ok(())
}

/// Refuses a codec that is not compiled in, before a page of it looks damaged.
fn check_codecs(account: &ParquetMetaData) -> Result<(), Problem> {
    for column in account.row_groups().iter().flat_map(|group| group.columns()) {
        let codec = match column.compression() {
            Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::GZIP(_) | Compression::ZSTD(_) => {
                continue;
            }
            Compression::BROTLI(_) => "brotli",
            Compression::LZ4 | Compression::LZ4_RAW => "lz4",
            Compression::LZO => "lzo",
        };
        return Err(Problem::Format(format!(
            "column `{}` is compressed by {codec}, which is not read; rewrite the file with zstd, gzip, snappy or \
             without compression, as by pyarrow.parquet.write_table(pyarrow.parquet.read_table(OLD), NEW, \
             compression=\"zstd\")",
            column.column_path().string()
        )));
    }
    Ok(())
}

/// A reader of a file whose own account of its size is within the limits.
fn reader(file: File, table: &mut Table) -> Result<ParquetRecordBatchReader, Problem> {
    let account = &Arc::new(ParquetMetaDataReader::new().parse_and_finish(&file).map_err(unread)?);
    check_columns(account)?;
    let published =
        ArrowReaderMetadata::try_new(Arc::clone(account), ArrowReaderOptions::new()).map_err(unread)?;
    check_codecs(account)?;
    table.budget.has_rows(usize::try_from(account.file_metadata().num_rows()).unwrap_or(usize::MAX))?;
    let columns = account.row_groups().iter().flat_map(|group| group.columns());
    let columns = columns.filter(|column| !table.is_picture(&column.column_path().string()));
    let sizes = columns.map(|column| u64::try_from(column.uncompressed_size()).unwrap_or(u64::MAX));
    table.budget.has_bytes(sizes.fold(0, u64::saturating_add))?;
    // Texts as references into their dictionary: repeated ones are not copied before they are counted.
    let reference = |field: &FieldRef| match table.is_picture(field.name()) {
        true => Arc::clone(field),
        false => by_reference(field),
    };
    let fields: Vec<FieldRef> = published.schema().fields().iter().map(reference).collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, published.schema().metadata().clone()));
    let options = ArrowReaderOptions::new().with_schema(schema);
    let metadata = ArrowReaderMetadata::try_new(Arc::clone(account), options).map_err(unread)?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
    let batch = if table.pictures.is_some() { PICTURE_BATCH } else { BATCH };
    builder.with_batch_size(batch).build().map_err(unread)
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

fn append(table: &mut Table, batch: &RecordBatch) -> Result<(), Problem> {
    for row in 0..batch.num_rows() {
        let schema = batch.schema_ref();
        let cells = schema.fields().iter().zip(batch.columns());
        let cells = cells.map(|(field, column)| {
            table.budget.take(field.name().len())?;
            let value = match table.is_picture(field.name()) {
                true => picture(column, row, table.rows.len())?,
                false => cell(column, row, &mut table.budget)?,
            };
            Ok((field.name().clone(), value))
        });
        let row = cells.collect::<Result<_, Problem>>()?;
        table.push(row, None)?;
    }
    Ok(())
}

/// The file name of a picture; `number` is that of the row in the table.
fn picture(column: &ArrayRef, row: usize, number: usize) -> Result<Value, Problem> {
    let text = match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row),
        other => return Err(Problem::Format(format!("pictures are read as base64 texts, not as {other}"))),
    };
    picture_name(text).map(Value::from).ok_or_else(|| {
        Problem::Format(format!("row {number}: the picture is no JPEG, PNG or WebP in base64"))
    })
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
                key.ok_or_else(|| Problem::Damaged("a key points outside of its dictionary".to_owned()))?;
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
    let cells = cells.map(|(name, column)| {
        budget.take(name.len())?;
        Ok((name.to_owned(), cell(column, row, budget)?))
    });
    cells.collect::<Result<Map<_, _>, Problem>>().map(Value::Object)
}
