//! Tasks as files that a user writes: a `benchmark.toml` with a table `row` in the place of code.
//!
//! `suite/docs/tasks.md` shows one for each kind of question.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use paravt_files::read_text;

use super::columns::Columns;
use super::description::{FIELDS, take_row};
use super::{Benchmark, DataRoot, Description, DescriptionError, Task as _};
use crate::data::DataError;
use crate::fields::FieldsError;
use crate::nearest::nearest;
use crate::profile::Profile;

/// Bytes that a task file may have.
const MAX_FILE: u64 = 1 << 20;

/// Endings of files of rows.
const ROWS: [&str; 6] = ["parquet", "json", "jsonl", "ndjson", "csv", "tsv"];

/// Why a task file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TaskFileError {
    /// It cannot be read, or a field is wrong.
    #[error(transparent)]
    Fields(#[from] FieldsError),
    /// The rows beside it, which are counted where it does not say how many there are, cannot be read.
    #[error("{path}: {source}", path = .path.display())]
    Count { path: PathBuf, source: Box<DataError> },
}

impl Benchmark {
    /// The task of a file. Annotations and videos are looked for where a data root has them, and beside the
    /// file. Rows and videos are counted where the file does not say how many there are.
    ///
    /// # Errors
    /// The file cannot be read, or its field is named that cannot be used.
    pub fn from_file(path: &Path) -> Result<Self, TaskFileError> {
        let format = |message: String| FieldsError::format(path, message);
        if path.is_file() && path.extension().is_some_and(|ending| ROWS.iter().any(|rows| ending == *rows)) {
            let message = "rows in the place of a task file, a TOML file whose layout.annotations names them; see suite/docs/tasks.md";
            return Err(format(message.to_owned()).into());
        }
        let text = &read_text(path, MAX_FILE).map_err(|source| FieldsError::io(path, source))?;
        let described = |error: DescriptionError| match error {
            DescriptionError::Parse(message) => format(message),
            DescriptionError::UnknownField(field) => FieldsError::Format {
                path: path.to_owned(),
                message: format!("{}unknown field `{field}`", line_of(text, &field)),
                nearest: nearest(&field, FIELDS).map(str::to_owned),
            },
        };
        let mut table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| format(error.to_string()))?;
        let columns = take_row(&mut table).map_err(described)?;
        let columns = columns.ok_or_else(|| format("missing table `row`".to_owned()))?;
        let counted = !table.contains_key("expected_rows") || !table.contains_key("expected_videos");
        let table = with_defaults(table, &columns).map_err(format)?;
        let description = Description::of_table(table, Some(columns)).map_err(described)?;
        let valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let name = &description.spec.name;
        if name.is_empty() || !name.chars().all(valid) {
            return Err(format(format!("name: expected letters, digits, `_` and `-`, found `{name}`")).into());
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut task = Self::of_file(description, folder.to_owned());
        if counted {
            let found = task.load(&DataRoot::new(folder), Profile::Release);
            let samples = found
                .map_err(|source| TaskFileError::Count { path: path.to_owned(), source: source.into() })?
                .samples;
            let videos: BTreeSet<&PathBuf> = samples.iter().flat_map(|sample| sample.media()).collect();
            task.expect(samples.len(), videos.len());
        }
        Ok(task)
    }
}

/// `line N: ` of the field at the top of a task file; empty for one in a table.
fn line_of(text: &str, field: &str) -> String {
    let is_field = |line: &str| line.split_once('=').is_some_and(|(key, _)| key.trim() == field);
    let line = text.lines().position(is_field);
    line.map_or(String::new(), |line| format!("line {}: ", line + 1))
}

/// Defaults of a task file.
fn with_defaults(mut table: toml::Table, columns: &Columns) -> Result<toml::Table, String> {
    let name = table.get("name").and_then(toml::Value::as_str).ok_or("missing field `name`")?.to_owned();
    let layout =
        table.get_mut("layout").and_then(toml::Value::as_table_mut).ok_or("missing table `layout`")?;
    layout.entry("benchmark").or_insert_with(|| name.clone().into());
    let files = layout.get("annotations").and_then(toml::Value::as_array);
    let files: Option<Vec<&str>> = files.map(|files| files.iter().filter_map(toml::Value::as_str).collect());
    let annotations = files.ok_or("layout.annotations: expected a list of files")?.join(", ");
    for (field, value) in [
        ("title", toml::Value::from(name)),
        ("metric", toml::Value::try_from(columns.metric()).map_err(|error| error.to_string())?),
    ] {
        table.entry(field).or_insert(value);
    }
    let mut hub = toml::Table::new();
    let none = || toml::Value::Array(Vec::new());
    hub.insert("repos".to_owned(), none());
    hub.insert("media".to_owned(), none());
    hub.insert("split".to_owned(), "".into());
    hub.insert("license".to_owned(), "".into());
    hub.insert("annotations".to_owned(), annotations.into());
    if let Some(given) = table.remove("hub") {
        hub.extend(given.as_table().cloned().ok_or("hub: expected a table")?);
    }
    table.insert("hub".to_owned(), hub.into());
    Ok(table)
}
