//! Typed access to the cells of one published row, with errors that name file, column and row.

use std::path::Path;

use serde_json::{Map, Value};

use super::DataError;

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

    /// Text.
    ///
    /// # Errors
    /// As [`get`](Self::get), or the cell is no text.
    pub fn text(&self, column: &str) -> Result<&str, DataError> {
        let value = self.get(column)?;
        value.as_str().ok_or_else(|| self.wrong(column, "text", value))
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
    /// As [`get`](Self::get), or the cell is no integer.
    pub fn integer(&self, column: &str) -> Result<i64, DataError> {
        let value = self.get(column)?;
        let whole = |number: f64| (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64);
        value
            .as_i64()
            .or_else(|| value.as_f64().and_then(whole))
            .ok_or_else(|| self.wrong(column, "an integer", value))
    }

    /// A number.
    ///
    /// # Errors
    /// As [`get`](Self::get), or the cell is no number.
    pub fn number(&self, column: &str) -> Result<f64, DataError> {
        let value = self.get(column)?;
        value.as_f64().ok_or_else(|| self.wrong(column, "a number", value))
    }

    /// Text or an integer, as text: ids come as either.
    ///
    /// # Errors
    /// As [`get`](Self::get), or the cell is neither.
    pub fn id(&self, column: &str) -> Result<String, DataError> {
        match self.get(column)? {
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            other => Err(self.wrong(column, "text or an integer", other)),
        }
    }

    /// A list of text.
    ///
    /// # Errors
    /// As [`get`](Self::get), or the cell is no list of text.
    pub fn texts(&self, column: &str) -> Result<Vec<String>, DataError> {
        let value = self.get(column)?;
        let items = value.as_array().ok_or_else(|| self.wrong(column, "a list of text", value))?;
        items
            .iter()
            .map(|item| {
                item.as_str().map(str::to_owned).ok_or_else(|| self.wrong(column, "a list of text", value))
            })
            .collect()
    }

    /// A list of numbers.
    ///
    /// # Errors
    /// As [`get`](Self::get), or the cell is no list of numbers.
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
        let shown: String = found.to_string().chars().take(60).collect();
        self.error(column, format!("{wanted} is needed, found {shown}"))
    }

    /// Options of a choice question.
    ///
    /// # Errors
    /// There are none: such a row makes no question.
    pub fn options(&self, column: &str) -> Result<Vec<String>, DataError> {
        let options = self.texts(column)?;
        if options.is_empty() {
            return Err(self.error(column, "the row has no options".to_owned()));
        }
        Ok(options)
    }

    /// Gold that must be one of the row's letters.
    ///
    /// # Errors
    /// It is none of them.
    pub fn letter(&self, column: &str, letters: &str) -> Result<String, DataError> {
        let answer = self.text(column)?.trim();
        if answer.chars().count() == 1 && letters.contains(answer) {
            return Ok(answer.to_owned());
        }
        Err(self.error(column, format!("the answer `{answer}` is none of the letters {letters}")))
    }

    /// As [`letter`](Self::letter); `as_written` keeps blanks around it, with which the reference's
    /// driver compares it.
    ///
    /// # Errors
    /// As there.
    pub fn gold(&self, column: &str, letters: &str, as_written: bool) -> Result<String, DataError> {
        let letter = self.letter(column, letters)?;
        if as_written { self.text(column).map(str::to_owned) } else { Ok(letter) }
    }
}

/// The first `count` letters.
pub fn letters(count: usize) -> String {
    ('A'..='Z').take(count).collect()
}
