//! JSON: a list of objects, or an object on each line. Which of the two, the first sign says and not the file's name.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use super::limits::{Budget, JsonRow, Problem, Table};

/// Adds the rows of a text.
pub(super) fn read(text: &str, table: &mut Table) -> Result<(), Problem> {
    if text.trim_start().starts_with('[') { list(text, table) } else { lines(text, table) }
}

fn list(text: &str, table: &mut Table) -> Result<(), Problem> {
    let mut refused = None;
    let mut json = serde_json::Deserializer::from_str(text);
    let read = (&mut json).deserialize_seq(List { table, refused: &mut refused });
    read.and_then(|()| json.end()).map_err(|error| {
        let hint = hint(text, &error);
        refused.unwrap_or_else(|| Problem::Format(format!("expected a JSON array of objects: {error}{hint}")))
    })
}

fn lines(text: &str, table: &mut Table) -> Result<(), Problem> {
    for (line, json) in (1..).zip(text.split('\n')).filter(|(_, json)| !json.trim().is_empty()) {
        let mut refused = None;
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let row = Row { budget: &mut table.budget, refused: &mut refused }.deserialize(&mut deserializer);
        let row = row.and_then(|row| deserializer.end().map(|()| row)).map_err(|error| {
            refused.or_else(|| one_object(text)).unwrap_or_else(|| {
                let (message, column, hint) = (error.to_string(), error.column(), hint(json, &error));
                let message = message.split(" at line ").next().unwrap_or_default();
                Problem::Format(format!(
                    "line {line}, column {column}: expected a JSON object on each line: {message}{hint}"
                ))
            })
        })?;
        table.push(row, Some(line))?;
    }
    Ok(())
}

/// What to do about a number that JSON has no word for; empty for another error.
fn hint(text: &str, error: &serde_json::Error) -> &'static str {
    let line = text.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    match line.get(error.column().saturating_sub(1)..) {
        Some(rest) if rest.starts_with("NaN") || rest.starts_with("Infinity") => {
            "; JSON has no NaN and no Infinity, write null"
        }
        _ => "",
    }
}

/// The value of a text that is a JSON list or object; `None` for any other text.
pub(super) fn list_or_object(text: &str, budget: &mut Budget) -> Result<Option<Value>, Problem> {
    if !text.starts_with(['[', '{']) {
        return Ok(None);
    }
    let mut refused = None;
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Cell { budget, refused: &mut refused }.deserialize(&mut json);
    match (value.and_then(|value| json.end().map(|()| value)), refused) {
        (Ok(value), _) => Ok(Some(value)),
        (Err(_), Some(problem)) => Err(problem),
        (Err(_), None) => Ok(None),
    }
}

/// A JSON value whose objects have each field once. The caller has counted its bytes.
///
/// # Errors
/// Not one JSON value, or an object that has a field twice.
pub fn parse_json(text: &str) -> serde_json::Result<Value> {
    let (mut budget, mut refused) = (Budget::without_end(), None);
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Cell { budget: &mut budget, refused: &mut refused }.deserialize(&mut json)?;
    json.end().map(|()| value)
}

/// What to say of a text that is one object over several lines.
fn one_object(text: &str) -> Option<Problem> {
    let object: BTreeMap<String, IgnoredAny> = serde_json::from_str(text).ok()?;
    let keys: Vec<&str> = object.keys().map(String::as_str).take(5).collect();
    Some(Problem::Format(format!(
        "one JSON object with `{}`; expected a list of objects, or an object on each line: write the list of rows \
         alone",
        keys.join("`, `")
    )))
}

/// The rows of a list. What the limits refuse is kept beside the error, which has room for a text alone.
struct List<'a> {
    table: &'a mut Table,
    refused: &'a mut Option<Problem>,
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        let Self { table, refused } = self;
        while let Some(row) = rows.next_element_seed(Row { budget: &mut table.budget, refused })? {
            table.push(row, None).map_err(|problem| kept(problem, refused))?;
        }
        Ok(())
    }
}

fn kept<E: serde::de::Error>(problem: Problem, refused: &mut Option<Problem>) -> E {
    *refused = Some(problem);
    E::custom("beyond the limits")
}

/// One object, counted while it is read.
struct Row<'a> {
    budget: &'a mut Budget,
    refused: &'a mut Option<Problem>,
}

impl<'de> DeserializeSeed<'de> for Row<'_> {
    type Value = JsonRow;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<JsonRow, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Row<'_> {
    type Value = JsonRow;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<JsonRow, A::Error> {
        let Self { budget, refused } = self;
        let mut row = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            budget.take(name.len()).map_err(|problem| kept(problem, refused))?;
            let value = fields.next_value_seed(Cell { budget, refused })?;
            match row.entry(name) {
                Entry::Vacant(new) => new.insert(value),
                Entry::Occupied(first) => {
                    let message = format_args!("two fields have the name `{}`; rename one", first.key());
                    return Err(serde::de::Error::custom(message));
                }
            };
        }
        Ok(row)
    }
}

/// Any value, counted while it is read.
struct Cell<'a> {
    budget: &'a mut Budget,
    refused: &'a mut Option<Problem>,
}

impl Cell<'_> {
    fn counted<E: serde::de::Error>(self, value: impl Into<Value>) -> Result<Value, E> {
        self.budget.take(0).map_err(|problem| kept(problem, self.refused))?;
        Ok(value.into())
    }
}

impl<'de> DeserializeSeed<'de> for Cell<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Cell<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        self.counted(Value::Null)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Value, E> {
        self.counted(value)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        self.counted(value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        self.counted(value)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        self.counted(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.budget.text(value).map_err(|problem| kept(problem, self.refused))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let Self { budget, refused } = self;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Cell { budget, refused })? {
            list.push(item);
        }
        budget.take(0).map_err(|problem| kept(problem, refused))?;
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Value, A::Error> {
        Row { budget: self.budget, refused: self.refused }.visit_map(fields).map(Value::Object)
    }
}
