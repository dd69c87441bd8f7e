//! A row on its way to a sample.

use std::path::PathBuf;

use serde_json::Value;

use super::KeptQuirks;
use crate::data::{DataError, JsonRow, PublishedRow, excerpt};
use crate::profile::Profile;
use crate::sample::{Gold, Question, Sample};

/// Flag of a sample whose published gold is none of its letters.
pub const NO_LETTER: &str = "gold_is_no_letter";

/// One row and what it is read under.
#[derive(Debug, Clone, Copy)]
pub struct RowContext<'a> {
    /// Name of the split.
    pub task: &'a str,
    /// Zero-based row of the split, over all of its files.
    pub number: usize,
    pub profile: Profile,
    /// The quirks of the benchmark that the profile keeps.
    pub quirks: KeptQuirks<'a>,
    pub published: PublishedRow<'a>,
}

impl RowContext<'_> {
    /// A sample of this row with nothing else in it. `video` is relative to the folder of the videos.
    pub fn sample(&self, uid: String, video: PathBuf, question: Question, gold: Gold) -> Sample {
        Sample::new(self.task, uid, self.number, video, question, gold)
    }

    /// The same with other cells in its row.
    pub(super) fn with_row<'b>(&'b self, value: &'b JsonRow) -> RowContext<'b> {
        RowContext { published: PublishedRow { value, ..self.published }, ..*self }
    }

    pub(super) fn text(&self, column: &str) -> Result<String, DataError> {
        match self.published.column::<Value>(column)? {
            Value::String(text) => Ok(text),
            value @ (Value::Number(_) | Value::Bool(_)) => Ok(value.to_string()),
            Value::Null => Err(self.error(column, "the cell is null")),
            _ => Err(self.error(column, "expected a text or a number, found a list or an object")),
        }
    }

    /// An error about one cell of the row.
    pub fn error(&self, column: &str, message: impl Into<String>) -> DataError {
        self.published.error(column, message)
    }

    /// A published path, relative to a data folder.
    pub fn path(&self, column: &str, path: &str) -> Result<PathBuf, DataError> {
        self.published.stays_inside(column, path)?;
        Ok(PathBuf::from(path))
    }

    /// Under `strict`, refuses a choice question without options; the reference asks it.
    ///
    /// # Errors
    /// The profile is `strict` and `options` is empty.
    pub fn need_options(&self, column: &str, options: &str) -> Result<(), DataError> {
        if options.is_empty() && self.profile == Profile::Strict {
            return Err(self.error(column, "the row has no options"));
        }
        Ok(())
    }

    /// Gold answer of a choice question, with [`NO_LETTER`] added to `flags` where no answer can
    /// equal it. `release` compares it as written, blanks included, as the released driver does; the
    /// others take the blanks off.
    ///
    /// # Errors
    /// Under `strict`, it is none of the row's letters.
    pub fn letter(
        &self,
        column: &str,
        published: &str,
        letters: &str,
        flags: &mut Vec<String>,
    ) -> Result<String, DataError> {
        let answer = if self.profile == Profile::Release { published } else { published.trim() };
        if answer.chars().count() == 1 && letters.contains(answer) {
            return Ok(answer.to_owned());
        }
        if self.profile == Profile::Strict {
            let letters = if letters.is_empty() { "none" } else { letters };
            let message = format!("the answer `{}` is not one of the letters: {letters}", excerpt(published));
            return Err(self.error(column, message));
        }
        flags.push(NO_LETTER.to_owned());
        Ok(answer.to_owned())
    }
}

/// The first `count` letters.
pub fn letters(count: usize) -> String {
    ('A'..='Z').take(count).collect()
}
