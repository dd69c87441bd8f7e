//! Python call syntax inside `<tool_code>`, as the RL side's `_parse_python_function_call` reads it.

use paravt_python::{PyValue, is_space, strip};
use rustpython_parser::ast::{Expr, ExprCall};

use super::depth::TooDeep;
use super::python_source::{expression, keyword_name};
use super::python_value::{Literal, literal};

/// One parsed call.
#[derive(Debug, Clone, PartialEq)]
pub struct PythonCall {
    /// Function or attribute name.
    pub name: String,
    /// Arguments by name; positional ones only where no keyword was readable. `None` where one of
    /// them is a literal that `json.dumps` refuses (bytes, complex numbers, sets, `...`).
    pub arguments: Option<Vec<(String, PyValue)>>,
}

/// Parameter names of the tools whose positional arguments are understood.
fn positional(name: &str) -> &'static [&'static str] {
    if name == "crop_video" { &["video_path", "start_time", "end_time"] } else { &[] }
}

/// Every line that is one call with literal arguments.
///
/// # Errors
/// An expression nested too deeply, which the function does not catch.
pub fn parse_python_function_call(code: &str) -> Result<Vec<PythonCall>, TooDeep> {
    let lines = strip(code).split('\n').map(strip).filter(|line| !line.is_empty());
    lines.filter_map(|line| line_call(line).transpose()).collect()
}

fn line_call(line: &str) -> Result<Option<PythonCall>, TooDeep> {
    let mut parsed = expression(line)?;
    if parsed.is_none() {
        let cleaned = without_stray_quotes(line);
        if cleaned != line {
            parsed = expression(&cleaned)?;
        }
    }
    let Some(Expr::Call(mut call)) = parsed else { return Ok(None) };
    if is_print(&call)
        && let Some(Expr::Call(inner)) = call.args.first()
    {
        call = inner.clone();
    }
    let name = match call.func.as_ref() {
        Expr::Name(name) => name.id.to_string(),
        Expr::Attribute(attribute) => attribute.attr.to_string(),
        _ => return Ok(None),
    };
    let mut arguments = keywords(&call);
    if arguments.is_empty() {
        let values = positional(&name).iter().zip(call.args.iter().map(literal));
        arguments.extend(values.filter_map(|(name, value)| Some(((*name).to_owned(), value?))));
    }
    if arguments.is_empty() {
        return Ok(None);
    }
    let arguments = arguments.into_iter().map(|(name, value)| Some((name, value.into_json()?))).collect();
    Ok(Some(PythonCall { name, arguments }))
}

/// Keyword arguments with literal values; of a repeated one the last, at the first one's place.
fn keywords(call: &ExprCall) -> Vec<(String, Literal)> {
    let mut arguments: Vec<(String, Literal)> = Vec::new();
    for keyword in &call.keywords {
        let (Some(name), Some(value)) = (&keyword.arg, literal(&keyword.value)) else { continue };
        let name = keyword_name(name.as_str());
        match arguments.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => arguments.push((name.to_owned(), value)),
        }
    }
    arguments
}

fn is_print(call: &ExprCall) -> bool {
    matches!(call.func.as_ref(), Expr::Name(name) if name.id.as_str() == "print")
}

/// The two repairs for quotes that models leave after or before the closing parenthesis.
fn without_stray_quotes(line: &str) -> String {
    let after = close_then_quote(line);
    // re.sub(r"(['\"])(\s*\))", r"\2"): a quote directly before a closing parenthesis goes.
    let mut out = String::with_capacity(after.len());
    for (at, c) in after.char_indices() {
        let before_close = || after[at + c.len_utf8()..].trim_start_matches(is_space).starts_with(')');
        if !(matches!(c, '"' | '\'') && before_close()) {
            out.push(c);
        }
    }
    out
}

/// `re.sub(r"\)\s*['\"].*$", ")")`: from the first closing parenthesis that a quote follows to the end of the line.
fn close_then_quote(line: &str) -> &str {
    line.match_indices(')')
        .find(|(at, _)| line[at + 1..].trim_start_matches(is_space).starts_with(['"', '\'']))
        .map_or(line, |(at, _)| &line[..=at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(code: &str) -> Vec<String> {
        let calls = parse_python_function_call(code).unwrap();
        calls
            .into_iter()
            .map(|call| match call.arguments {
                Some(items) => format!("{} {}", call.name, PyValue::Dict(items).to_json()),
                None => format!("{} -", call.name),
            })
            .collect()
    }

    #[test]
    fn calls_are_read_as_pythons_ast_has_them() {
        for (code, expected) in [
            ("crop_video('v', 1, 2.5, 3)", r#"crop_video {"video_path":"v","start_time":1,"end_time":2.5}"#),
            ("print(tools.crop_video(start_time=-1))", r#"crop_video {"start_time":-1}"#),
            ("crop_video(start_time=1, start_time=2)", r#"crop_video {"start_time":2}"#),
            ("crop_video(ｓtart=1)", r#"crop_video {"start":1}"#),
            ("crop_video(x=--1, y=1+1, z=[1, (2,)])", r#"crop_video {"z":[1,[2]]}"#),
            ("crop_video(x={1: 'a', None: 2, 1.0: 'b'})", r#"crop_video {"x":{"1":"b","null":2}}"#),
            ("crop_video(end_time=20.0')", r#"crop_video {"end_time":20.0}"#),
            ("crop_video(end_time=20)')", r#"crop_video {"end_time":20}"#),
            ("crop_video(x=b'1', y=2)", "crop_video -"),
            ("crop_video(x=1+2j)", "crop_video -"),
        ] {
            assert_eq!(arguments(code), [expected], "{code}");
        }
        for code in [
            "f(1)", "crop_video()", "crop_video(x=[1, y])", "f(x=1); g(x=2)", "x = f(y=1)", "f(x=01)",
            "f(x for x in y, a=1)", "\u{feff}f(x=1)", "f(x=1)\0",
        ] {
            assert_eq!(arguments(code), [""; 0], "{code}");
        }
    }

    #[test]
    fn nothing_overflows_the_stack() {
        let deep = |open: &str, close: &str| format!("f(x={}1{})", open.repeat(50_000), close.repeat(50_000));
        for code in [deep("(", ")"), deep("[", "]"), deep("-", ""), deep("not ", ""), deep("", ".a")] {
            std::thread::Builder::new()
                .stack_size(1 << 20)
                .spawn(move || {
                    assert!(
                        parse_python_function_call(&code).is_ok_and(|calls| calls.is_empty())
                            || parse_python_function_call(&code).is_err()
                    )
                })
                .unwrap()
                .join()
                .unwrap();
        }
    }
}
