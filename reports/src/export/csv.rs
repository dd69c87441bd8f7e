//! Comma-separated values, RFC 4180, safe to open in a spreadsheet.
//!
//! Spreadsheets run a cell that starts with `=`, `+`, `-`, `@`, a tab or a line break as a formula, quoted
//! or not, and labels and names come from data sets and servers. Such texts get an apostrophe in front,
//! which spreadsheets take as "this is text" (OWASP, CSV injection). Numbers are written as they are, and
//! so is a text that is a plain number, e.g. `-5`.

use paravt_suite::printable::printable;

use super::Failure;
use crate::frame::Datum;
use crate::table::Table;

/// CSV with every digit.
pub(super) fn write(table: &Table, file: &mut Vec<u8>) -> Result<(), Failure> {
    let mut writer = ::csv::Writer::from_writer(file);
    writer.write_record(table.headings.iter().map(|heading| as_text(heading.name)))?;
    for row in table.rows() {
        writer.write_record(row.iter().map(field))?;
    }
    Ok(writer.flush()?)
}

fn field(datum: &Datum) -> String {
    match datum {
        Datum::Missing => String::new(),
        Datum::Text(text) => as_text(text),
        Datum::Count(count) => count.to_string(),
        Datum::Real(value) => value.to_string(),
        Datum::Flag(flag) => flag.to_string(),
    }
}

/// The text, marked as text where a spreadsheet would take it as a formula.
fn as_text(text: &str) -> String {
    let shown = printable(text);
    // Spreadsheets skip spaces before a formula, and take full-width signs as signs.
    let starts_formula = shown
        .trim_start_matches(' ')
        .starts_with(['=', '+', '-', '@', '\t', '\n', '\r', '＝', '＋', '－', '＠']);
    let is_number = shown.parse::<f64>().is_ok_and(f64::is_finite);
    if starts_formula && !is_number { format!("'{shown}") } else { shown.into_owned() }
}

#[cfg(test)]
mod tests {
    use super::as_text;

    #[test]
    fn formulas_become_text_and_numbers_stay_numbers() {
        for formula in
            ["=cmd|' /C calc'!A0", "+1+2", "-2+3", "@SUM(A1)", "\t=1", " =1", "＝1", "-inf", "+", "\n=1"]
        {
            assert_eq!(as_text(formula), format!("'{formula}"));
        }
        for plain in ["-5", "+0.25", "1e-3", "short", "a=b", "", "videos/x.mp4"] {
            assert_eq!(as_text(plain), plain);
        }
        assert_eq!(as_text("\u{1b}[2J"), "⟨U+001B⟩[2J");
    }
}
