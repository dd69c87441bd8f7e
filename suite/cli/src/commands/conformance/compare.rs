//! When two outputs are the same.

use serde_json::Value;

/// Relative tolerance between floats; everything else is exact.
const TOLERANCE: f64 = 1e-12;

/// Same structure, same texts, numbers equal within rounding. NaN and infinities are texts in case files.
pub fn same(expected: &Value, got: &Value) -> bool {
    match (expected, got) {
        (Value::Number(a), Value::Number(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => (a - b).abs() <= TOLERANCE * a.abs().max(1.0),
            _ => a == b,
        },
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        (Value::String(a), Value::String(b)) => {
            a == b || non_finite(a).is_some() && non_finite(a) == non_finite(b)
        }
        _ => expected == got,
    }
}

/// The spellings of a value that JSON has no number for.
fn non_finite(text: &str) -> Option<&'static str> {
    match text.to_ascii_lowercase().as_str() {
        "nan" => Some("nan"),
        "inf" | "infinity" => Some("inf"),
        "-inf" | "-infinity" => Some("-inf"),
        _ => None,
    }
}
