//! Python call syntax inside `<tool_code>`, as the RL side's `_parse_python_function_call` reads it.

use rustpython_parser::Mode;
use rustpython_parser::ast::{Constant, Expr, ExprCall, UnaryOp};

use crate::python::{PyValue, is_space, strip};

/// One parsed call.
#[derive(Debug, Clone, PartialEq)]
pub struct PythonCall {
    /// Function or attribute name.
    pub name: String,
    /// Arguments by name; positional ones only where no keyword was readable.
    pub arguments: Vec<(String, PyValue)>,
}

/// Parameter names of the tools whose positional arguments are understood.
fn positional(name: &str) -> &'static [&'static str] {
    if name == "crop_video" { &["video_path", "start_time", "end_time"] } else { &[] }
}

/// Every line that is one call with literal arguments.
pub fn parse_python_function_call(code: &str) -> Vec<PythonCall> {
    strip(code).split('\n').map(strip).filter(|line| !line.is_empty()).filter_map(line_call).collect()
}

fn line_call(line: &str) -> Option<PythonCall> {
    let expression = parse_line(line).or_else(|| {
        let cleaned = without_stray_quotes(line);
        if cleaned == line { None } else { parse_line(&cleaned) }
    })?;
    let Expr::Call(mut call) = expression else { return None };
    if is_print(&call)
        && let Some(Expr::Call(inner)) = call.args.first()
    {
        call = inner.clone();
    }
    let name = match call.func.as_ref() {
        Expr::Name(name) => name.id.to_string(),
        Expr::Attribute(attribute) => attribute.attr.to_string(),
        _ => return None,
    };
    let mut arguments = Vec::new();
    for keyword in &call.keywords {
        if let (Some(name), Some(value)) = (&keyword.arg, literal(&keyword.value)) {
            PyValue::insert(&mut arguments, name.to_string(), value);
        }
    }
    if arguments.is_empty() {
        for (parameter, argument) in positional(&name).iter().zip(&call.args) {
            if let Some(value) = literal(argument) {
                PyValue::insert(&mut arguments, (*parameter).to_owned(), value);
            }
        }
    }
    (!arguments.is_empty()).then_some(PythonCall { name, arguments })
}

fn is_print(call: &ExprCall) -> bool {
    matches!(call.func.as_ref(), Expr::Name(name) if name.id.as_str() == "print")
}

fn parse_line(line: &str) -> Option<Expr> {
    match rustpython_parser::parse(line, Mode::Expression, "<line>").ok()? {
        rustpython_parser::ast::Mod::Expression(expression) => Some(*expression.body),
        _ => None,
    }
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
fn close_then_quote(line: &str) -> String {
    for (at, _) in line.match_indices(')') {
        if line[at + 1..].trim_start_matches(is_space).starts_with(['"', '\'']) {
            return line[..=at].to_owned();
        }
    }
    line.to_owned()
}

/// `ast.literal_eval`; `None` where it raises.
fn literal(expression: &Expr) -> Option<PyValue> {
    match expression {
        Expr::Constant(constant) => constant_value(&constant.value),
        Expr::List(list) => list.elts.iter().map(literal).collect::<Option<_>>().map(PyValue::List),
        Expr::Tuple(tuple) => tuple.elts.iter().map(literal).collect::<Option<_>>().map(PyValue::List),
        Expr::Dict(dict) => {
            let mut items = Vec::new();
            for (key, value) in dict.keys.iter().zip(&dict.values) {
                let PyValue::Str(key) = literal(key.as_ref()?)? else { return None };
                PyValue::insert(&mut items, key, literal(value)?);
            }
            Some(PyValue::Dict(items))
        }
        Expr::UnaryOp(unary) => {
            let value = literal(&unary.operand)?;
            match (unary.op, value) {
                (UnaryOp::UAdd, value @ (PyValue::Int(_) | PyValue::Float(_))) => Some(value),
                (UnaryOp::USub, PyValue::Float(value)) => Some(PyValue::Float(-value)),
                (UnaryOp::USub, PyValue::Int(digits)) => Some(PyValue::Int(negated(&digits))),
                _ => None,
            }
        }
        _ => None,
    }
}

fn negated(digits: &str) -> String {
    match digits.strip_prefix('-') {
        Some(positive) => positive.to_owned(),
        None if digits == "0" => digits.to_owned(),
        None => format!("-{digits}"),
    }
}

fn constant_value(constant: &Constant) -> Option<PyValue> {
    Some(match constant {
        Constant::None => PyValue::None,
        Constant::Bool(value) => PyValue::Bool(*value),
        Constant::Str(text) => PyValue::Str(text.clone()),
        Constant::Int(value) => PyValue::Int(value.to_string()),
        Constant::Float(value) => PyValue::Float(*value),
        Constant::Tuple(items) => PyValue::List(items.iter().map(constant_value).collect::<Option<_>>()?),
        // Bytes, complex numbers and `...` are literals to Python, and then fail in json.dumps.
        Constant::Bytes(_) | Constant::Complex { .. } | Constant::Ellipsis => return None,
    })
}
