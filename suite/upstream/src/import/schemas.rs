//! Functions whose signature and docstring are shown to a model, as SAGE's `_get_function_info` reads them.

use paravt_python::{PyValue, strip};
use rustpython_parser::ast::{Constant, Expr, Stmt, StmtFunctionDef};

use super::expressions::constant_text;
use super::shapes::Module;

impl Module<'_> {
    /// Name, description and parameters of each function of the file, in source order.
    pub fn schemas(&self) -> Vec<PyValue> {
        let functions = self.statements().iter().filter_map(|statement| match statement {
            Stmt::FunctionDef(function) => Some(schema(function)),
            _ => None,
        });
        functions.collect()
    }
}

fn text(text: impl Into<String>) -> PyValue {
    PyValue::Str(text.into())
}

fn dict<const N: usize>(items: [(&str, PyValue); N]) -> PyValue {
    PyValue::Dict(items.map(|(key, value)| (key.to_owned(), value)).into())
}

fn schema(function: &StmtFunctionDef) -> PyValue {
    let docstring = docstring(function);
    let mut sections = docstring.split("Args:");
    let description = sections.next().map_or("", strip);
    let described: Vec<(&str, &str)> = sections
        .next()
        .map_or("", strip)
        .split('\n')
        .map(strip)
        .filter(|line| !line.starts_with("Returns:"))
        .filter_map(|line| line.split_once(':'))
        .map(|(name, words)| (strip(name), strip(words)))
        .collect();
    let (mut properties, mut required) = (Vec::new(), Vec::new());
    for argument in &function.args.args {
        let name = argument.def.arg.as_str();
        let words = described.iter().rev().find(|(of, words)| *of == name && !words.is_empty());
        let mut property = vec![
            ("type".to_owned(), text(kind(argument.def.annotation.as_deref()))),
            ("description".to_owned(), text(words.map_or("", |(_, words)| words))),
        ];
        match &argument.default {
            None => required.push(text(name)),
            Some(default) => property.push(("default".to_owned(), value(default))),
        }
        properties.push((name.to_owned(), PyValue::Dict(property)));
    }
    let parameters = dict([
        ("type", text("object")),
        ("properties", PyValue::Dict(properties)),
        ("required", PyValue::List(required)),
    ]);
    dict([
        ("name", text(function.name.as_str())),
        ("description", text(description)),
        ("parameters", parameters),
    ])
}

/// The type's name in a schema. What a subscripted type holds is lost since Python 3.9.
fn kind(annotation: Option<&Expr>) -> &'static str {
    match annotation {
        None => "string",
        Some(Expr::Name(name)) => match name.id.as_str() {
            "str" => "string",
            "int" => "integer",
            "float" => "number",
            "bool" => "boolean",
            "list" => "array",
            "dict" => "object",
            _ => "any",
        },
        Some(Expr::Subscript(subscript)) => match &*subscript.value {
            Expr::Name(name) if name.id.as_str() == "list" => "array",
            Expr::Name(name) if name.id.as_str() == "dict" => "object",
            _ => "any",
        },
        Some(_) => "any",
    }
}

fn value(default: &Expr) -> PyValue {
    let Expr::Constant(constant) = default else { return text("unknown") };
    match &constant.value {
        Constant::Str(words) => text(words.clone()),
        Constant::Int(number) => PyValue::Int(number.to_string()),
        Constant::Float(number) => PyValue::Float(*number),
        Constant::Bool(value) => PyValue::Bool(*value),
        Constant::None => PyValue::None,
        _ => text("unknown"),
    }
}

/// `ast.get_docstring`: without the indentation that all lines but the first have.
fn docstring(function: &StmtFunctionDef) -> String {
    let Some(Stmt::Expr(first)) = function.body.first() else { return String::new() };
    let Some(written) = constant_text(&first.value) else { return String::new() };
    let lines: Vec<&str> = written.split('\n').collect();
    let blank = |line: &&str| line.trim_start().is_empty();
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let margin = lines.iter().skip(1).filter(|line| !blank(line)).map(indent).min().unwrap_or(0);
    let cleaned = lines.iter().enumerate().map(|(place, line)| match place {
        0 => line.trim_start(),
        _ => line.get(margin..).unwrap_or(""),
    });
    cleaned.collect::<Vec<_>>().join("\n").trim_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use paravt_python::dumps;

    /// Against `_get_function_info` of SAGE's `sage/src/functions/utils/utils.py` on Python 3.11.
    #[test]
    fn a_function_becomes_its_schema() {
        let file = "def look(path: str, parts: List[str], n: int = 3, how=None) -> Dict:\n    \"\"\"\n    Looks. \n      More.\n\n    Args:\n        path: Where: there\n        parts (list): What\n    Returns:\n        Path: found\n    \"\"\"\n    pass\n";
        let schemas = Module::parse("file", file).unwrap().schemas();
        assert_eq!(
            dumps(&schemas[0], false),
            r#"{"name": "look", "description": "Looks. \n  More.", "parameters": {"type": "object", "properties": {"path": {"type": "string", "description": "Where: there"}, "parts": {"type": "any", "description": ""}, "n": {"type": "integer", "description": "", "default": 3}, "how": {"type": "string", "description": "", "default": null}}, "required": ["path", "parts"]}}"#
        );
    }
}
