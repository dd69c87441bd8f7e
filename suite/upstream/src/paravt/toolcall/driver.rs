//! The evaluation driver's parsers: `parse_tool_calls`, `parse_video_zoom_calls`, and how
//! `eval_one` reads a window out of a call.

use paravt_suite::reference::CallError;
use paravt_suite::span::TimeSpan;
use paravt_suite::text::between;

use super::{TOOL_CALL, TOOL_CODE, VIDEO_ZOOM};
use crate::python::{self, PyValue, is_space, strip};

/// `parse_tool_calls`: every closed `<tool_call>` whose body is JSON (of any kind), then every
/// closed `<tool_code>` that starts with `crop_video(`.
pub fn parse_driver(text: &str) -> Vec<PyValue> {
    let mut calls: Vec<PyValue> =
        between(text, TOOL_CALL.0, TOOL_CALL.1).filter_map(|body| python::loads(strip(body)).ok()).collect();
    calls.extend(between(text, TOOL_CODE.0, TOOL_CODE.1).filter_map(tool_code));
    calls
}

/// One `<tool_code>` body; everything between the first `(` and the last `)` is arguments.
fn tool_code(body: &str) -> Option<PyValue> {
    let body = strip(body);
    let after_name = body.strip_prefix("crop_video")?.trim_start_matches(is_space);
    let arguments = after_name.strip_prefix('(')?;
    let arguments = &arguments[..arguments.rfind(')')?];
    let mut items = Vec::new();
    for pair in split_before_keywords(arguments) {
        keyword(pair, &mut items);
    }
    crop_video(items)
}

/// `k=v` into the dictionary; the value is a float where Python's `float` takes it.
fn keyword(pair: &str, items: &mut Vec<(String, PyValue)>) {
    let Some((key, value)) = pair.split_once('=') else { return };
    let value = strip(value).trim_matches(['"', '\'']);
    let value = python::float(value).map_or_else(|| PyValue::Str(value.to_owned()), PyValue::Float);
    PyValue::insert(items, strip(key).to_owned(), value);
}

fn crop_video(items: Vec<(String, PyValue)>) -> Option<PyValue> {
    if items.is_empty() {
        return None;
    }
    Some(PyValue::Dict(vec![
        ("name".to_owned(), PyValue::Str("crop_video".to_owned())),
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
pub fn parse_video_zoom(text: &str) -> Vec<PyValue> {
    between(text, VIDEO_ZOOM.0, VIDEO_ZOOM.1)
        .filter_map(|body| {
            let body = strip(body);
            if body.is_empty() {
                return None;
            }
            if let Ok(arguments @ PyValue::Dict(_)) = python::loads(body) {
                return Some(PyValue::Dict(vec![
                    ("name".to_owned(), PyValue::Str("crop_video".to_owned())),
                    ("arguments".to_owned(), arguments),
                ]));
            }
            let mut items = Vec::new();
            for word in body.split(|c: char| is_space(c) || c == ',') {
                keyword(word, &mut items);
            }
            crop_video(items)
        })
        .collect()
}

/// The window of a call as `eval_one` reads it: `start_time` or `start` or 0, `end_time` or `end`
/// or ten seconds later; anything unreadable is 0.
///
/// # Errors
/// Where the driver raises, in Python's words: the call or its arguments are not a dictionary, an integer is
/// too large.
pub fn window(call: &PyValue) -> Result<TimeSpan, CallError> {
    let empty = PyValue::Dict(Vec::new());
    let arguments = dictionary(call)?.get("arguments").unwrap_or(&empty);
    let arguments = dictionary(arguments)?;
    let either = |first: &str, second: &str| arguments.get(first).or_else(|| arguments.get(second));
    let start = either("start_time", "start").map_or(Ok(0.0), time_value)?;
    let end = either("end_time", "end").map_or(Ok(start + 10.0), time_value)?;
    Ok(TimeSpan { start, end })
}

fn dictionary(value: &PyValue) -> Result<&PyValue, CallError> {
    match value {
        PyValue::Dict(_) => Ok(value),
        other => Err(CallError(format!("'{}' object has no attribute 'get'", other.type_name()))),
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
            _ => Err(CallError("int too large to convert to float".to_owned())),
        },
        PyValue::Str(text) => Ok(python::float(text).or_else(|| clock(text)).unwrap_or(0.0)),
        PyValue::None | PyValue::List(_) | PyValue::Dict(_) => Ok(0.0),
    }
}

fn clock(text: &str) -> Option<f64> {
    let parts: Vec<&str> = text.split(':').collect();
    match parts[..] {
        [minutes, seconds] => Some(python::float(minutes)? * 60.0 + python::float(seconds)?),
        [hours, minutes, seconds] => {
            Some(python::float(hours)? * 3600.0 + python::float(minutes)? * 60.0 + python::float(seconds)?)
        }
        _ => None,
    }
}
