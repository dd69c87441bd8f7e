//! A table: a polars frame and how its columns are shown to people.

use polars::prelude::*;

/// What a column holds, and so how it is shown. Machine-readable forms keep every digit.
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
    /// Anything else, two decimals.
    Number,
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// Name in machine-readable forms, unit included.
    pub name: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// How it is shown.
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
    values: polars::prelude::Column,
}

/// A column of words.
pub fn text(name: &'static str, title: &'static str, values: Vec<Option<String>>) -> Filled {
    let values = polars::prelude::Column::new(name.into(), values);
    Filled { heading: Heading { name, title, kind: Kind::Text }, values }
}

/// A column of whole numbers.
pub fn count(name: &'static str, title: &'static str, values: Vec<Option<u64>>) -> Filled {
    let values = polars::prelude::Column::new(name.into(), values);
    Filled { heading: Heading { name, title, kind: Kind::Count }, values }
}

/// A column of other numbers.
pub fn real(name: &'static str, title: &'static str, kind: Kind, values: Vec<Option<f64>>) -> Filled {
    let values = polars::prelude::Column::new(name.into(), values);
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
    /// Values; column names are those of the headings.
    pub frame: DataFrame,
}

impl Table {
    /// A table of columns.
    ///
    /// # Errors
    /// Columns of unequal length.
    pub fn new(name: &'static str, title: impl Into<String>, columns: Vec<Filled>) -> PolarsResult<Self> {
        let (headings, columns) = columns.into_iter().map(|filled| (filled.heading, filled.values)).unzip();
        Ok(Self { name, title: title.into(), headings, frame: DataFrame::new_infer_height(columns)? })
    }

    /// The cells, row by row.
    pub fn rows(&self) -> Vec<Vec<Datum>> {
        let columns: Vec<_> =
            self.frame.columns().iter().map(polars::prelude::Column::as_materialized_series).collect();
        (0..self.frame.height())
            .map(|row| columns.iter().map(|column| datum(column, row)).collect())
            .collect()
    }

    /// The cells as people see them, row by row.
    pub fn shown(&self) -> Vec<Vec<String>> {
        let show = |row: Vec<Datum>| {
            row.iter().zip(&self.headings).map(|(datum, heading)| heading.kind.show(datum)).collect()
        };
        self.rows().into_iter().map(show).collect()
    }
}

fn datum(column: &Series, row: usize) -> Datum {
    match column.get(row) {
        Ok(AnyValue::String(text)) => Datum::Text(text.to_owned()),
        Ok(AnyValue::StringOwned(text)) => Datum::Text(text.to_string()),
        Ok(AnyValue::UInt64(count)) => Datum::Count(count),
        Ok(AnyValue::Float64(value)) => Datum::Real(value),
        _ => Datum::Missing,
    }
}

impl Kind {
    /// A cell for people; nothing for a missing one.
    pub fn show(self, datum: &Datum) -> String {
        match (self, datum) {
            (_, Datum::Missing) => String::new(),
            (_, Datum::Text(text)) => text.clone(),
            (_, Datum::Count(count)) => count.to_string(),
            (Self::Percent, Datum::Real(value)) => format!("{value:.1}"),
            (Self::Points, Datum::Real(value)) => format!("{value:+.1}"),
            (Self::Probability, Datum::Real(value)) if *value < 0.001 => "<0.001".to_owned(),
            (Self::Probability, Datum::Real(value)) => format!("{value:.3}"),
            (_, Datum::Real(value)) => format!("{value:.2}"),
        }
    }

    /// Whether cells are set flush right.
    pub fn is_number(self) -> bool {
        self != Self::Text
    }
}
