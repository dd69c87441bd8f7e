//! The three tool-call parsers.

use paravt_python::PyValue;
use paravt_suite::protocol::{native, render};
use paravt_upstream::paravt::toolcall;
use serde_json::{Value, json};

use super::extraction::number;

/// Our output, or `None` for a function that is not of this module.
pub(super) fn call(function: &str, input: &Value) -> Option<Value> {
    let text = input.as_str()?;
    let list = |calls: Vec<PyValue>| Value::Array(calls.iter().map(PyValue::to_json).collect());
    Some(match function {
        "driver.parse_tool_calls" => list(toolcall::parse_driver(text, "crop_video")),
        "driver.parse_video_zoom_calls" => list(toolcall::parse_video_zoom(text, "crop_video")),
        "driver.eval_one dispatch times" => times(text),
        "rl.rewards.has_parseable_tool_call" => toolcall::has_parseable_tool_call(text).into(),
        "rl.Hermes2ProToolParser.extract_tool_calls" => {
            let found = toolcall::extract_hermes(text);
            let call =
                |call: &toolcall::ExtractedCall| json!({"name": call.name, "arguments": call.arguments});
            json!({
                "tools_called": found.tools_called,
                "tool_calls": found.calls.iter().map(call).collect::<Vec<_>>(),
                "content": found.content,
            })
        }
        "rl._parse_python_function_call" => {
            let call = |call: toolcall::PythonCall| {
                let arguments =
                    call.arguments.map_or("not JSON".into(), |items| PyValue::Dict(items).to_json());
                json!({"name": call.name, "arguments": arguments})
            };
            match toolcall::parse_python_function_call(text) {
                Ok(calls) => calls.into_iter().map(call).collect(),
                Err(error) => json!({ "raises": format!("RecursionError: {error}") }),
            }
        }
        _ => return None,
    })
}

/// The windows that the driver would crop in one turn (at most five), or why it raises.
fn times(text: &str) -> Value {
    const MAX_PARALLEL: usize = 5;
    let protocol = native::protocol();
    let windows: Result<Vec<Value>, _> = toolcall::parse_driver(text, &protocol.tool.name)
        .iter()
        .take(MAX_PARALLEL)
        .map(|call| {
            toolcall::window(call, &protocol.tool)
                .map(|window| json!([number(window.start), number(window.end)]))
        })
        .collect();
    match windows {
        Ok(windows) => windows.into(),
        Err(error) => json!({ "sample_error": render::call_reason(&protocol, &error).ok() }),
    }
}
