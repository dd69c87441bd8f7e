//! One parquet file, batch by batch: rows in order, schema and metadata kept.

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::paths::Paths;
use super::{RowsReport, columns, open};
use crate::error::FetchError;

/// Where arrow keeps its own schema; the writer makes it.
const OWN_SCHEMA: &str = "ARROW:schema";

/// Rewrites a file of rows; it gets its name when it is whole.
pub(super) fn rewrite(
    from: &Path,
    to: &Path,
    name: &str,
    paths: &mut Paths,
) -> Result<RowsReport, FetchError> {
    let damaged = |message: String| FetchError::Invalid { what: name.to_owned(), message };
    let builder = ParquetRecordBatchReaderBuilder::try_new(open(from)?)
        .map_err(|error| damaged(format!("not a parquet file: {error}")))?;
    let kept: Option<Vec<KeyValue>> = builder.metadata().file_metadata().key_value_metadata().cloned();
    let kept = kept.map(|all| all.into_iter().filter(|entry| entry.key != OWN_SCHEMA).collect::<Vec<_>>());
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(kept.filter(|all| !all.is_empty()))
        .build();
    let schema = Arc::clone(builder.schema());
    let reader = builder.build().map_err(|error| damaged(error.to_string()))?;
    let aside = to.with_extension("parquet.part");
    let file = crate::disk::create(&aside)?;
    let failed = |error: parquet::errors::ParquetError| FetchError::io(&aside)(std::io::Error::other(error));
    let mut writer = ArrowWriter::try_new(file, schema, Some(properties)).map_err(failed)?;
    let mut rows = 0;
    for batch in reader {
        let batch = batch.map_err(|error| damaged(format!("row {rows} or after: {error}")))?;
        let changed = changed(&batch, paths).map_err(|message| {
            let last = (rows + batch.num_rows()).saturating_sub(1);
            damaged(format!("rows {rows} to {last}: {message}"))
        })?;
        rows += batch.num_rows();
        writer.write(&changed).map_err(failed)?;
    }
    writer.close().map_err(failed)?;
    paravt_files::rename(&aside, to).map_err(FetchError::io(to))?;
    let (references, missing_references) = paths.take_counts();
    Ok(RowsReport { name: name.to_owned(), rows, references, missing_references })
}

fn changed(batch: &RecordBatch, paths: &mut Paths) -> Result<RecordBatch, String> {
    let mut all = batch.columns().to_vec();
    let schema = batch.schema();
    for (column, field) in all.iter_mut().zip(schema.fields()) {
        match field.name().as_str() {
            "messages" => *column = columns::messages(column, paths)?,
            "videos" => *column = columns::videos(column, paths)?,
            _ => {}
        }
    }
    RecordBatch::try_new(schema, all).map_err(|error| error.to_string())
}
