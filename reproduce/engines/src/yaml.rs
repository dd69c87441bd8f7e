//! Values as YAML in block style. Texts are quoted as in JSON, which YAML reads alike.

use serde::Serialize;
use serde_json::Value;

/// A value as a YAML document.
pub(crate) fn to_string(value: &impl Serialize) -> serde_json::Result<String> {
    let mut text = String::new();
    block(&serde_json::to_value(value)?, 0, &mut text);
    Ok(text)
}

fn block(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                text.push_str(&"  ".repeat(depth));
                text.push_str(name);
                text.push(':');
                below(value, depth, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                text.push_str(&"  ".repeat(depth));
                text.push('-');
                below(item, depth, text);
            }
        }
        scalar => {
            text.push_str(&scalar.to_string());
            text.push('\n');
        }
    }
}

fn below(value: &Value, depth: usize, text: &mut String) {
    let is_nested = match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    text.push(if is_nested { '\n' } else { ' ' });
    block(value, depth + 1, text);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn nested_values_are_indented_and_texts_quoted() {
        let value = json!({"a": {"b": [1, {"c": "x: \"y\""}], "d": {}}, "e": [], "f": null, "g": 2e-6});
        let text = "a:\n  b:\n    - 1\n    -\n      c: \"x: \\\"y\\\"\"\n  d: {}\ne: []\nf: null\ng: 2e-6\n";
        assert_eq!(super::to_string(&value).unwrap(), text);
    }
}
