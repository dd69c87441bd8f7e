//! `json.loads` and `json.dumps`: NaN and infinities, duplicate keys, integers of any size.

use super::{MAX_STR_DIGITS, float, repr_float};

/// A Python value as `json.loads` or `ast.literal_eval` makes it.
#[derive(Debug, Clone, PartialEq)]
pub enum PyValue {
    /// `None`
    None,
    /// `True`, `False`
    Bool(bool),
    /// An integer of any size, in decimal digits with an optional minus.
    Int(String),
    /// A float, NaN and infinities included.
    Float(f64),
    /// A string. Lone surrogates, which Rust cannot hold, are U+FFFD.
    Str(String),
    /// A list (or tuple).
    List(Vec<PyValue>),
    /// A dictionary in insertion order.
    Dict(Vec<(String, PyValue)>),
}

/// Why Python's `json` rejects a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at byte {offset}")]
pub struct JsonError {
    /// Expected token.
    pub message: &'static str,
    /// Where.
    pub offset: usize,
}

/// Nesting at which CPython's scanner gives up (its recursion limit of 1,000, less the frames below it).
const MAX_DEPTH: usize = 980;

impl PyValue {
    /// Python's name of the type, as error messages use it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::None => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Str(_) => "str",
            Self::List(_) => "list",
            Self::Dict(_) => "dict",
        }
    }

    /// A key of a dictionary.
    pub fn get(&self, key: &str) -> Option<&PyValue> {
        match self {
            Self::Dict(items) => items.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Sets a key as Python does: a known key keeps its place.
    pub fn insert(items: &mut Vec<(String, PyValue)>, key: String, value: PyValue) {
        match items.iter_mut().find(|(name, _)| *name == key) {
            Some((_, old)) => *old = value,
            None => items.push((key, value)),
        }
    }

    /// As JSON for records and case files: NaN and infinities become the strings `nan`, `inf`, `-inf`;
    /// integers beyond 64 bits become strings.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value;
        match self {
            Self::None => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(digits) => match (digits.parse::<i64>(), digits.parse::<u64>()) {
                (Ok(value), _) => value.into(),
                (_, Ok(value)) => value.into(),
                _ => Value::String(digits.clone()),
            },
            Self::Float(value) => match serde_json::Number::from_f64(*value) {
                Some(number) => Value::Number(number),
                None => Value::String(repr_float(*value).to_lowercase().replace("infinity", "inf")),
            },
            Self::Str(text) => Value::String(text.clone()),
            Self::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Self::Dict(items) => {
                Value::Object(items.iter().map(|(key, value)| (key.clone(), value.to_json())).collect())
            }
        }
    }
}

/// `json.loads`.
///
/// # Errors
/// Where Python raises.
pub fn loads(text: &str) -> Result<PyValue, JsonError> {
    let mut parser = Parser { bytes: text.as_bytes(), text, at: 0 };
    parser.space();
    let value = parser.value(0)?;
    parser.space();
    if parser.at < parser.bytes.len() { Err(parser.error("extra data")) } else { Ok(value) }
}

