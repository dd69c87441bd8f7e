//! Files as rows of JSON values, whatever form they have.

use std::path::Path;

use paravt_suite::data::{DataError, is_parquet, read_rows, wrapped};
use serde_json::Value;

use super::budget::{Budget, check_rows};
use super::error::Problem;
use super::values::{Placed, delimited, json};
use super::{inspect, spreadsheet};

/// What a file holds.
pub(super) enum Content {
    /// A log of Inspect with its samples.
    Inspect(Box<Value>),
    Rows(Vec<Placed>),
}

impl Content {
    /// Reads a file by its first bytes and the ending of its name.
    pub(super) fn of(path: &Path, bytes: Vec<u8>, budget: &mut Budget) -> Result<Self, Problem> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        match ending.as_deref() {
            Some("eval") => return inspect::archive(bytes, budget).map(|log| Self::Inspect(Box::new(log))),
            Some("xlsx" | "xlsm") => return spreadsheet::rows(bytes, budget).map(Self::Rows),
            Some(other @ ("xls" | "xlsb" | "ods" | "pkl")) => {
                return Err(Problem::File(format!("`.{other}` is not read; save it as .xlsx or .csv")));
            }
            _ if is_parquet(&bytes) || ending.as_deref() == Some("parquet") => {
                let rows = read_rows(path).map_err(|error| match error {
                    DataError::Format { message, .. } => Problem::File(message),
                    other => Problem::File(other.to_string()),
                })?;
                return Ok(Self::Rows(placed(rows.into_iter().map(Value::Object))));
            }
            _ => match wrapped(&bytes) {
                Some(what) => return Err(Problem::File(what.to_owned())),
                None => budget.take_bytes(bytes.len())?,
            },
        }
        match ending.as_deref() {
            Some("csv") => return delimited(&bytes, b',', budget).map(Self::Rows),
            Some("tsv") => return delimited(&bytes, b'\t', budget).map(Self::Rows),
            _ => {}
        }
        let values = json(&bytes, budget)?;
        match <[Value; 1]>::try_from(values) {
            Ok([log]) if inspect::is_log(&log) => Ok(Self::Inspect(Box::new(log))),
            Ok([Value::Array(rows)]) => Ok(Self::Rows(placed(rows.into_iter()))),
            Ok([one]) => Ok(Self::Rows(vec![(1, one)])),
            Err(rows) => Ok(Self::Rows(placed(rows.into_iter()))),
        }
    }

    /// The rows, where a mapping reads them.
    pub(super) fn rows(self) -> Result<Vec<Placed>, Problem> {
        let rows = match self {
            Self::Rows(rows) if rows.is_empty() => {
                return Err(Problem::File("no rows in this file".to_owned()));
            }
            Self::Rows(rows) => rows,
            Self::Inspect(mut log) => match log["samples"].take() {
                Value::Array(samples) => placed(samples.into_iter()),
                _ => return Err(Problem::File("a log without samples".to_owned())),
            },
        };
        check_rows(rows.len())?;
        Ok(rows)
    }
}

fn placed(rows: impl Iterator<Item = Value>) -> Vec<Placed> {
    (1..).zip(rows).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_in_every_layout_gives_the_same_rows() {
        let rows = |text: &str| match Content::of(
            Path::new("f.json"),
            text.as_bytes().to_vec(),
            &mut Budget::default(),
        ) {
            Ok(Content::Rows(rows)) => rows.into_iter().map(|(_, row)| row).collect::<Vec<_>>(),
            _ => panic!("{text}"),
        };
        let wanted = [json!({"a": 1}), json!({"a": null})];
        for text in [
            "[{\"a\": 1}, {\"a\": NaN}]",
            "{\"a\": 1}\n{\"a\": null}\n",
            "{\n \"a\": 1\n}\n{\n \"a\": null\n}",
            "// made by hand\n{\"a\": 1}\n// {\"a\": 2}\n{\"a\": null}\n// end",
            "\u{feff}[{\"a\":1},{\"a\":-Infinity}]",
        ] {
            assert_eq!(rows(text), wanted, "{text}");
        }
        assert_eq!(rows("[{\"a\": NaN, \"b\": \"NaN \\\" NaN\"}]"), [json!({"a": null, "b": "NaN \" NaN"})]);
    }
}
