//! Pictures in base64 in a column of a parquet file.

use std::collections::HashSet;
use std::fs::File;
use std::path::PathBuf;

use arrow_array::Array as _;
use arrow_array::cast::AsArray as _;
use arrow_schema::DataType;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use paravt_files::picture_name;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::Stop;
use super::extraction::{Extraction, Member};
use crate::disk;
use crate::error::FetchError;

/// Rows that are in memory at a time: a picture has megabytes.
const BATCH: usize = 4;

/// Writes every picture of the column once, under the name that a row of the split has for it.
pub(super) fn unpack(files: &[PathBuf], column: &str, extraction: &mut Extraction<'_>) -> Result<(), Stop> {
    let mut row = 0;
    let mut seen = HashSet::new();
    for path in files {
        let file = File::open(path).map_err(FetchError::io(path))?;
        let length = file.metadata().map_err(FetchError::io(path))?.len();
        disk::check(extraction.folder(), length.saturating_sub(extraction.bytes_there()))?;
        let damaged = |error: &dyn std::fmt::Display| Stop::Archive(format!("not read as parquet: {error}"));
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| damaged(&error))?;
        let mask = ProjectionMask::columns(builder.parquet_schema(), [column]);
        let batches = builder.with_projection(mask).with_batch_size(BATCH).build();
        for batch in batches.map_err(|error| damaged(&error))? {
            let batch = batch.map_err(|error| damaged(&error))?;
            let texts =
                batch.column_by_name(column).ok_or_else(|| Stop::Archive(format!("no column `{column}`")))?;
            for index in 0..texts.len() {
                let text = match texts.data_type() {
                    DataType::Utf8 => texts.as_string::<i32>().value(index),
                    DataType::LargeUtf8 => texts.as_string::<i64>().value(index),
                    other => {
                        return Err(Stop::Archive(format!("column `{column}` has {other}, expected texts")));
                    }
                };
                picture(row, text, &mut seen, extraction)?;
                row += 1;
            }
        }
    }
    Ok(())
}

fn picture(
    row: usize,
    text: &str,
    seen: &mut HashSet<String>,
    extraction: &mut Extraction<'_>,
) -> Result<(), Stop> {
    let name = picture_name(text);
    if name.as_ref().is_some_and(|name| !seen.insert(name.clone())) {
        return Ok(());
    }
    let (Some(name), Ok(bytes)) = (name, STANDARD.decode(text)) else {
        extraction.refuse(format!("row {row}").as_bytes(), "no JPEG, PNG or WebP in base64");
        return Ok(());
    };
    let name = name.as_bytes();
    let place = extraction.place(name, false).map_err(|reason| Stop::Archive(reason.to_owned()))?;
    let place = place.ok_or_else(|| Stop::Archive("a picture has no place".to_owned()))?;
    let size = bytes.len() as u64;
    let crc = Some(crc32fast::hash(&bytes));
    extraction.member(Member { index: row, name, place, size, crc }, &mut &*bytes)?;
    Ok(())
}
