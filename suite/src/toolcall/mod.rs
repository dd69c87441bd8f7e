//! The three upstream tool-call parsers and the driver's reading of a window
//! (spec/benchmarks.md §4). They disagree on purpose: each is exact to its own source.

mod driver;
mod hermes;
mod python_call;
mod python_source;
mod python_value;

pub use crate::python::PyValue;
pub use driver::{CallError, parse_driver, parse_video_zoom, time_value, window};
pub use hermes::{Extracted, ExtractedCall, extract_hermes, has_parseable_tool_call};
pub use python_call::{PythonCall, parse_python_function_call};
pub use python_source::TooDeep;

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
    use super::has_unclosed_call;

    #[test]
    fn unclosed_calls_are_seen() {
        assert!(has_unclosed_call("<tool_call>{\"name\""));
        assert!(has_unclosed_call("<tool_call>{}</tool_call><tool_call>{"));
        assert!(!has_unclosed_call("<tool_call>{}</tool_call>"));
        assert!(!has_unclosed_call("no call"));
    }
}
