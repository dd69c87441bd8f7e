//! One published row read into a struct whose fields are the published columns; errors name file, row
//! and column.

use std::fmt::Display;
use std::path::{Component, Path};

use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{self, DeserializeOwned, DeserializeSeed, Expected, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use serde_json::{Map, Value};

use super::DataError;
use crate::nearest::nearest;

/// Place of a row in its file. Shown as `row 3`, with the line of a file that has lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowAt {
    /// Zero-based row.
    pub row: usize,
    /// One-based line on which it begins; `None` for parquet and for lists of JSON.
    pub line: Option<usize>,
}

impl From<usize> for RowAt {
    fn from(row: usize) -> Self {
        Self { row, line: None }
    }
}

impl Display for RowAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "row {}", self.row)?;
        self.line.map_or(Ok(()), |line| write!(f, " (line {line})"))
    }
}

/// One row of a published file.
///
/// ```
/// use paravt_suite::data::{Id, PublishedRow};
///
/// #[derive(serde::Deserialize)]
/// struct Row {
///     uid: Id,
///     question: String,
///     time_reference: Option<String>,
/// }
///
/// let value = serde_json::json!({"uid": 17, "question": "Who?"});
/// let row = PublishedRow { file: "rows.parquet".as_ref(), row: 3.into(), value: value.as_object().unwrap() };
/// let read: Row = row.read().unwrap();
/// assert_eq!((&*read.uid.0, &*read.question, read.time_reference), ("17", "Who?", None));
/// let error = row.column::<String>("uid").unwrap_err();
/// assert_eq!(error.to_string(), "rows.parquet: row 3, column `uid`: expected a string, found `17`");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct PublishedRow<'a> {
    pub file: &'a Path,
    pub row: RowAt,
    /// Column name to value.
    pub value: &'a Map<String, Value>,
}

impl PublishedRow<'_> {
    /// The row as a struct. Columns that the struct does not name are ignored; an `Option` field is `None`
    /// where the column is missing or the cell null.
    ///
    /// # Errors
    /// [`DataError::Column`] for a missing column (the nearest name is suggested), [`DataError::Row`] for a
    /// null or a value of another type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, DataError> {
        T::deserialize(Columns(self.value)).map_err(|error| self.located(error))
    }

    /// One cell.
    pub fn column<T: DeserializeOwned>(&self, column: &str) -> Result<T, DataError> {
        let value = self.value.get(column).ok_or_else(|| self.missing(column))?;
        T::deserialize(Cell(value)).map_err(|error| self.located(error.in_column(column)))
    }

    /// The value of a column that must be there: for cells that are null in some rows by design.
    ///
    /// # Errors
    /// The column is missing, or the cell is null.
    pub fn required<T>(&self, column: &str, value: Option<T>) -> Result<T, DataError> {
        value.ok_or_else(|| match self.value.contains_key(column) {
            true => self.error(column, NULL),
            false => self.missing(column),
        })
    }

    /// An error about one cell of this row.
    pub fn error(&self, column: &str, message: impl Into<String>) -> DataError {
        let (path, column) = (self.file.to_owned(), column.to_owned());
        DataError::Row { path, row: self.row, column, message: message.into() }
    }

    /// Checks that a path stays below the folder it will be joined to: what lies outside is not the
    /// data set's, and would be sent to a server.
    ///
    /// # Errors
    /// [`DataError::OutsideData`] for an absolute path or one that climbs out, [`DataError::Row`] for an
    /// empty one.
    pub fn stays_inside(&self, column: &str, path: &str) -> Result<(), DataError> {
        let mut parts = Path::new(path).components().peekable();
        if parts.peek().is_none() {
            return Err(self.error(column, EMPTY));
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

    fn missing(&self, column: &str) -> DataError {
        let nearest = nearest(column, self.value.keys().map(String::as_str));
        let nearest =
            nearest.map(|name| format!("; the nearest is `{name}` of")).unwrap_or("; there are".to_owned());
        let all = self.value.keys().cloned().collect::<Vec<_>>().join(", ");
        DataError::Column {
            path: self.file.to_owned(),
            column: column.to_owned(),
            message: format!("missing{nearest}: {all} ({})", self.row),
        }
    }

    fn located(&self, error: CellError) -> DataError {
        let column = error.column.unwrap_or_default();
        match (error.problem, self.value.get(&column)) {
            (Problem::Missing, _) => self.missing(&column),
            (Problem::Expected(_), Some(Value::Null)) => self.error(&column, NULL),
            (Problem::Expected(expected), found) => {
                let found = found.map(ToString::to_string).unwrap_or_default();
                self.error(&column, format!("expected {expected}, found `{}`", excerpt(&found)))
            }
            (Problem::Other(message), _) => self.error(&column, message),
        }
    }
}

/// Message of a null where a value belongs.
const NULL: &str = "the cell is null";
/// Message of an empty id or path.
const EMPTY: &str = "the cell is empty";

/// An id: published as a string or as a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Id(pub String);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) if text.trim().is_empty() => Err(de::Error::custom(EMPTY)),
            Value::String(text) => Ok(Self(text)),
            Value::Number(number) => Ok(Self(number.to_string())),
            _ => Err(de::Error::invalid_type(de::Unexpected::Other("value"), &"a string or an integer")),
        }
    }
}

