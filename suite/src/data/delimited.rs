//! CSV and TSV: a header and a row on each line. Cells are texts, an empty one is null, one that is a JSON list or object
//! is that.

use csv::{ReaderBuilder, StringRecord, Trim};
use serde_json::{Map, Value};

use super::json;
use super::limits::{Budget, Problem, Table};
use super::row::excerpt;

/// Adds the rows of a text.
pub(super) fn read(text: &str, delimiter: u8, table: &mut Table) -> Result<(), Problem> {
    check_quotes(text.as_bytes(), delimiter)?;
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter)
        .flexible(true)
        .trim(Trim::Headers)
        .from_reader(text.as_bytes());
    let wrong = |error: csv::Error| Problem::Format(error.to_string());
    let mut header = reader.headers().map_err(wrong)?.clone();
    let width = header.len();
    // A spreadsheet writes columns that once had a cell.
    let unnamed = header.iter().rev().take_while(|name| name.is_empty()).count();
    if unnamed < width {
        header.truncate(width - unnamed);
    }
    check_header(&header)?;
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(wrong)? {
        let at = record.position().map_or((1, 0), |at| (at.line() as usize, at.byte() as usize));
        // The position is that before empty lines.
        let breaks = text.as_bytes()[at.1..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
        let line = at.0 + breaks.filter(|&&byte| byte == b'\n').count();
        if record.len() != width {
            let found = record.len();
            return Err(Problem::Format(format!(
                "line {line}: {found} cells, the header has {width}; cells with the delimiter, quotes or line \
                 breaks in them stand in quotes"
            )));
        }
        if let Some(cell) = record.iter().skip(header.len()).find(|cell| !cell.is_empty()) {
            let cell = excerpt(cell);
            return Err(Problem::Format(format!(
                "line {line}: `{cell}` stands in a column without a name; name it in line 1, or clear it"
            )));
        }
        let mut row = Map::new();
        for (name, value) in header.iter().zip(&record) {
            table.budget.take(name.len())?;
            row.insert(name.to_owned(), cell(value, &mut table.budget)?);
        }
        table.push(row, Some(line))?;
    }
    Ok(())
}

/// Refuses quotes that would silently take other cells or lines into their own.
fn check_quotes(text: &[u8], delimiter: u8) -> Result<(), Problem> {
    let (mut at, mut line) = (0, 1);
    while at < text.len() {
        if text[at] == b'"' {
            let opened = line;
            let refused =
                |what| Err(Problem::Format(format!("line {opened}: a quote that is opened and {what}")));
            at += 1;
            loop {
                match (text.get(at), text.get(at + 1)) {
                    (None, _) => return refused("not closed"),
                    (Some(b'"'), Some(b'"')) => at += 2,
                    (Some(b'"'), after)
                        if after.is_none_or(|byte| [delimiter, b'\r', b'\n'].contains(byte)) =>
                    {
                        break;
                    }
                    (Some(b'"'), _) => {
                        return refused("closed within its cell; write a quote of the text twice");
                    }
                    (Some(byte), _) => {
                        line += usize::from(*byte == b'\n');
                        at += 1;
                    }
                }
            }
            at += 1;
        }
        let rest = text.get(at..).unwrap_or_default();
        let end = rest.iter().position(|byte| [delimiter, b'\r', b'\n'].contains(byte)).unwrap_or(rest.len());
        line += usize::from(rest.get(end) == Some(&b'\n'));
        at += end + 1;
    }
    Ok(())
}

fn check_header(header: &StringRecord) -> Result<(), Problem> {
    // What a spreadsheet of a country with decimal commas writes.
    if let [one] = header.iter().collect::<Vec<_>>()[..]
        && let Some(mark) = [';', '\t', '|', ','].into_iter().find(|mark| one.contains(*mark))
    {
        return Err(Problem::Format(format!(
            "line 1: one column, `{}`, which has {mark:?} between its words; cells of a .csv stand between commas, of a \
             .tsv between tabs",
            excerpt(one)
        )));
    }
    let mut names: Vec<&str> = header.iter().collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            Err(Problem::Format(format!("line 1: two columns have the name `{}`; rename one", pair[0])))
        }
        None => Ok(()),
    }
}

fn cell(text: &str, budget: &mut Budget) -> Result<Value, Problem> {
    if text.is_empty() {
        budget.take(0)?;
        return Ok(Value::Null);
    }
    match json::list_or_object(text, budget)? {
        Some(value) => Ok(value),
        None => budget.text(text),
    }
}
