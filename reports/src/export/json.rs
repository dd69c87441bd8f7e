//! JSON: a list of objects.

use serde_json::{Map, Value};

use super::{Export, ExportError};
use crate::table::{Datum, Table};

/// JSON with every digit; what is missing is `null`.
pub struct JsonRows;

impl Export for JsonRows {
    fn ending(&self) -> &'static str {
        "json"
    }

    fn write(&self, table: &Table) -> Result<Vec<u8>, ExportError> {
        let object = |row: Vec<Datum>| -> Map<String, Value> {
            let names = table.headings.iter().map(|heading| heading.name.to_owned());
            names.zip(row.into_iter().map(value)).collect()
        };
        let rows: Vec<Map<String, Value>> = table.rows().into_iter().map(object).collect();
        let failed = |error: serde_json::Error| ExportError::Format {
            table: table.name,
            format: "JSON",
            message: error.to_string(),
        };
        let mut bytes = serde_json::to_vec_pretty(&rows).map_err(failed)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

fn value(datum: Datum) -> Value {
    match datum {
        Datum::Missing => Value::Null,
        Datum::Text(text) => text.into(),
        Datum::Count(count) => count.into(),
        Datum::Real(value) => value.into(),
    }
}