/// For `#[serde(deserialize_with = "nullable")]`: the cell may be null, the column must be there.
pub fn nullable<'de, T: Deserialize<'de>, D: Deserializer<'de>>(cell: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(cell)
}

/// Characters of a value that messages show.
const EXCERPT: usize = 60;

/// The first characters of a value, for messages.
pub(crate) fn excerpt(text: &str) -> String {
    text.chars().take(EXCERPT).collect()
}

/// Why a cell does not become the field's type.
#[derive(Debug)]
struct CellError {
    column: Option<String>,
    problem: Problem,
}

#[derive(Debug)]
enum Problem {
    Missing,
    /// Another type; the noun of the wanted one.
    Expected(String),
    Other(String),
}

impl CellError {
    fn in_column(self, column: &str) -> Self {
        Self { column: Some(column.to_owned()), ..self }
    }

    fn expected(wanted: &dyn Expected) -> Self {
        let noun = match wanted.to_string().as_str() {
            "f32" | "f64" => "a number".to_owned(),
            "i64" | "u64" | "usize" => "an integer".to_owned(),
            "a sequence" => "a list".to_owned(),
            "a map" => "an object".to_owned(),
            other => other.to_owned(),
        };
        Self { column: None, problem: Problem::Expected(noun) }
    }

    /// The same of an element: what the whole cell should be.
    fn of_list(mut self) -> Self {
        if let Problem::Expected(noun) = &mut self.problem {
            let singular = noun.trim_start_matches("an ").trim_start_matches("a ");
            *noun = format!("a list of {singular}s");
        }
        self
    }
}

impl Display for CellError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.problem {
            Problem::Missing => f.write_str("missing"),
            Problem::Expected(noun) => write!(f, "expected {noun}"),
            Problem::Other(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for CellError {}

impl de::Error for CellError {
    fn custom<T: Display>(message: T) -> Self {
        Self { column: None, problem: Problem::Other(message.to_string()) }
    }

    fn invalid_type(_: de::Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::expected(wanted)
    }

    fn invalid_value(_: de::Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::expected(wanted)
    }

    fn missing_field(field: &'static str) -> Self {
        Self { column: Some(field.to_owned()), problem: Problem::Missing }
    }
}

/// A row as the deserializer of a struct.
struct Columns<'de>(&'de Map<String, Value>);

impl<'de> Deserializer<'de> for Columns<'de> {
    type Error = CellError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CellError> {
        visitor.visit_map(MapDeserializer::new(self.0.iter().map(|(name, value)| (&**name, Cell(value)))))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, CellError> {
        let present = fields.iter().rev().filter_map(|name| Some((*name, self.0.get(*name)?))).collect();
        visitor.visit_map(Fields { left: present, column: "", value: &Value::Null })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The columns of a struct that the row has, the next one last; errors get the column's name.
struct Fields<'de> {
    left: Vec<(&'static str, &'de Value)>,
    column: &'static str,
    value: &'de Value,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = CellError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, CellError> {
        let Some((column, value)) = self.left.pop() else { return Ok(None) };
        (self.column, self.value) = (column, value);
        let name: StrDeserializer<'_, CellError> = column.into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, CellError> {
        seed.deserialize(Cell(self.value)).map_err(|error| error.in_column(self.column))
    }
}

/// One cell, or a value inside of one.
struct Cell<'de>(&'de Value);

impl<'de> IntoDeserializer<'de, CellError> for Cell<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Cell<'de> {
    type Error = CellError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CellError> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(value), ..) => visitor.visit_u64(value),
                (_, Some(value), _) => visitor.visit_i64(value),
                (.., value) => visitor.visit_f64(value.unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => {
                visitor.visit_seq(SeqDeserializer::new(items.iter().map(Cell))).map_err(CellError::of_list)
            }
            Value::Object(fields) => Columns(fields).deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CellError> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    /// Whole floats count as integers: writers differ.
    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CellError> {
        match self.0.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9e15) {
            Some(whole) => visitor.visit_i64(whole as i64),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, CellError> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
