//! The three upstream tool-call parsers and the driver's reading of a window.
//! They disagree on purpose: each is exact to its own source.

mod driver;
mod hermes;
mod python_call;
mod python_source;
mod python_value;
mod structured;

pub use crate::python::PyValue;
pub use driver::{CallError, parse_driver, parse_video_zoom, time_value, window};
pub use hermes::{Extracted, ExtractedCall, extract_hermes, has_parseable_tool_call};
pub use python_call::{PythonCall, parse_python_function_call};
pub use python_source::TooDeep;
pub use structured::{call_value, is_exact, rebuild};

/// The call as records and case files carry it.
pub fn to_json(call: &PyValue) -> serde_json::Value {
    call.to_json()
}

/// Whether a call was opened and never closed: the text ended in the middle of it.
pub fn has_unclosed_call(text: &str) -> bool {
    let last = |tag: &str| text.rfind(tag);
    [("<tool_call>", "</tool_call>"), ("<tool_code>", "</tool_code>"), ("<video_zoom>", "</video_zoom>")]
        .into_iter()
        .any(|(open, close)| match (last(open), last(close)) {
            (Some(open), Some(close)) => open > close,
            (Some(_), None) => true,
            (None, _) => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unclosed_calls_are_seen() {
        assert!(has_unclosed_call("<tool_call>{\"name\""));
        assert!(has_unclosed_call("<tool_call>{}</tool_call><tool_call>{"));
        assert!(!has_unclosed_call("<tool_call>{}</tool_call>"));
        assert!(!has_unclosed_call("no call"));
    }

    /// Texts of the tokens that the parsers look for, in any order.
    fn soup() -> impl Strategy<Value = String> {
        const TOKENS: [&str; 30] = [
            "<tool_call>",
            "</tool_call>",
            "<tool_code>",
            "</tool_code>",
            "<video_zoom>",
            "</video_zoom>",
            "{",
            "}",
            "\"name\": ",
            "\"arguments\": ",
            "\"crop_video\"",
            "crop_video(",
            "print(",
            "start_time=",
            "end=",
            "1e2",
            "NaN",
            ",",
            ")",
            "'",
            "\"",
            "\\ud83d",
            "\\",
            "\n",
            "\u{1c}",
            "é",
            "-",
            "[",
            "]",
            "for x in y",
        ];
        let token = prop_oneof![prop::sample::select(&TOKENS[..]).prop_map(str::to_owned), ".{0,3}"];
        prop::collection::vec(token, 0..24).prop_map(|tokens| tokens.concat())
    }

    proptest! {
        #[test]
        fn no_text_panics(text in soup()) {
            for call in parse_driver(&text).iter().chain(&parse_video_zoom(&text)) {
                let _ = window(call);
                let _ = to_json(call).to_string();
            }
            let _ = parse_python_function_call(&text);
            let _ = (has_parseable_tool_call(&text), has_unclosed_call(&text));
            let found = extract_hermes(&text);
            prop_assert_eq!(found.tools_called, !found.calls.is_empty());
        }
    }
}