struct Parser<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn error(&self, message: &'static str) -> JsonError {
        JsonError { message, offset: self.at }
    }

    fn space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        if found {
            self.at += word.len();
        }
        found
    }

    fn value(&mut self, depth: usize) -> Result<PyValue, JsonError> {
        if depth > MAX_DEPTH {
            return Err(self.error("nested too deeply"));
        }
        match self.bytes.get(self.at) {
            Some(b'"') => self.string().map(PyValue::Str),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            _ if self.take("null") => Ok(PyValue::None),
            _ if self.take("true") => Ok(PyValue::Bool(true)),
            _ if self.take("false") => Ok(PyValue::Bool(false)),
            _ if self.take("NaN") => Ok(PyValue::Float(f64::NAN)),
            _ if self.take("Infinity") => Ok(PyValue::Float(f64::INFINITY)),
            _ if self.take("-Infinity") => Ok(PyValue::Float(f64::NEG_INFINITY)),
            _ => self.number(),
        }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        self.at - start
    }

    /// An integer part without leading zeros; fraction and exponent only where they are complete.
    fn number(&mut self) -> Result<PyValue, JsonError> {
        let start = self.at;
        self.take("-");
        if !self.take("0") && self.digits() == 0 {
            self.at = start;
            return Err(self.error("a value was expected"));
        }
        let int_end = self.at;
        let mut end = int_end;
        if self.take(".") && self.digits() > 0 {
            end = self.at;
        }
        self.at = end;
        if self.take("e") || self.take("E") {
            let _ = self.take("+") || self.take("-");
            if self.digits() > 0 {
                end = self.at;
            }
        }
        self.at = end;
        let text = &self.text[start..end];
        if end > int_end {
            return float(text).map(PyValue::Float).ok_or_else(|| self.error("a number was expected"));
        }
        if text.trim_start_matches('-').len() > MAX_STR_DIGITS {
            return Err(self.error("an integer is too long"));
        }
        Ok(PyValue::Int(if text == "-0" { "0".to_owned() } else { text.to_owned() }))
    }

    fn array(&mut self, depth: usize) -> Result<PyValue, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.take("]") {
            return Ok(PyValue::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            if self.take("]") {
                return Ok(PyValue::List(items));
            }
            if !self.take(",") {
                return Err(self.error("`,` was expected"));
            }
            self.space();
        }
    }

    fn object(&mut self, depth: usize) -> Result<PyValue, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.take("}") {
            return Ok(PyValue::Dict(items));
        }
        loop {
            if self.bytes.get(self.at) != Some(&b'"') {
                return Err(self.error("a key was expected"));
            }
            let key = self.string()?;
            self.space();
            if !self.take(":") {
                return Err(self.error("`:` was expected"));
            }
            self.space();
            let value = self.value(depth + 1)?;
            PyValue::insert(&mut items, key, value);
            self.space();
            if self.take("}") {
                return Ok(PyValue::Dict(items));
            }
            if !self.take(",") {
                return Err(self.error("`,` was expected"));
            }
            self.space();
        }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(c) = rest.chars().next() else { return Err(self.error("the string has no end")) };
            self.at += c.len_utf8();
            match c {
                '"' => return Ok(out),
                '\\' => out.push(self.escape()?),
                c if (c as u32) < 0x20 => return Err(self.error("a control character in a string")),
                c => out.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let Some(&byte) = self.bytes.get(self.at) else { return Err(self.error("the string has no end")) };
        self.at += 1;
        Ok(match byte {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(),
            _ => return Err(self.error("an unknown escape")),
        })
    }

    fn unicode_escape(&mut self) -> Result<char, JsonError> {
        let first = self.hex4()?;
        if (0xd800..0xdc00).contains(&first) && self.bytes[self.at..].starts_with(b"\\u") {
            let back = self.at;
            self.at += 2;
            // Python tries the second half; where it is not a low surrogate it is read on its own.
            if let Ok(second @ 0xdc00..0xe000) = self.hex4() {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = back;
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex4(&mut self) -> Result<u32, JsonError> {
        let digits =
            self.bytes.get(self.at..self.at + 4).filter(|bytes| bytes.iter().all(u8::is_ascii_hexdigit));
        let Some(digits) = digits else { return Err(self.error("four hexadecimal digits were expected")) };
        let value =
            digits.iter().fold(0, |value, byte| value * 16 + (*byte as char).to_digit(16).unwrap_or(0));
        self.at += 4;
        Ok(value)
    }
}

/// `json.dumps` with its default separators; `ascii` is Python's `ensure_ascii`.
pub fn dumps(value: &PyValue, ascii: bool) -> String {
    let mut out = String::new();
    write_value(&mut out, value, ascii);
    out
}

fn write_value(out: &mut String, value: &PyValue, ascii: bool) {
    match value {
        PyValue::None => out.push_str("null"),
        PyValue::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        PyValue::Int(digits) => out.push_str(digits),
        PyValue::Float(value) => out.push_str(&repr_float(*value)),
        PyValue::Str(text) => write_string(out, text, ascii),
        PyValue::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_value(out, item, ascii);
            }
            out.push(']');
        }
        PyValue::Dict(items) => {
            out.push('{');
            for (index, (key, item)) in items.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_string(out, key, ascii);
                out.push_str(": ");
                write_value(out, item, ascii);
            }
            out.push('}');
        }
    }
}

fn write_string(out: &mut String, text: &str, ascii: bool) {
    use std::fmt::Write as _;
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || (ascii && (c == '\u{7f}' || !c.is_ascii())) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(text: &str) -> PyValue {
        PyValue::Int(text.to_owned())
    }

    #[test]
    fn reads_what_python_reads() {
        assert_eq!(
            loads(" [1, -0, 2.0, 1e2] ").unwrap(),
            PyValue::List(vec![int("1"), int("0"), PyValue::Float(2.0), PyValue::Float(100.0)])
        );
        assert_eq!(loads("-Infinity"), Ok(PyValue::Float(f64::NEG_INFINITY)));
        assert_eq!(
            loads(r#"{"a": 1, "b": 2, "a": 3}"#).unwrap(),
            PyValue::Dict(vec![("a".into(), int("3")), ("b".into(), int("2"))])
        );
        assert_eq!(loads(r#""\ud83d\ude00\ud800x\/""#), Ok(PyValue::Str("😀\u{fffd}x/".into())));
        assert_eq!(loads("123456789012345678901234567890"), Ok(int("123456789012345678901234567890")));
    }

    #[test]
    fn refuses_what_python_refuses() {
        for text in [
            "",
            "01",
            "1.",
            ".5",
            "+1",
            "[1,]",
            "{\"a\":1,}",
            "{'a':1}",
            "\"a\nb\"",
            "\"\\x\"",
            "\"\\u12\"",
            "nan",
            "1 2",
            "\u{feff}1",
            "\u{a0}1",
            "[",
            "-",
        ] {
            assert!(loads(text).is_err(), "{text:?}");
        }
        assert!(loads(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn prints_as_python_does() {
        let value = loads(r#"{"a": [1, 2.5, 1e16, null, true, NaN], "é": "\u2028\"\\\n"}"#).unwrap();
        assert_eq!(
            dumps(&value, true),
            r#"{"a": [1, 2.5, 1e+16, null, true, NaN], "\u00e9": "\u2028\"\\\n"}"#
        );
        assert_eq!(
            dumps(&value, false),
            "{\"a\": [1, 2.5, 1e+16, null, true, NaN], \"é\": \"\u{2028}\\\"\\\\\\n\"}"
        );
    }
}
