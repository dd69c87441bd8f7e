//! Comma-separated values, RFC 4180.

use super::{Export, ExportError};
use crate::table::{Datum, Table};

/// CSV with every digit.
pub struct Csv;

impl Export for Csv {
    fn ending(&self) -> &'static str {
        "csv"
    }

    fn write(&self, table: &Table) -> Result<Vec<u8>, ExportError> {
        let failed = |message: String| ExportError::Format { table: table.name, format: "CSV", message };
        let mut writer = ::csv::Writer::from_writer(Vec::new());
        writer
            .write_record(table.headings.iter().map(|heading| heading.name))
            .map_err(|error| failed(error.to_string()))?;
        for row in table.rows() {
            writer.write_record(row.iter().map(field)).map_err(|error| failed(error.to_string()))?;
        }
        writer.into_inner().map_err(|error| failed(error.to_string()))
    }
}

fn field(datum: &Datum) -> String {
    match datum {
        Datum::Missing => String::new(),
        Datum::Text(text) => text.clone(),
        Datum::Count(count) => count.to_string(),
        Datum::Real(value) => value.to_string(),
    }
}
