//! Files of rows: the table of a split, in one file or in several, each of the format that its name ends with.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use paravt_files::{open_regular, read_text};

use super::limits::{JsonRow, MAX_FILE, Problem, Table};
use super::row::{PublishedRow, RowAt};
use super::{DataError, delimited, json, parquet};

/// First bytes of the file that Git holds in the place of a large one.
const LFS_POINTER: &[u8] = b"version https://git-lfs";
const PARQUET: &[u8] = b"PAR1";
/// First bytes of what holds rows inside, with what to do about it.
const WRAPPED: [(&[u8], &str); 6] = [
    (b"PK\x03\x04", "a spreadsheet or a zip archive; save the sheet as .csv, or unpack the archive"),
    (b"\x1f\x8b", "compressed by gzip; unpack it"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd; unpack it"),
    (b"BZh", "compressed by bzip2; unpack it"),
    (b"\xfd7zXZ\0", "compressed by xz; unpack it"),
    (b"\xd0\xcf\x11\xe0", "a workbook of an old Excel; save the sheet as .csv"),
];

/// The rows of a file: parquet, JSON (a list, or an object a line), CSV or TSV.
///
/// # Errors
/// The file cannot be read, is damaged (the message says where), or is larger than rows of a split may be.
pub fn read_rows(path: &Path) -> Result<Vec<JsonRow>, DataError> {
    Rows::read(&[path.to_owned()], None).map(|rows| rows.values)
}

/// The rows of a split, in the order of its files.
#[derive(Debug, Default)]
pub struct Rows {
    /// Column name to value.
    pub values: Vec<JsonRow>,
    /// Never empty; ascending by `first`.
    files: Vec<RowFile>,
}

/// Where the rows of one file lie among those of the split.
#[derive(Debug)]
struct RowFile {
    path: PathBuf,
    first: usize,
    /// Line of each row; empty for a format without lines.
    lines: Vec<usize>,
}

impl Rows {
    /// Reads the files of a table; `pictures` is [`Layout::pictures`](super::Layout::pictures).
    ///
    /// # Errors
    /// As [`read_rows`], or two of the files have other columns.
    pub fn read(files: &[PathBuf], pictures: Option<&str>) -> Result<Self, DataError> {
        let mut table = Table { pictures: pictures.map(str::to_owned), ..Table::default() };
        let mut found = Vec::new();
        let mut columns: Option<BTreeSet<String>> = None;
        for path in files {
            let first = table.rows.len();
            add(path, &mut table).map_err(|problem| problem.of(path))?;
            found.push(RowFile { path: path.clone(), first, lines: std::mem::take(&mut table.lines) });
            // An empty file has no columns to compare.
            if files.len() > 1 && table.rows.len() > first {
                let here = table.rows[first..].iter().flat_map(|row| row.keys().cloned()).collect();
                let known = columns.get_or_insert_with(|| BTreeSet::clone(&here));
                if let Some(column) = known.symmetric_difference(&here).next() {
                    return Err(other_columns(&files[0], path, column, here.contains(column)));
                }
            }
        }
        Ok(Self { values: table.rows, files: found })
    }

    /// Every row with its place.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = PublishedRow<'_>> {
        self.values.iter().enumerate().map(|(index, value)| {
            let (file, row) = self.place(index);
            PublishedRow { file, row, value }
        })
    }

    /// File of a row, and its place there.
    pub fn place(&self, index: usize) -> (&Path, RowAt) {
        let file = &self.files[self.files.partition_point(|file| file.first <= index).saturating_sub(1)];
        let row = index - file.first;
        (&file.path, RowAt { row, line: file.lines.get(row).copied() })
    }
}

impl Rows {
    /// A row for messages: its place, after the file's name where there are several.
    pub(crate) fn name_of(&self, index: usize) -> String {
        let (path, row) = self.place(index);
        match self.files.as_slice() {
            [_] => row.to_string(),
            _ => format!("{}, {row}", path.file_name().unwrap_or_default().to_string_lossy()),
        }
    }
}

fn other_columns(first: &Path, path: &Path, column: &str, is_new: bool) -> DataError {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (has, lacks) = if is_new { (path, first) } else { (first, path) };
    DataError::Column {
        path: path.to_owned(),
        column: column.to_owned(),
        message: format!(
            "{} has it, {} does not; the files of layout.annotations are read as one table and have the same columns",
            name(has),
            name(lacks)
        ),
    }
}

/// What a file holds that begins so and is not read as it is: an archive, a compressed file, a pointer of Git LFS.
pub fn wrapped(start: &[u8]) -> Option<&'static str> {
    const POINTER: (&[u8], &str) =
        (LFS_POINTER, "a pointer of Git LFS and not the file; `git lfs pull` gets it, or fetch it again");
    WRAPPED.iter().chain([&POINTER]).find(|(first, _)| start.starts_with(first)).map(|(_, what)| *what)
}

/// Whether a file that begins so is parquet.
pub fn is_parquet(start: &[u8]) -> bool {
    start.starts_with(PARQUET)
}

/// Adds the rows of a file: by its first bytes where they say what it is, else by the ending of its name.
fn add(path: &Path, table: &mut Table) -> Result<(), Problem> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    let file = open_regular(path).map_err(Problem::Io)?;
    let start = first_bytes(&file).map_err(Problem::Io)?;
    if let Some(what) = wrapped(&start) {
        return Err(Problem::Format(what.to_owned()));
    }
    if is_parquet(&start) {
        return parquet::read(file, table);
    }
    let text = || read_text(path, MAX_FILE).map_err(Problem::Io);
    match ending.as_deref() {
        Some("json" | "jsonl" | "ndjson") => json::read(&text()?, table),
        Some("csv") => delimited::read(&text()?, b',', table),
        Some("tsv") => delimited::read(&text()?, b'\t', table),
        Some("parquet") if start.starts_with(b"<") => Err(Problem::Format(
            "a web page or XML and not parquet, as a server answers in the place of a file; fetch it again"
                .to_owned(),
        )),
        Some("parquet") if is_text(&start) => Err(Problem::Format(
            "a text and not parquet; where these are rows, name the file .json, .jsonl, .csv or .tsv"
                .to_owned(),
        )),
        Some("parquet") => parquet::read(file, table),
        _ => Err(Problem::Format(
            "expected rows as .parquet, .json, .jsonl, .ndjson, .csv or .tsv; unpack a compressed file"
                .to_owned(),
        )),
    }
}

/// Whether a file that begins so is a text: a header in UTF-8, at least one character of it.
fn is_text(start: &[u8]) -> bool {
    let valid = start.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let is_whole = start.len() - valid.len() < 4;
    !valid.is_empty() && is_whole && !valid.contains(|c: char| c.is_control() && !c.is_whitespace())
}

fn first_bytes(mut file: &File) -> std::io::Result<Vec<u8>> {
    let mut start = Vec::new();
    file.take(LFS_POINTER.len() as u64).read_to_end(&mut start)?;
    std::io::Seek::rewind(&mut file)?;
    Ok(start)
}
