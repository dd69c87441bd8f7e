//! The first sheet of an `.xlsx` workbook as rows, read by calamine.
//!
//! Its stream of cells takes no more memory than the cells. What it does before is bounded here: members are inflated
//! within the budget, and those that would make it allocate without a bound are refused.

use std::io::{Cursor, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

use calamine::{DataRef, ExcelDateTime, Reader as _, SheetType, Xlsx};
use serde_json::Value;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::budget::Budget;
use super::error::Problem;
use super::members::Members;
use super::values::{Header, Placed, text};

/// Bytes of the styles that are read: calamine copies the font of each format of a cell.
const MAX_STYLES: usize = 128 << 10;

/// Rows below the header, the first row with a cell, which names the columns; an empty cell is null.
pub(super) fn rows(bytes: Vec<u8>, budget: &mut Budget) -> Result<Vec<Placed>, Problem> {
    let workbook = fence(bytes, budget)?;
    // Places beyond the largest sheet, among others, make it panic in some builds.
    let cells = catch_unwind(AssertUnwindSafe(|| cells(workbook, budget)));
    let mut cells = cells.unwrap_or_else(|_| Err(problem("the reader of workbooks panicked")))?;
    // A file may have its rows in any order, and a cell twice: the last one counts, as in spreadsheet programs.
    cells.reverse();
    cells.sort_by_key(|cell| cell.0);
    cells.dedup_by_key(|cell| cell.0);
    let mut cells = cells.into_iter().map(|((row, column), value)| (row, (column, value))).peekable();
    let mut row = || {
        let (number, first) = cells.next()?;
        let rest = std::iter::from_fn(|| cells.next_if(|cell| cell.0 == number)).map(|cell| cell.1);
        Some((number, std::iter::once(first).chain(rest).collect::<Vec<_>>()))
    };
    let (_, header) = row().ok_or_else(|| Problem::File("an empty sheet".to_owned()))?;
    let header = header.into_iter().map(|(column, name)| (column, text(&name).unwrap_or_default()));
    let header = Header::new(header)?;
    std::iter::from_fn(row)
        .map(|(number, cells)| Ok((number as usize + 1, header.row(cells.into_iter(), budget)?)))
        .collect()
}

fn problem(error: impl std::fmt::Display) -> Problem {
    Problem::File(format!("a damaged workbook: {error}"))
}

/// The XML members of a workbook as an archive of its own.
fn fence(bytes: Vec<u8>, budget: &mut Budget) -> Result<Vec<u8>, Problem> {
    let mut members = Members::open(bytes)?;
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for name in [members.names("", ".xml"), members.names("", ".rels")].concat() {
        let Some(xml) = members.read(&name, budget)? else { continue };
        check(&name, &xml)?;
        archive.start_file(name, stored).map_err(problem)?;
        archive.write_all(&xml).map_err(problem)?;
    }
    Ok(archive.finish().map_err(problem)?.into_inner())
}

fn check(name: &str, xml: &[u8]) -> Result<(), Problem> {
    let refuse = |message: String| Err(Problem::File(format!("{name}: {message}; save the sheet as CSV")));
    // UTF-16 would hide the next.
    let Some(xml) = std::str::from_utf8(xml).ok().filter(|xml| !xml.contains('\0')) else {
        return refuse("not UTF-8".to_owned());
    };
    // Room is made for as many strings as this attribute says, before one is read.
    for count in xml.split("uniqueCount").skip(1) {
        let digits = count.trim_start_matches(|c: char| !c.is_ascii_digit() && !c.is_alphabetic());
        let digits = &digits[..digits.len() - digits.trim_start_matches(|c: char| c.is_ascii_digit()).len()];
        if !digits.is_empty() && digits.parse().map_or(true, |count: usize| count > xml.len()) {
            return refuse(format!("{digits} strings in {} bytes", xml.len()));
        }
    }
    if name.to_ascii_lowercase().ends_with("styles.xml") && xml.len() > MAX_STYLES {
        return refuse(format!("{} bytes, at most {MAX_STYLES} are read", xml.len()));
    }
    Ok(())
}

/// A cell that is not empty, by row and column from 0.
type Cell = ((u32, usize), Value);

fn cells(workbook: Vec<u8>, budget: &mut Budget) -> Result<Vec<Cell>, Problem> {
    let mut workbook = Xlsx::new(Cursor::new(workbook)).map_err(problem)?;
    let mut sheets = workbook.sheets_metadata().iter();
    let sheet = sheets.find(|sheet| sheet.typ == SheetType::WorkSheet).map(|sheet| sheet.name.clone());
    let sheet = sheet.ok_or_else(|| Problem::File("no sheet in this file".to_owned()))?;
    let mut reader = workbook.worksheet_cells_reader(&sheet).map_err(problem)?;
    let mut cells = Vec::new();
    while let Some(cell) = reader.next_cell().map_err(problem)? {
        let (row, column) = cell.get_position();
        if let Some(value) = value(cell.get_value(), budget)? {
            cells.push(((row, column as usize), value));
        }
    }
    Ok(cells)
}

/// The value of a cell; `None` for an empty one.
fn value(cell: &DataRef<'_>, budget: &mut Budget) -> Result<Option<Value>, Problem> {
    let value = match cell {
        DataRef::Empty => return Ok(None),
        DataRef::Bool(flag) => Value::Bool(*flag),
        DataRef::Int(number) => (*number).into(),
        DataRef::Float(number) => (*number).into(),
        DataRef::DateTime(time) => date(*time).into(),
        DataRef::SharedString(text) => (*text).into(),
        DataRef::String(text) | DataRef::DateTimeIso(text) | DataRef::DurationIso(text) => {
            text.clone().into()
        }
        // A formula's error, e.g. `#NAME?` of an answer that begins with `=`.
        DataRef::Error(error) => error.to_string().into(),
    };
    budget.take_values(1)?;
    budget.take_bytes(value.as_str().map_or(0, str::len))?;
    Ok(Some(value))
}

/// A date as pandas prints it; a time of day and a duration have no date.
fn date(time: ExcelDateTime) -> String {
    let (year, month, day, hour, minute, second, _) = time.to_ymd_hms_milli();
    let clock = format!("{hour:02}:{minute:02}:{second:02}");
    match time.as_f64() {
        days if time.is_duration() && days >= 1.0 => format!("{} days {clock}", days.floor()),
        days if time.is_duration() || days < 1.0 => clock,
        _ => format!("{year:04}-{month:02}-{day:02} {clock}"),
    }
}
