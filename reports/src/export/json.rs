//! JSON: a list of objects.

use serde_json::{Map, Value};

use super::Failure;
use crate::frame::Datum;
use crate::table::Table;

/// JSON with every digit; what is missing is `null`.
pub(super) fn write(table: &Table, file: &mut Vec<u8>) -> Result<(), Failure> {
    let object = |row: Vec<Datum>| -> Map<String, Value> {
        let names = table.headings.iter().map(|heading| heading.name.to_owned());
        names.zip(row.into_iter().map(value)).collect()
    };
    let rows: Vec<Map<String, Value>> = table.rows().into_iter().map(object).collect();
    serde_json::to_writer_pretty(&mut *file, &rows)?;
    file.push(b'\n');
    Ok(())
}

fn value(datum: Datum) -> Value {
    match datum {
        Datum::Missing => Value::Null,
        Datum::Text(text) => text.into(),
        Datum::Count(count) => count.into(),
        Datum::Real(value) => value.into(),
        Datum::Flag(flag) => flag.into(),
    }
}
