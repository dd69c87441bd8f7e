//! `json.loads` of CPython 3.11: NaN and infinities, duplicate keys, integers of any size, and its errors.

use super::{MAX_STR_DIGITS, PyValue, float};

/// Python's exception; [`Display`](std::fmt::Display) is `str()` of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonError {
    /// `json.JSONDecodeError`.
    Decode {
        message: &'static str,
        line: usize,
        /// In characters, from 1.
        column: usize,
        /// Characters before the place.
        offset: usize,
    },
    /// Any other exception: an integer of too many digits, lists within lists beyond the recursion limit.
    Other(String),
}

impl std::fmt::Display for JsonError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Decode { message, line, column, offset } => {
                write!(f, "{message}: line {line} column {column} (char {offset})")
            }
            Self::Other(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for JsonError {}

/// Nesting at which CPython's scanner gives up (its recursion limit of 1,000, less the frames below it).
const MAX_DEPTH: usize = 980;

/// `json.loads`.
pub fn loads(text: &str) -> Result<PyValue, JsonError> {
    let mut parser = Parser { bytes: text.as_bytes(), text, at: 0 };
    if text.starts_with('\u{feff}') {
        return Err(parser.error("Unexpected UTF-8 BOM (decode using utf-8-sig)"));
    }
    parser.space();
    let value = parser.value(0)?;
    parser.space();
    if parser.at < parser.bytes.len() { Err(parser.error("Extra data")) } else { Ok(value) }
}

struct Parser<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn error(&self, message: &'static str) -> JsonError {
        self.error_at(message, self.at)
    }

    fn error_at(&self, message: &'static str, at: usize) -> JsonError {
        let before = &self.text[..at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        JsonError::Decode {
            message,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            offset: before.chars().count(),
        }
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
        let nested = |what: &str| {
            let limit = "maximum recursion depth exceeded while decoding a JSON";
            Err(JsonError::Other(format!("{limit} {what} from a unicode string")))
        };
        match self.bytes.get(self.at) {
            Some(b'"') => self.string().map(PyValue::Str),
            Some(b'{') if depth > MAX_DEPTH => nested("object"),
            Some(b'[') if depth > MAX_DEPTH => nested("array"),
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
            return Err(self.error_at("Expecting value", start));
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
            return float(text).map(PyValue::Float).ok_or_else(|| self.error_at("Expecting value", start));
        }
        let digits = text.trim_start_matches('-').len();
        if digits > MAX_STR_DIGITS {
            return Err(JsonError::Other(format!(
                "Exceeds the limit ({MAX_STR_DIGITS} digits) for integer string conversion: value has {digits} \
                 digits; use sys.set_int_max_str_digits() to increase the limit"
            )));
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
                return Err(self.error("Expecting ',' delimiter"));
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
                return Err(self.error("Expecting property name enclosed in double quotes"));
            }
            let key = self.string()?;
            self.space();
            if !self.take(":") {
                return Err(self.error("Expecting ':' delimiter"));
            }
            self.space();
            let value = self.value(depth + 1)?;
            PyValue::insert(&mut items, key, value);
            self.space();
            if self.take("}") {
                return Ok(PyValue::Dict(items));
            }
            if !self.take(",") {
                return Err(self.error("Expecting ',' delimiter"));
            }
            self.space();
        }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        let start = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            match rest.chars().next() {
                Some('"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some('\\') if rest.len() > 1 => out.push(self.escape()?),
                Some('\\') | None => return Err(self.error_at("Unterminated string starting at", start)),
                Some(c) if (c as u32) < 0x20 => return Err(self.error("Invalid control character at")),
                Some(c) => {
                    self.at += c.len_utf8();
                    out.push(c);
                }
            }
        }
    }

    /// A backslash and what follows it.
    fn escape(&mut self) -> Result<char, JsonError> {
        let start = self.at;
        self.at += 2;
        Ok(match self.bytes[start + 1] {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(),
            _ => return Err(self.error_at("Invalid \\escape", start)),
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

    /// Four digits, of which CPython wants at least one character to follow.
    fn hex4(&mut self) -> Result<u32, JsonError> {
        let digits =
            self.bytes.get(self.at..self.at + 4).filter(|bytes| bytes.iter().all(u8::is_ascii_hexdigit));
        let Some(digits) = digits.filter(|_| self.at + 4 < self.bytes.len()) else {
            return Err(self.error_at("Invalid \\uXXXX escape", self.at - 1));
        };
        let value =
            digits.iter().fold(0, |value, byte| value * 16 + (*byte as char).to_digit(16).unwrap_or(0));
        self.at += 4;
        Ok(value)
    }
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
            "", "01", "1.", ".5", "+1", "[1,]", "{\"a\":1,}", "{'a':1}", "\"a\nb\"", "\"\\x\"", "\"\\u12\"",
            "nan", "1 2", "\u{feff}1", "\u{a0}1", "[", "-",
        ] {
            assert!(loads(text).is_err(), "{text:?}");
        }
        assert!(loads(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn errors_are_in_the_words_of_cpython() {
        for (text, message) in [
            ("", "Expecting value: line 1 column 1 (char 0)"),
            ("{\"é\":\n 1,}", "Expecting property name enclosed in double quotes: line 2 column 4 (char 9)"),
            ("{\"a\" 1}", "Expecting ':' delimiter: line 1 column 6 (char 5)"),
            ("[1 2]", "Expecting ',' delimiter: line 1 column 4 (char 3)"),
            ("[1,]", "Expecting value: line 1 column 4 (char 3)"),
            ("\"ab", "Unterminated string starting at: line 1 column 1 (char 0)"),
            ("\"ab\\", "Unterminated string starting at: line 1 column 1 (char 0)"),
            ("[\"\\x\"]", "Invalid \\escape: line 1 column 3 (char 2)"),
            ("\"\\u12g4\"", "Invalid \\uXXXX escape: line 1 column 3 (char 2)"),
            ("\"a\tb\"", "Invalid control character at: line 1 column 3 (char 2)"),
            ("1 2", "Extra data: line 1 column 3 (char 2)"),
        ] {
            assert_eq!(loads(text).unwrap_err().to_string(), message, "{text:?}");
        }
    }
}
