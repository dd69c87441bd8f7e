//! Python values, and how `repr` and `json.dumps` print them.

use std::sync::LazyLock;

use super::{CharClass, float, repr_float};

/// A Python value as `json.loads` or `ast.literal_eval` makes it.
#[derive(Debug, Clone, PartialEq)]
pub enum PyValue {
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

    /// `float()`.
    pub fn to_float(&self) -> Result<f64, String> {
        match self {
            Self::Float(value) => Ok(*value),
            Self::Bool(value) => Ok(f64::from(u8::from(*value))),
            Self::Int(digits) => float(digits)
                .filter(|value| value.is_finite())
                .ok_or_else(|| "int too large to convert to float".to_owned()),
            Self::Str(text) => {
                float(text).ok_or_else(|| format!("could not convert string to float: {}", repr_str(text)))
            }
            Self::None | Self::List(_) | Self::Dict(_) => {
                let kind = self.type_name();
                Err(format!("float() argument must be a string or a real number, not '{kind}'"))
            }
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

/// `repr()`.
pub fn repr(value: &PyValue) -> String {
    let items = |items: &[PyValue]| items.iter().map(repr).collect::<Vec<_>>().join(", ");
    match value {
        PyValue::None => "None".to_owned(),
        PyValue::Bool(true) => "True".to_owned(),
        PyValue::Bool(false) => "False".to_owned(),
        PyValue::Int(digits) => digits.clone(),
        PyValue::Float(value) => repr_float(*value).to_lowercase().replace("infinity", "inf"),
        PyValue::Str(text) => repr_str(text),
        PyValue::List(list) => format!("[{}]", items(list)),
        PyValue::Dict(dict) => {
            let pair = |(key, value): &(String, PyValue)| format!("{}: {}", repr_str(key), repr(value));
            format!("{{{}}}", dict.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
    }
}

/// `repr()` of a string: single quotes, unless only double ones need no backslash.
pub fn repr_str(text: &str) -> String {
    use std::fmt::Write as _;
    static UNPRINTABLE: LazyLock<CharClass> = LazyLock::new(|| CharClass::literal(r"[\p{C}\p{Z}]"));
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        let code = c as u32;
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            ' ' => out.push(' '),
            c if UNPRINTABLE.run_of(c).is_none() => out.push(c),
            _ if code < 0x100 => {
                let _ = write!(out, "\\x{code:02x}");
            }
            _ if code < 0x1_0000 => {
                let _ = write!(out, "\\u{code:04x}");
            }
            _ => {
                let _ = write!(out, "\\U{code:08x}");
            }
        }
    }
    out.push(quote);
    out
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
    use crate::loads;

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

    #[test]
    fn represents_as_python_does() {
        for (text, shown) in [
            (
                r#"{"a": [1, 2.0, NaN, -Infinity, true, null], "b": {}}"#,
                "{'a': [1, 2.0, nan, -inf, True, None], 'b': {}}",
            ),
            (r#""it's""#, "\"it's\""),
            (r#""it's \"x\"""#, r#"'it\'s "x"'"#),
            (r#""\n\u001f\u00a0\u200b\u00e9\\""#, r"'\n\x1f\xa0\u200bé\\'"),
            ("1e16", "1e+16"),
        ] {
            assert_eq!(repr(&loads(text).unwrap()), shown, "{text}");
        }
    }
}
