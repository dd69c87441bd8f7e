//! Columns that are made of others: a field of an object, a part of a text, the group that a value is in.

use std::collections::BTreeMap;

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use super::RowContext;
use crate::data::{DataError, JsonRow};

/// One column that is made of another; the steps are taken in the order of the fields.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Derived {
    /// Its name, by which `row` has it as any other column.
    name: String,
    /// The column it is made of, a published one or a derived one above it.
    column: String,
    /// Field of the object in the cell.
    field: Option<String>,
    /// Regular expression whose first group is taken of the text in the cell.
    pattern: Option<Pattern>,
    /// Values by the group that they are in; the cell becomes the group's name.
    #[serde(default)]
    groups: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let pattern = Regex::new(&text).map_err(|error| error.to_string())?;
        match pattern.captures_len() {
            2.. => Ok(Self(pattern)),
            _ => Err(format!("pattern `{text}`: expected a group in parentheses, which is what is taken")),
        }
    }
}

impl Derived {
    /// The published row with the derived columns.
    ///
    /// # Errors
    /// A column or field that is missing, a text that a pattern does not match, or a value that is in no group.
    pub(super) fn with_all(all: &[Self], cx: &RowContext<'_>) -> Result<JsonRow, DataError> {
        let mut row = cx.published.value.clone();
        for derived in all {
            let cell = derived.cell(&cx.with_row(&row))?;
            row.insert(derived.name.clone(), cell);
        }
        Ok(row)
    }

    fn cell(&self, cx: &RowContext<'_>) -> Result<Value, DataError> {
        let error = |message: String| cx.error(&self.column, message);
        let mut cell: Value = cx.published.column(&self.column)?;
        if let Some(field) = &self.field {
            cell = match cell {
                Value::Object(mut fields) => fields
                    .remove(field)
                    .ok_or_else(|| error(format!("expected an object with `{field}`, found none")))?,
                other => return Err(error(format!("expected an object with `{field}`, found `{other}`"))),
            };
        }
        if cell.is_null() || self.pattern.is_none() && self.groups.is_empty() {
            return Ok(cell);
        }
        let mut text = match cell {
            Value::String(text) => text,
            other => other.to_string(),
        };
        if let Some(Pattern(pattern)) = &self.pattern {
            let part = pattern.captures(&text).and_then(|found| Some(found.get(1)?.as_str().to_owned()));
            text = part.ok_or_else(|| error(format!("expected a text with `{pattern}`, found `{text}`")))?;
        }
        if !self.groups.is_empty() {
            let group = self.groups.iter().find(|(_, values)| values.contains(&text));
            let message = || format!("`{text}` is in none of the groups of `{}`", self.name);
            text.clone_from(group.map(|(group, _)| group).ok_or_else(|| error(message()))?);
        }
        Ok(Value::String(text))
    }
}
