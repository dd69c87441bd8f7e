//! When two outputs are the same.

use serde_json::Value;

/// Tolerance between floats, relative above 1; everything else is exact.
const TOLERANCE: f64 = 1e-12;

/// Same structure, same texts, numbers equal within rounding. NaN and infinities are texts in case files.
pub(super) fn same(expected: &Value, got: &Value) -> bool {
    match (expected, got) {
        (Value::Number(a), Value::Number(b)) if !a.is_f64() && !b.is_f64() => a == b,
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

#[cfg(test)]
mod tests {
    use super::same;
    use serde_json::json;

    #[test]
    fn floats_within_rounding_and_everything_else_exactly() {
        for (a, b, expected) in [
            (json!(0.1 + 0.2), json!(0.3), true),
            (json!(0.3), json!(0.300_000_001), false),
            (json!(10), json!(10.0), true),
            (json!(12_345_678_901_234_567_u64), json!(12_345_678_901_234_568_u64), false),
            (json!("NaN"), json!("nan"), true),
            (json!("inf"), json!("-inf"), false),
            (json!([1, "a"]), json!([1, "a"]), true),
            (json!([1]), json!([1, 2]), false),
            (json!({"a": 1, "b": null}), json!({"b": null, "a": 1}), true),
            (json!({"a": 1}), json!({"b": 1}), false),
            (json!(true), json!(1), false),
            (json!(null), json!(false), false),
        ] {
            assert_eq!(same(&a, &b), expected, "{a} {b}");
        }
    }
}
