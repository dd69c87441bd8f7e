//! The first sheet of an `.xlsx` file as rows: cells are shared strings, inline strings, numbers or booleans.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use serde_json::{Map, Value};

use super::error::Problem;
use super::members::Members;
use super::values::Placed;

/// Rows below the header, which names the columns; an empty cell is null. VLMEvalKit's files have one sheet.
pub(super) fn rows(bytes: Vec<u8>) -> Result<Vec<Placed>, Problem> {
    let mut members = Members::open(bytes)?;
    let shared = match members.read("xl/sharedStrings.xml")? {
        Some(xml) => strings(&xml)?,
        None => Vec::new(),
    };
    let sheets = members.names("xl/worksheets/sheet", ".xml");
    let sheet = sheets.first().ok_or_else(|| Problem::File("no sheet in this file".to_owned()))?;
    let sheet = members.read(sheet)?.unwrap_or_default();
    let mut rows = cells(&sheet, &shared)?.into_iter();
    let (_, header) = rows.next().ok_or_else(|| Problem::File("an empty sheet".to_owned()))?;
    let name = |cell: &Value| cell.as_str().map(str::to_owned);
    let names: Vec<Option<String>> = header.iter().map(name).collect();
    let row = |cells: Vec<Value>| {
        let mut row = Map::new();
        for (column, name) in names.iter().enumerate() {
            let cell = cells.get(column).cloned().unwrap_or_default();
            row.extend(name.clone().map(|name| (name, cell)));
        }
        Value::Object(row)
    };
    Ok(rows.map(|(place, cells)| (place, row(cells))).collect())
}

fn problem(error: impl std::fmt::Display) -> Problem {
    Problem::File(format!("a damaged sheet: {error}"))
}

/// Text between the events of a reader, until the end of an element.
fn collect(reader: &mut Reader<&[u8]>, end: &[u8]) -> Result<String, Problem> {
    let mut text = String::new();
    // Phonetic hints of a string are not part of it.
    let mut is_text = end == b"v";
    loop {
        match reader.read_event().map_err(problem)? {
            Event::Start(start) if start.name().as_ref() == b"t" => is_text = true,
            Event::Start(start) if start.name().as_ref() == b"rPh" => {
                reader.read_to_end(start.name()).map_err(problem)?;
            }
            Event::End(closing) if closing.name().as_ref() == end => return Ok(text),
            Event::End(closing) if closing.name().as_ref() == b"t" => is_text = false,
            Event::Text(part) if is_text => text += &part.decode().map_err(problem)?,
            Event::CData(part) if is_text => text += &part.decode().map_err(problem)?,
            Event::GeneralRef(entity) if is_text => {
                let name = entity.decode().map_err(problem)?;
                match entity.resolve_char_ref().map_err(problem)? {
                    Some(c) => text.push(c),
                    None => text += quick_xml::escape::resolve_xml_entity(&name).unwrap_or_default(),
                }
            }
            Event::Eof => return Err(problem("it ends in the middle of a cell")),
            _ => {}
        }
    }
}

fn strings(xml: &[u8]) -> Result<Vec<String>, Problem> {
    let mut reader = Reader::from_reader(xml);
    let mut found = Vec::new();
    loop {
        match reader.read_event().map_err(problem)? {
            Event::Start(start) if start.name().as_ref() == b"si" => {
                found.push(unescaped(&collect(&mut reader, b"si")?));
            }
            Event::Empty(empty) if empty.name().as_ref() == b"si" => found.push(String::new()),
            Event::Eof => return Ok(found),
            _ => {}
        }
    }
}

fn attribute(start: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = start.try_get_attribute(name).ok()??;
    Some(String::from_utf8_lossy(&found.value).into_owned())
}

/// Rows of cells with the number of the row.
fn cells(xml: &[u8], shared: &[String]) -> Result<Vec<(usize, Vec<Value>)>, Problem> {
    let mut reader = Reader::from_reader(xml);
    let mut rows: Vec<(usize, Vec<Value>)> = Vec::new();
    loop {
        match reader.read_event().map_err(problem)? {
            Event::Start(start) if start.name().as_ref() == b"row" => {
                let number = attribute(&start, "r").and_then(|number| number.parse().ok());
                rows.push((number.unwrap_or(rows.len() + 1), Vec::new()));
            }
            Event::Start(start) if start.name().as_ref() == b"c" => {
                let kind = attribute(&start, "t").unwrap_or_default();
                let Some((_, row)) = rows.last_mut() else { return Err(problem("a cell outside of a row")) };
                let column = attribute(&start, "r").map_or(Some(row.len()), |name| column(&name));
                let column = column.ok_or_else(|| problem("a cell without a place"))?;
                let value = cell(&mut reader, &kind, shared)?;
                if row.len() <= column {
                    row.resize(column + 1, Value::Null);
                }
                row[column] = value;
            }
            Event::Eof => return Ok(rows),
            _ => {}
        }
    }
}

