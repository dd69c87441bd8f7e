//! The three tool-call parsers of the release and the driver's reading of a window. They disagree on
//! purpose: each is exact to its own source.

mod depth;
mod driver;
mod hermes;
mod python_call;
mod python_source;
mod python_value;
mod structured;

pub use depth::TooDeep;
pub use driver::{parse_driver, parse_video_zoom, time_value, window};
pub use hermes::{Extracted, ExtractedCall, extract_hermes, has_parseable_tool_call};
pub use python_call::{PythonCall, parse_python_function_call};
pub(crate) use structured::call_value;
pub(crate) use structured::is_exact;
pub use structured::rebuild;

use paravt_python::PyValue;
use paravt_suite::message::StructuredCall;
use paravt_suite::protocol::Tool;
use paravt_suite::reference::{Call, Tag, ToolSyntax};

/// A call as JSON.
const TOOL_CALL: Tag = ("<tool_call>", "</tool_call>");
/// A call as Python.
const TOOL_CODE: Tag = ("<tool_code>", "</tool_code>");
/// A call as arguments alone.
const VIDEO_ZOOM: Tag = ("<video_zoom>", "</video_zoom>");

const TAGS: [Tag; 3] = [TOOL_CALL, TOOL_CODE, VIDEO_ZOOM];

/// Calls as the evaluation driver reads them.
pub struct DriverSyntax;

impl ToolSyntax for DriverSyntax {
    fn tags(&self) -> &'static [Tag] {
        &TAGS
    }

    fn calls(&self, text: &str, tool: &Tool) -> Vec<Call> {
        parse_driver(text, &tool.name).iter().map(|value| call(value, tool)).collect()
    }

    fn structured(&self, structured: &StructuredCall, tool: &Tool) -> Call {
        call(&call_value(structured), tool)
    }

    fn rebuild(&self, reasoning: Option<&str>, content: &str, calls: &[StructuredCall]) -> String {
        rebuild(reasoning, content, calls)
    }

    fn rebuilds_exactly(&self, reasoning: Option<&str>, content: &str, calls: &[StructuredCall]) -> bool {
        is_exact(reasoning, content, calls)
    }
}

/// Calls as the driver reads them in its mode for VideoZoomer.
pub struct ZoomSyntax;

impl ToolSyntax for ZoomSyntax {
    fn tags(&self) -> &'static [Tag] {
        &TAGS
    }

    fn calls(&self, text: &str, tool: &Tool) -> Vec<Call> {
        parse_video_zoom(text, &tool.name).iter().map(|value| call(value, tool)).collect()
    }
}

fn call(value: &PyValue, tool: &Tool) -> Call {
    Call { value: value.to_json(), window: window(value, tool) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unclosed_calls_are_seen() {
        assert!(DriverSyntax.has_unclosed_call("<tool_call>{\"name\""));
        assert!(DriverSyntax.has_unclosed_call("<tool_call>{}</tool_call><tool_call>{"));
        assert!(!DriverSyntax.has_unclosed_call("<tool_call>{}</tool_call>"));
        assert!(!DriverSyntax.has_unclosed_call("no call"));
    }

    /// Texts of the tokens that the parsers look for, in any order.
    fn soup() -> impl Strategy<Value = String> {
        const TOKENS: [&str; 30] = [
            "<tool_call>", "</tool_call>", "<tool_code>", "</tool_code>", "<video_zoom>", "</video_zoom>",
            "{", "}", "\"name\": ", "\"arguments\": ", "\"crop_video\"", "crop_video(", "print(",
            "start_time=", "end=", "1e2", "NaN", ",", ")", "'", "\"", "\\ud83d", "\\", "\n", "\u{1c}", "é",
            "-", "[", "]", "for x in y",
        ];
        let token = prop_oneof![prop::sample::select(&TOKENS[..]).prop_map(str::to_owned), ".{0,3}"];
        prop::collection::vec(token, 0..24).prop_map(|tokens| tokens.concat())
    }

    proptest! {
        #[test]
        fn no_text_panics(text in soup()) {
            let tool = paravt_suite::protocol::native::protocol().tool;
            for call in parse_driver(&text, &tool.name).iter().chain(&parse_video_zoom(&text, &tool.name)) {
                let _ = window(call, &tool);
                let _ = call.to_json().to_string();
            }
            let _ = parse_python_function_call(&text);
            let _ = (has_parseable_tool_call(&text), DriverSyntax.has_unclosed_call(&text));
            let found = extract_hermes(&text);
            prop_assert_eq!(found.tools_called, !found.calls.is_empty());
        }
    }
}
