//! JSON values: out of bytes, and read as texts and numbers.

use serde_json::Value;

use super::error::Problem;

/// A row with its place in the file, from 1.
pub(super) type Placed = (usize, Value);

/// JSON values one after the other: an array, an object, JSON lines, or objects over several lines. Python writes `NaN`
/// where JSON has no number: it is read as null.
pub(super) fn json(bytes: &[u8]) -> Result<Vec<Value>, Problem> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Problem::File(format!("not UTF-8 after byte {}", error.valid_up_to())))?;
    let text = text.trim_start_matches('\u{feff}');
    let values = stream(text);
    let values = match values {
        Err(_) if text.contains("NaN") || text.contains("Infinity") => stream(&without_nan(text)),
        values => values,
    };
    values.map_err(|(place, error)| Problem::Row(place, format!("not JSON: {error}")))
}

/// Values one after the other; lines between them that begin with `//` are comments.
fn stream(text: &str) -> Result<Vec<Value>, (usize, serde_json::Error)> {
    let (mut found, mut rest) = (Vec::new(), text);
    loop {
        rest = rest.trim_start();
        if rest.starts_with("//") {
            rest = rest.split_once('\n').map_or("", |(_, next)| next);
            continue;
        }
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match values.next() {
            None => return Ok(found),
            Some(value) => found.push(value.map_err(|error| (found.len() + 1, error))?),
        }
        rest = &rest[values.byte_offset()..];
    }
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
pub(super) fn delimited(bytes: &[u8], delimiter: u8) -> Result<Vec<Placed>, Problem> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(bytes);
    let problem = |place, error: csv::Error| Problem::Row(place, error.to_string());
    let names = reader.headers().map_err(|error| problem(1, error))?.clone();
    let mut rows = Vec::new();
    for record in reader.records() {
        let place = rows.len() + 2;
        let record = record.map_err(|error| problem(place, error))?;
        let cell = |text: &str| if text.is_empty() { Value::Null } else { Value::String(text.to_owned()) };
        let row = names.iter().zip(&record).map(|(name, text)| (name.to_owned(), cell(text))).collect();
        rows.push((place, Value::Object(row)));
    }
    Ok(rows)
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

/// A value as a number, also where it is written as text; true is 1.
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