/// Columns that a sheet may have.
const MAX_COLUMNS: usize = 16_384;

/// The column of a place such as `AB12`, from 0.
fn column(place: &str) -> Option<usize> {
    let letters = place.bytes().take_while(u8::is_ascii_uppercase).take(4);
    let number = letters.fold(0, |number, letter| 26 * number + usize::from(letter - b'A') + 1);
    number.checked_sub(1).filter(|column| *column < MAX_COLUMNS)
}

/// The value of a cell, whose element has begun.
fn cell(reader: &mut Reader<&[u8]>, kind: &str, shared: &[String]) -> Result<Value, Problem> {
    let mut value = Value::Null;
    loop {
        match reader.read_event().map_err(problem)? {
            Event::Start(start) if start.name().as_ref() == b"v" => {
                let text = collect(reader, b"v")?;
                value = match kind {
                    "s" => {
                        let string = text.trim().parse().ok().and_then(|index: usize| shared.get(index));
                        Value::String(
                            string.ok_or_else(|| problem(format!("no shared string {text}")))?.clone(),
                        )
                    }
                    "b" => Value::Bool(text.trim() == "1"),
                    "str" | "d" => Value::String(text),
                    // A formula's error, e.g. `#NAME?` of an answer that begins with `=`.
                    "e" => Value::String(text),
                    _ => text.trim().parse::<f64>().map_or(Value::String(text.clone()), Value::from),
                };
            }
            Event::Start(start) if start.name().as_ref() == b"is" => {
                value = Value::String(unescaped(&collect(reader, b"is")?));
            }
            Event::End(end) if end.name().as_ref() == b"c" => return Ok(value),
            Event::Eof => return Err(problem("it ends in the middle of a row")),
            _ => {}
        }
    }
}

/// A string with its control characters, which the format writes as `_x000D_`.
fn unescaped(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("_x") {
        let code = rest.get(at + 2..at + 6).filter(|_| rest.as_bytes().get(at + 6) == Some(&b'_'));
        let found = code.and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32);
        match found {
            Some(c) => {
                out.push_str(&rest[..at]);
                out.push(c);
                rest = &rest[at + 7..];
            }
            None => {
                out.push_str(&rest[..at + 2]);
                rest = &rest[at + 2..];
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_escapes() {
        let columns = ["A1", "Z9", "AA10", "XFD1", "ZZZZ1", "1"].map(column);
        assert_eq!(columns, [Some(0), Some(25), Some(26), Some(16_383), None, None]);
        assert_eq!(unescaped("a_x000D_b _x00 _xZZZZ_ é_x0041_"), "a\rb _x00 _xZZZZ_ éA");
    }

    #[test]
    fn cells_of_every_kind() {
        let shared = strings(b"<sst><si><t>one &amp; two</t></si><si><r><t>a</t></r><r><t xml:space=\"preserve\"> b</t></r><rPh><t>x</t></rPh></si><si/></sst>");
        let shared = shared.unwrap_or_else(|_| panic!("strings"));
        assert_eq!(shared, ["one & two", "a b", ""]);
        let sheet = br#"<worksheet><sheetData><row r="1"><c r="A1" t="s"><v>0</v></c><c r="C1" t="inlineStr"><is><t>x</t></is></c></row>
            <row r="3"><c r="B3"><v>2.5</v></c><c r="C3" t="b"><v>1</v></c><c r="D3"/><c r="E3" t="str"><v>f</v></c></row></sheetData></worksheet>"#;
        let rows = cells(sheet, &shared).unwrap_or_else(|_| panic!("cells"));
        let json = serde_json::json!([["one & two", null, "x"], [null, 2.5, true, null, "f"]]);
        assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(
            serde_json::to_value(rows.into_iter().map(|row| row.1).collect::<Vec<_>>()).unwrap(),
            json
        );
    }
}
