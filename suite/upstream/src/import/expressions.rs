//! Names and constants in Python expressions.

use paravt_python::PyValue;
use rustpython_parser::ast::{Constant, Expr};

/// `….NAME`.
pub(super) fn is_method(function: &Expr, name: &str) -> bool {
    matches!(function, Expr::Attribute(attribute) if attribute.attr.as_str() == name)
}

/// `NAME`.
pub(super) fn is_name(expression: &Expr, name: &str) -> bool {
    matches!(expression, Expr::Name(found) if found.id.as_str() == name)
}

pub(super) fn constant_text(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Constant(constant) => match &constant.value {
            Constant::Str(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn constant_integer(expression: &Expr) -> Option<u32> {
    match expression {
        Expr::Constant(constant) => match &constant.value {
            Constant::Int(value) => value.to_string().parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// A dictionary, list or string of constants.
pub(super) fn literal(expression: &Expr) -> Option<PyValue> {
    match expression {
        Expr::Dict(dict) => {
            let mut items = Vec::new();
            for (key, value) in dict.keys.iter().zip(&dict.values) {
                items.push((constant_text(key.as_ref()?)?, literal(value)?));
            }
            Some(PyValue::Dict(items))
        }
        Expr::List(list) => list.elts.iter().map(literal).collect::<Option<_>>().map(PyValue::List),
        other => constant_text(other).map(PyValue::Str),
    }
}
