//! A table: an Arrow record batch and how its columns are shown.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{Array as _, ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::ArrowError;

/// Kind of a column's values, which decides their format. Machine-readable forms keep every digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Words.
    Text,
    /// Whole number.
    Count,
    /// Percent, one decimal.
    Percent,
    /// Difference in percentage points, signed, one decimal.
    Points,
    /// p-value, three decimals.
    Probability,
    /// A mean of counts that needs no decimals, e.g. tokens.
    Whole,
    /// Anything else, two decimals.
    Number,
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// Name in machine-readable forms, unit included.
    pub name: &'static str,
    /// Title of the column where it is shown.
    pub title: &'static str,
    /// Format.
    pub kind: Kind,
}

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Datum {
    /// Nothing there.
    Missing,
    /// Words.
    Text(String),
    /// Whole number.
    Count(u64),
    /// Any other number.
    Real(f64),
}

/// A column and its values.
pub struct Filled {
    heading: Heading,
    values: ArrayRef,
}

/// A column of words.
pub fn text(name: &'static str, title: &'static str, values: Vec<Option<String>>) -> Filled {
    let values = Arc::new(StringArray::from(values));
    Filled { heading: Heading { name, title, kind: Kind::Text }, values }
}

/// A column of whole numbers.
pub fn count(name: &'static str, title: &'static str, values: Vec<Option<u64>>) -> Filled {
    let values = Arc::new(UInt64Array::from(values));
    Filled { heading: Heading { name, title, kind: Kind::Count }, values }
}

/// A column of other numbers.
pub fn real(name: &'static str, title: &'static str, kind: Kind, values: Vec<Option<f64>>) -> Filled {
    let values = Arc::new(Float64Array::from(values));
    Filled { heading: Heading { name, title, kind }, values }
}

/// A table.
#[derive(Debug, Clone)]
pub struct Table {
    /// File name without ending.
    pub name: &'static str,
    /// Title.
    pub title: String,
    /// Columns.
    pub headings: Vec<Heading>,
    /// Values: column names are those of the headings, every column is nullable.
    pub batch: RecordBatch,
}

impl Table {
    /// A table of columns.
    ///
    /// # Errors
    /// Columns of unequal length.
    pub fn new(
        name: &'static str,
        title: impl Into<String>,
        columns: Vec<Filled>,
    ) -> Result<Self, ArrowError> {
        let values = columns.iter().map(|column| (column.heading.name, column.values.clone(), true));
        let batch = RecordBatch::try_from_iter_with_nullable(values)?;
        let headings = columns.into_iter().map(|column| column.heading).collect();
        Ok(Self { name, title: title.into(), headings, batch })
    }

    /// The cells, row by row.
    pub fn rows(&self) -> Vec<Vec<Datum>> {
        let row = |row| self.batch.columns().iter().map(|column| datum(column, row)).collect();
        (0..self.batch.num_rows()).map(row).collect()
    }

    /// The cells rounded and formatted as they are shown, row by row.
    pub fn shown(&self) -> Vec<Vec<String>> {
        let show = |row: Vec<Datum>| {
            row.iter().zip(&self.headings).map(|(datum, heading)| heading.kind.show(datum)).collect()
        };
        self.rows().into_iter().map(show).collect()
    }
}

/// Rounded to tenths, without a negative zero.
pub(crate) fn tenths(value: f64) -> f64 {
    (10.0 * value).round() / 10.0 + 0.0
}

fn datum(column: &ArrayRef, row: usize) -> Datum {
    if column.is_null(row) {
        Datum::Missing
    } else if let Some(texts) = column.as_string_opt::<i32>() {
        Datum::Text(texts.value(row).to_owned())
    } else if let Some(counts) = column.as_primitive_opt::<UInt64Type>() {
        Datum::Count(counts.value(row))
    } else {
        Datum::Real(column.as_primitive::<Float64Type>().value(row))
    }
}

impl Kind {
    /// A cell as it is shown: rounded; empty for a missing one.
    pub fn show(self, datum: &Datum) -> String {
        match (self, datum) {
            (_, Datum::Missing) => String::new(),
            (_, Datum::Text(text)) => text.clone(),
            (_, Datum::Count(count)) => count.to_string(),
            (Self::Percent, Datum::Real(value)) => format!("{:.1}", tenths(*value)),
            (Self::Points, Datum::Real(value)) => format!("{:+.1}", tenths(*value)),
            (Self::Whole, Datum::Real(value)) => format!("{:.0}", value.round() + 0.0),
            (Self::Probability, Datum::Real(value)) if *value < 0.001 => "<0.001".to_owned(),
            (Self::Probability, Datum::Real(value)) => format!("{value:.3}"),
            (_, Datum::Real(value)) => format!("{value:.2}"),
        }
    }

    /// A number as it is shown.
    pub fn number(self, value: f64) -> String {
        self.show(&Datum::Real(value))
    }

    /// An interval as it is shown everywhere: `71.2 to 100.0`, `-3.1 to +0.4`.
    pub fn interval(self, (low, high): (f64, f64)) -> String {
        format!("{} to {}", self.number(low), self.number(high))
    }

    /// Whether cells are set flush right.
    pub fn is_number(self) -> bool {
        self != Self::Text
    }
}
