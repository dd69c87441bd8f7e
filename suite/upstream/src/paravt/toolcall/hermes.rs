//! The RL side's `Hermes2ProToolParser` and the reward's `has_parseable_tool_call`.

use paravt_python::{PyValue, dumps, loads, split_lines, strip};
use paravt_suite::reference::Tag;

use super::python_call::parse_python_function_call;
use super::{TOOL_CALL, TOOL_CODE};

/// What `extract_tool_calls` returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extracted {
    /// Whether any call was taken.
    pub tools_called: bool,
    pub calls: Vec<ExtractedCall>,
    /// Text before the first call; the whole text where there is none.
    pub content: Option<String>,
}

/// One call; the arguments are a JSON string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtractedCall {
    /// Name as `json.loads` gave it (printed as JSON where it is not a string).
    pub name: serde_json::Value,
    /// `json.dumps(arguments, ensure_ascii=False)`
    pub arguments: String,
}

/// Bodies of `open(.*?)close|open(.*)`: the last one may lack its end.
fn bodies(text: &str, (open, close): Tag) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(open) {
        let body = &rest[start + open.len()..];
        match body.find(close) {
            Some(length) => {
                found.push(&body[..length]);
                rest = &body[length + close.len()..];
            }
            None => {
                found.push(body);
                break;
            }
        }
    }
    found
}

/// `Hermes2ProToolParser.extract_tool_calls`: all `<tool_call>` bodies or none of them, then `<tool_code>`.
pub fn extract_hermes(text: &str) -> Extracted {
    let before = |tag: &str| text.find(tag).map(|at| text[..at].to_owned()).filter(|text| !text.is_empty());
    if text.contains(TOOL_CALL.0)
        && let Some(calls) = json_calls(text)
    {
        return Extracted { tools_called: true, calls, content: before(TOOL_CALL.0) };
    }
    if text.contains(TOOL_CODE.0)
        && let Some(calls) = code_calls(text).filter(|calls| !calls.is_empty())
    {
        return Extracted { tools_called: true, calls, content: before(TOOL_CODE.0) };
    }
    Extracted { tools_called: false, calls: Vec::new(), content: Some(text.to_owned()) }
}

fn json_calls(text: &str) -> Option<Vec<ExtractedCall>> {
    bodies(text, TOOL_CALL)
        .into_iter()
        .map(|body| {
            let call = loads(body).ok()?;
            let name = call.get("name")?.to_json();
            Some(ExtractedCall { name, arguments: dumps(call.get("arguments")?, false) })
        })
        .collect()
}

/// The calls of all `<tool_code>` bodies; `None` where one of them makes Python raise.
fn code_calls(text: &str) -> Option<Vec<ExtractedCall>> {
    let mut calls = Vec::new();
    for body in bodies(text, TOOL_CODE) {
        for call in parse_python_function_call(body).ok()? {
            let arguments = dumps(&PyValue::Dict(call.arguments?), false);
            calls.push(ExtractedCall { name: call.name.into(), arguments });
        }
    }
    Some(calls)
}

/// `rewards.utils.has_parseable_tool_call`: a JSON object with a name, or a line of code with a parenthesis.
///
/// Its pattern ends in `(?:close|$)`, which may stop before a final newline: the difference to
/// the bodies taken by the extractor is white space, and that is stripped.
pub fn has_parseable_tool_call(text: &str) -> bool {
    let body_is_empty = |body: &str| body.is_empty() || body.starts_with("<|im_end|>");
    let json = bodies(text, TOOL_CALL)
        .into_iter()
        .map(strip)
        .any(|body| !body_is_empty(body) && loads(body).is_ok_and(|value| value.get("name").is_some()));
    json || bodies(text, TOOL_CODE).into_iter().map(strip).any(|body| {
        !body_is_empty(body)
            && split_lines(body)
                .into_iter()
                .map(strip)
                .any(|line| line.contains('(') && !line.starts_with('#'))
    })
}
