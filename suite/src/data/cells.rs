//! Typed access to the cells of one published row, with errors that name file, column and row.

use std::path::{Component, Path};

use serde_json::{Map, Value};

use super::DataError;
use crate::profile::Profile;

/// One published row.
#[derive(Debug, Clone, Copy)]
pub struct Cells<'a> {
    /// The file, for messages.
    pub file: &'a Path,
    /// Zero-based row.
    pub row: usize,
    /// Column name to value.
    pub value: &'a Map<String, Value>,
}

impl Cells<'_> {
    /// A value that is there and not null.
    ///
    /// # Errors
    /// The column is missing (the nearest name is suggested), or the cell is null.
    pub fn get(&self, column: &str) -> Result<&Value, DataError> {
        match self.value.get(column) {
            Some(Value::Null) => Err(self.error(column, "the cell is null".to_owned())),
            Some(value) => Ok(value),
            None => {
                let names = self.value.keys().map(String::as_str);
                let nearest = names.max_by(|a, b| {
                    strsim::jaro_winkler(a, column).total_cmp(&strsim::jaro_winkler(b, column))
                });
                let all = self.value.keys().cloned().collect::<Vec<_>>().join(", ");
                Err(DataError::Column {
                    path: self.file.to_owned(),
                    column: column.to_owned(),
                    message: format!(
                        "missing; the nearest is `{}` of: {all} (row {})",
                        nearest.unwrap_or(""),
                        self.row
                    ),
                })
            }
        }
    }

    /// A string.
    ///
    /// # Errors
    /// As [`get`](Self::get), or the cell holds another type.
    pub fn text(&self, column: &str) -> Result<&str, DataError> {
        let value = self.get(column)?;
        value.as_str().ok_or_else(|| self.wrong(column, "a string", value))
    }

    /// Text, or `None` where the cell is null.
    ///
    /// # Errors
    /// The column is missing, or the cell is neither text nor null.
    pub fn nullable_text(&self, column: &str) -> Result<Option<&str>, DataError> {
        match self.value.get(column) {
            Some(Value::Null) => Ok(None),
            _ => self.text(column).map(Some),
        }
    }

    /// Text, or `None` where the column is missing or the cell null.
    pub fn optional_text(&self, column: &str) -> Option<&str> {
        self.value.get(column).and_then(Value::as_str)
    }

    /// An integer of any width; whole floats count.
    ///
    /// # Errors
    /// As [`get`](Self::get), or the cell is not a whole number.
    pub fn integer(&self, column: &str) -> Result<i64, DataError> {
        let value = self.get(column)?;
        let whole = |number: f64| (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64);
        value
            .as_i64()
            .or_else(|| value.as_f64().and_then(whole))
            .ok_or_else(|| self.wrong(column, "an integer", value))
    }

    /// A string or an integer as a string: ids come as either.
    ///
    /// # Errors
    /// As [`get`](Self::get), or the cell is neither, or empty.
    pub fn id(&self, column: &str) -> Result<String, DataError> {
        match self.get(column)? {
            Value::String(text) if text.trim().is_empty() => {
                Err(self.error(column, "the cell is empty".to_owned()))
            }
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            other => Err(self.wrong(column, "a string or an integer", other)),
        }
    }

    /// A list of text.
    ///
    /// # Errors
    /// As [`get`](Self::get), or the cell is not a list of strings.
    pub fn texts(&self, column: &str) -> Result<Vec<String>, DataError> {
        let value = self.get(column)?;
        let items = value.as_array().ok_or_else(|| self.wrong(column, "a list of strings", value))?;
        items
            .iter()
            .map(|item| {
                item.as_str().map(str::to_owned).ok_or_else(|| self.wrong(column, "a list of strings", value))
            })
            .collect()
    }

    /// A list of numbers.
    ///
    /// # Errors
    /// As [`get`](Self::get), or the cell is not a list of numbers.
    pub fn numbers(&self, column: &str) -> Result<Vec<f64>, DataError> {
        let value = self.get(column)?;
        let items = value.as_array().ok_or_else(|| self.wrong(column, "a list of numbers", value))?;
        items
            .iter()
            .map(|item| item.as_f64().ok_or_else(|| self.wrong(column, "a list of numbers", value)))
            .collect()
    }

    /// An error about one cell of this row.
    pub fn error(&self, column: &str, message: String) -> DataError {
        DataError::Row { path: self.file.to_owned(), row: self.row, column: column.to_owned(), message }
    }

    fn wrong(&self, column: &str, wanted: &str, found: &Value) -> DataError {
        let shown = excerpt(&found.to_string());
        self.error(column, format!("expected {wanted}, found `{shown}`"))
    }

    /// Path of a file below a data folder.
    ///
    /// # Errors
    /// As [`text`](Self::text); [`DataError::OutsideData`] where the path is absolute or climbs out of
    /// the folder: what lies there is not the data set's, and would be sent to a server.
    pub fn relative_path(&self, column: &str) -> Result<&str, DataError> {
        let path = self.text(column)?;
        self.stays_inside(column, path)?;
        Ok(path)
    }

    /// [`relative_path`](Self::relative_path) for a path that a cell was turned into.
    ///
    /// # Errors
    /// The path is empty, absolute or climbs out of the folder.
    pub fn stays_inside(&self, column: &str, path: &str) -> Result<(), DataError> {
        let mut parts = Path::new(path).components().peekable();
        if parts.peek().is_none() {
            return Err(self.error(column, "the cell is empty".to_owned()));
        }
        if parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Ok(());
        }
        Err(DataError::OutsideData {
            path: self.file.to_owned(),
            row: self.row,
            column: column.to_owned(),
            value: excerpt(path),
        })
    }

    /// Options of a choice question.
    ///
    /// # Errors
    /// As [`texts`](Self::texts), or under `strict` there are none; the reference asks without any.
    pub fn options(&self, column: &str, profile: Profile) -> Result<Vec<String>, DataError> {
        let options = self.texts(column)?;
        if options.is_empty() && profile == Profile::Strict {
            return Err(self.error(column, "the row has no options".to_owned()));
        }
        Ok(options)
    }

    /// Gold answer of a choice question, with [`NO_LETTER`] added to `flags` where no answer can
    /// equal it. `release` compares it as written, blanks included, as the released driver does; the
    /// others take the blanks off.
    ///
    /// # Errors
    /// As [`text`](Self::text), or under `strict` it is none of the row's letters.
    pub fn letter(
        &self,
        column: &str,
        letters: &str,
        profile: Profile,
        flags: &mut Vec<String>,
    ) -> Result<String, DataError> {
        let published = self.text(column)?;
        let answer = if profile == Profile::Release { published } else { published.trim() };
        if answer.chars().count() == 1 && letters.contains(answer) {
            return Ok(answer.to_owned());
        }
        if profile == Profile::Strict {
            let letters = if letters.is_empty() { "none" } else { letters };
            let message = format!("the answer `{}` is not one of the letters: {letters}", excerpt(published));
            return Err(self.error(column, message));
        }
        flags.push(NO_LETTER.to_owned());
        Ok(answer.to_owned())
    }
}

/// Flag of a sample whose published gold is none of its letters.
pub const NO_LETTER: &str = "gold_is_no_letter";

/// The first characters of a value, for messages.
fn excerpt(text: &str) -> String {
    text.chars().take(EXCERPT).collect()
}

/// Characters of a value that messages show.
const EXCERPT: usize = 60;

/// The first `count` letters.
pub fn letters(count: usize) -> String {
    ('A'..='Z').take(count).collect()
}
