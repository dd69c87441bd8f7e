//! Calls as the chat API carries them (`tool_calls`): read as the loop reads written ones, and
//! written back into the text that a server took them out of.

use paravt_python::{PyValue, dumps, loads};
use paravt_suite::message::StructuredCall;

use super::TOOL_CALL;

/// The call as [`parse_driver`](super::parse_driver) would have found it in the text. Arguments that are
/// not JSON stay text, which no window can be read from: a malformed call.
pub(crate) fn call_value(call: &StructuredCall) -> PyValue {
    let arguments = loads(&call.arguments).unwrap_or_else(|_| PyValue::Str(call.arguments.clone()));
    PyValue::Dict(vec![
        ("name".to_owned(), PyValue::Str(call.name.clone())),
        ("arguments".to_owned(), arguments),
    ])
}

/// The text that a server took apart, in the layout of the Hermes and Qwen chat templates: thoughts,
/// content, then the calls, each on lines of its own.
///
/// Servers strip white space and spell JSON their own way, so this is the model's text up to these two.
/// Thoughts that were stripped get their line breaks back; those that were not stand as they are.
pub fn rebuild(reasoning: Option<&str>, content: &str, calls: &[StructuredCall]) -> String {
    let mut text = match reasoning.filter(|reasoning| !reasoning.is_empty()) {
        Some(reasoning) if reasoning.trim() == reasoning => format!("<think>\n{reasoning}\n</think>\n"),
        Some(reasoning) => format!("<think>{reasoning}</think>"),
        None => String::new(),
    };
    text.push_str(content);
    for call in calls {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let name = dumps(&PyValue::Str(call.name.clone()), false);
        let arguments = match loads(&call.arguments) {
            Ok(_) => call.arguments.clone(),
            Err(_) => dumps(&PyValue::Str(call.arguments.clone()), false),
        };
        // A closing tag inside a JSON string would end the call early; `\/` is the same character.
        let body = format!("{{\"name\": {name}, \"arguments\": {arguments}}}").replace("</", "<\\/");
        text.push_str(&format!("{}\n{body}\n{}", TOOL_CALL.0, TOOL_CALL.1));
    }
    text
}

/// Whether [`rebuild`] gives the text of a model that writes calls as its chat template does: nothing
/// but calls was generated, and each argument list is spelled as Python's `json.dumps` spells it.
pub(crate) fn is_exact(reasoning: Option<&str>, content: &str, calls: &[StructuredCall]) -> bool {
    let canonical = |call: &StructuredCall| {
        loads(&call.arguments).is_ok_and(|value| {
            matches!(value, PyValue::Dict(_))
                && (dumps(&value, false) == call.arguments || dumps(&value, true) == call.arguments)
        })
    };
    reasoning.is_none_or(str::is_empty) && content.is_empty() && calls.iter().all(canonical)
}

#[cfg(test)]
mod tests {
    use paravt_suite::span::TimeSpan;

    use super::*;
    use crate::paravt::toolcall::{parse_driver, window};

    fn call(arguments: &str) -> StructuredCall {
        StructuredCall { id: "1".into(), name: "crop_video".into(), arguments: arguments.into() }
    }

    const SECONDS: &str = r#"{"start_time": 3, "end_time": 7.5}"#;

    #[test]
    fn a_call_is_the_same_value_structured_and_written() {
        for arguments in [SECONDS, "[1]", "null", "{}", r#"{"start": "</tool_call>"}"#, "{broken", ""] {
            let call = call(arguments);
            let written = parse_driver(&rebuild(None, "", std::slice::from_ref(&call)), "crop_video");
            assert_eq!(written, [call_value(&call)], "{arguments}");
        }
        let window = |arguments| {
            window(&call_value(&call(arguments)), &paravt_suite::protocol::native::protocol().tool)
        };
        assert_eq!(window(SECONDS), Ok(TimeSpan::new(3.0, 7.5)));
        assert!(window("{broken").is_err());
    }

    #[test]
    fn texts_are_put_together_as_qwen_models_write_them() {
        let calls = [call(SECONDS), call("{}")];
        assert_eq!(
            rebuild(Some("look"), "", &calls),
            "<think>\nlook\n</think>\n<tool_call>\n{\"name\": \"crop_video\", \"arguments\": {\"start_time\": 3, \
             \"end_time\": 7.5}}\n</tool_call>\n<tool_call>\n{\"name\": \"crop_video\", \"arguments\": {}}\n</tool_call>"
        );
        assert_eq!(rebuild(Some("\nlook\n"), "\n\nB", &[]), "<think>\nlook\n</think>\n\nB");
        assert!(rebuild(None, "Let me see", &calls).starts_with("Let me see\n<tool_call>\n"));
    }

    #[test]
    fn only_calls_alone_in_canonical_spelling_are_exact() {
        assert!(is_exact(None, "", &[call(SECONDS)]) && is_exact(Some(""), "", &[call("{}")]));
        assert!(!is_exact(Some("thought"), "", &[call(SECONDS)]));
        assert!(!is_exact(None, "Let me see", &[call(SECONDS)]));
        for arguments in [r#"{"start_time":3}"#, "{broken", "[1]", r#"{"a": 1, "a": 2}"#] {
            assert!(!is_exact(None, "", &[call(arguments)]), "{arguments}");
        }
    }
}
