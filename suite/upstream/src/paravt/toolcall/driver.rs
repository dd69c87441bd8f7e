//! The evaluation driver's parsers: `parse_tool_calls`, `parse_video_zoom_calls`, and how
//! `eval_one` reads a window out of a call.

use paravt_python::{PyValue, float, is_space, loads, strip};
use paravt_suite::protocol::{CallError, Tool};
use paravt_suite::span::TimeSpan;
use paravt_suite::text::between;

use super::{TOOL_CALL, TOOL_CODE, VIDEO_ZOOM};

/// `parse_tool_calls`: every closed `<tool_call>` whose body is JSON (of any kind), then every
/// closed `<tool_code>` that starts with the tool's name and `(`; the driver's tool is `crop_video`.
pub fn parse_driver(text: &str, tool: &str) -> Vec<PyValue> {
    let mut calls: Vec<PyValue> =
        between(text, TOOL_CALL.0, TOOL_CALL.1).filter_map(|body| loads(strip(body)).ok()).collect();
    calls.extend(between(text, TOOL_CODE.0, TOOL_CODE.1).filter_map(|body| tool_code(body, tool)));
    calls
}

/// One `<tool_code>` body; everything between the first `(` and the last `)` is arguments.
fn tool_code(body: &str, tool: &str) -> Option<PyValue> {
    let body = strip(body);
    let after_name = body.strip_prefix(tool)?.trim_start_matches(is_space);
    let arguments = after_name.strip_prefix('(')?;
    let arguments = &arguments[..arguments.rfind(')')?];
    let mut items = Vec::new();
    for pair in split_before_keywords(arguments) {
        keyword(pair, &mut items);
    }
    call_of(tool, items)
}

/// `k=v` into the dictionary; the value is a float where Python's `float` takes it.
fn keyword(pair: &str, items: &mut Vec<(String, PyValue)>) {
    let Some((key, value)) = pair.split_once('=') else { return };
    let value = strip(value).trim_matches(['"', '\'']);
    let value = float(value).map_or_else(|| PyValue::Str(value.to_owned()), PyValue::Float);
    PyValue::insert(items, strip(key).to_owned(), value);
}

fn call_of(tool: &str, items: Vec<(String, PyValue)>) -> Option<PyValue> {
    if items.is_empty() {
        return None;
    }
    Some(PyValue::Dict(vec![
        ("name".to_owned(), PyValue::Str(tool.to_owned())),
        ("arguments".to_owned(), PyValue::Dict(items)),
    ]))
}

/// `re.split(r",\s*(?=[a-zA-Z_]+\s*=)", text)`: commas inside values do not split.
fn split_before_keywords(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for (comma, _) in text.match_indices(',') {
        let after = text[comma + 1..].trim_start_matches(is_space);
        let name_end = after.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '_');
        let named = name_end.len() < after.len() && name_end.trim_start_matches(is_space).starts_with('=');
        if named {
            pieces.push(&text[start..comma]);
            start = text.len() - after.len();
        }
    }
    pieces.push(&text[start..]);
    pieces
}

/// `parse_video_zoom_calls`: JSON objects are arguments as they are, other bodies are `k=v` words.
pub fn parse_video_zoom(text: &str, tool: &str) -> Vec<PyValue> {
    between(text, VIDEO_ZOOM.0, VIDEO_ZOOM.1)
        .filter_map(|body| {
            let body = strip(body);
            if body.is_empty() {
                return None;
            }
            if let Ok(arguments @ PyValue::Dict(_)) = loads(body) {
                return Some(PyValue::Dict(vec![
                    ("name".to_owned(), PyValue::Str(tool.to_owned())),
                    ("arguments".to_owned(), arguments),
                ]));
            }
            let mut items = Vec::new();
            for word in body.split(|c: char| is_space(c) || c == ',') {
                keyword(word, &mut items);
            }
            call_of(tool, items)
        })
        .collect()
}

/// The window of a call as `eval_one` reads it: the start or 0, the end or the tool's seconds later; anything
/// unreadable is 0.
///
/// # Errors
/// Where the driver raises: the call or its arguments are not a dictionary, an integer is too large.
pub fn window(call: &PyValue, tool: &Tool) -> Result<TimeSpan, CallError> {
    let empty = PyValue::Dict(Vec::new());
    let arguments = dictionary(call)?.get("arguments").unwrap_or(&empty);
    let arguments = dictionary(arguments)?;
    let first_of = |names: &[String]| names.iter().find_map(|name| arguments.get(name));
    let start = first_of(&tool.start).map_or(Ok(0.0), time_value)?;
    let end = first_of(&tool.end).map_or(Ok(start + tool.default_seconds), time_value)?;
    Ok(TimeSpan { start, end })
}

fn dictionary(value: &PyValue) -> Result<&PyValue, CallError> {
    match value {
        PyValue::Dict(_) => Ok(value),
        other => Err(CallError::NotAnObject { found: other.type_name().to_owned() }),
    }
}

/// `parse_time_val`: numbers and booleans, Python floats in strings, `mm:ss` and `hh:mm:ss`; else 0.
///
/// # Errors
/// An integer too large for a float.
pub fn time_value(value: &PyValue) -> Result<f64, CallError> {
    match value {
        PyValue::Bool(value) => Ok(f64::from(u8::from(*value))),
        PyValue::Float(value) => Ok(*value),
        PyValue::Int(digits) => match digits.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(value),
            _ => Err(CallError::TooLarge),
        },
        PyValue::Str(text) => Ok(float(text).or_else(|| clock(text)).unwrap_or(0.0)),
        PyValue::None | PyValue::List(_) | PyValue::Dict(_) => Ok(0.0),
    }
}

fn clock(text: &str) -> Option<f64> {
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        [minutes, seconds] => Some(float(minutes)? * 60.0 + float(seconds)?),
        [hours, minutes, seconds] => Some(float(hours)? * 3600.0 + float(minutes)? * 60.0 + float(seconds)?),
        _ => None,
    }
}
