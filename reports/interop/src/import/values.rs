//! JSON values: out of bytes, and read as texts and numbers.

use std::collections::BTreeMap;

use paravt_suite::data::parse_json;
use serde_json::Value;
use serde_json::value::RawValue;

use super::budget::Budget;
use super::error::Problem;

/// A row with its place in the file, from 1.
pub(super) type Placed = (usize, Value);

/// JSON values one after the other: an array, an object, JSON lines, or objects over several lines. Python writes `NaN`
/// where JSON has no number: it is read as null. The caller has counted the bytes.
pub(super) fn json(bytes: &[u8], budget: &mut Budget) -> Result<Vec<Value>, Problem> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Problem::File(format!("not UTF-8 after byte {}", error.valid_up_to())))?;
    let text = text.trim_start_matches('\u{feff}');
    let whole = budget.clone();
    match stream(text, budget) {
        Err(Problem::Row(..)) if text.contains("NaN") || text.contains("Infinity") => {
            *budget = whole;
            stream(&without_nan(text), budget)
        }
        read => read,
    }
}

/// Values one after the other; lines between them that begin with `//` are comments. Each is counted before it is made:
/// a value takes many times the bytes of its text.
fn stream(text: &str, budget: &mut Budget) -> Result<Vec<Value>, Problem> {
    let (mut found, mut rest) = (Vec::new(), text);
    loop {
        rest = rest.trim_start();
        if rest.starts_with("//") {
            rest = rest.split_once('\n').map_or("", |(_, next)| next);
            continue;
        }
        let mut texts = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
        let place = found.len() + 1;
        let problem = |error| Problem::Row(place, format!("not JSON: {error}"));
        let Some(next) = texts.next().transpose().map_err(problem)? else { return Ok(found) };
        budget.take_values(count(next.get()))?;
        found.push(parse_json(next.get()).map_err(problem)?);
        rest = &rest[texts.byte_offset()..];
    }
}

/// At least as many as there are values in the text of a JSON value: a comma or bracket outside of strings begins each.
pub(super) fn count(json: &str) -> usize {
    let (mut count, mut in_string, mut is_escaped) = (1, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

/// The text with `NaN`, `Infinity` and `-Infinity` outside of strings replaced by `null`.
fn without_nan(text: &str) -> String {
    let (mut out, mut in_string, mut rest) = (String::with_capacity(text.len()), false, text);
    while let Some(c) = rest.chars().next() {
        let word = ["NaN", "-Infinity", "Infinity"].into_iter().find(|word| rest.starts_with(word));
        if let Some(word) = word.filter(|_| !in_string) {
            out.push_str("null");
            rest = &rest[word.len()..];
            continue;
        }
        let taken = if in_string && c == '\\' {
            c.len_utf8() + rest[1..].chars().next().map_or(0, char::len_utf8)
        } else {
            in_string ^= c == '"';
            c.len_utf8()
        };
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out
}

/// Rows of a table with a header; an empty cell is null.
pub(super) fn delimited(bytes: &[u8], delimiter: u8, budget: &mut Budget) -> Result<Vec<Placed>, Problem> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(bytes);
    let problem = |place, error: csv::Error| Problem::Row(place, error.to_string());
    let names = reader.headers().map_err(|error| problem(1, error))?;
    let header = Header::new(names.iter().map(str::to_owned).enumerate())?;
    let mut rows = Vec::new();
    for record in reader.records() {
        let place = rows.len() + 2;
        let record = record.map_err(|error| problem(place, error))?;
        let cells = record.iter().map(|text| if text.is_empty() { Value::Null } else { text.into() });
        rows.push((place, header.row(cells.enumerate(), budget)?));
    }
    Ok(rows)
}

/// Names of the columns of a table: each names one, and a column without a name is left out.
pub(super) struct Header {
    names: Vec<(usize, String)>,
    /// Bytes of all names, which every row repeats.
    bytes: usize,
}

impl Header {
    /// Takes the names with the numbers of their columns, from 0.
    pub(super) fn new(names: impl Iterator<Item = (usize, String)>) -> Result<Self, Problem> {
        let mut columns: BTreeMap<String, usize> = BTreeMap::new();
        let names: Vec<(usize, String)> = names.filter(|(_, name)| !name.is_empty()).collect();
        for (column, name) in &names {
            if let Some(first) = columns.insert(name.clone(), *column) {
                return Err(Problem::File(format!(
                    "columns {} and {} have the same name, `{name}`; rename one",
                    first + 1,
                    column + 1
                )));
            }
        }
        let bytes = names.iter().map(|(_, name)| name.len()).sum();
        Ok(Self { names, bytes })
    }

    /// A row as an object: cells with the numbers of their columns, ascending; one that is missing is null.
    pub(super) fn row(
        &self,
        cells: impl Iterator<Item = (usize, Value)>,
        budget: &mut Budget,
    ) -> Result<Value, Problem> {
        budget.take_values(self.names.len())?;
        budget.take_bytes(self.bytes)?;
        let mut cells = cells.peekable();
        let row = self.names.iter().map(|(column, name)| {
            while cells.next_if(|(place, _)| place < column).is_some() {}
            let cell = cells.next_if(|(place, _)| place == column);
            (name.clone(), cell.map_or(Value::Null, |(_, value)| value))
        });
        Ok(Value::Object(row.collect()))
    }
}

/// A value as text: strings as they are, numbers without a needless `.0`, lists and objects as JSON; `None` for null.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => match number.as_f64() {
            Some(whole) if whole.fract() == 0.0 && whole.abs() < 1e15 => Some(format!("{whole:.0}")),
            _ => Some(number.to_string()),
        },
        other => Some(other.to_string()),
    }
}

/// A value as a finite number, also where it is written as text; true is 1.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Value::String(text) => match text.trim() {
            "True" | "true" => Some(1.0),
            "False" | "false" => Some(0.0),
            text => text.parse().ok().filter(|number: &f64| number.is_finite()),
        },
        other => other.as_f64(),
    }
}

/// Texts of a list, or of a list that Python printed: `['A. one', "B. two"]`.
pub(super) fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().filter_map(text).collect(),
        Value::String(list) => python_list(list).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// The strings of a Python list of strings, or of a printed numpy array, which has no commas.
fn python_list(list: &str) -> Option<Vec<String>> {
    let inner = list.trim().strip_prefix('[')?.strip_suffix(']')?;
    let (mut found, mut chars) = (Vec::new(), inner.chars());
    while let Some(quote) = chars.find(|c| matches!(c, '\'' | '"')) {
        let mut item = String::new();
        loop {
            match chars.next()? {
                '\\' => match chars.next()? {
                    'n' => item.push('\n'),
                    't' => item.push('\t'),
                    other => item.push(other),
                },
                c if c == quote => break,
                c => item.push(c),
            }
        }
        found.push(item);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn printed_lists_are_read() {
        assert_eq!(texts(&json!("['A. it\\'s', \"B. x, y\"]")), ["A. it's", "B. x, y"]);
        assert_eq!(texts(&json!("['A. front-left' 'B. back-right']")), ["A. front-left", "B. back-right"]);
        assert_eq!(texts(&json!("['A. open")), Vec::<String>::new());
        assert_eq!(texts(&json!(["a", 2.0])), ["a", "2"]);
    }
}
