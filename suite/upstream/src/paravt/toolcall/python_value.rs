//! `ast.literal_eval` of a parsed expression.

use paravt_python::{MAX_STR_DIGITS, PyValue, repr_float};
use rustpython_parser::ast::{Constant, Expr, Operator, UnaryOp};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    /// One that JSON has a form for.
    Json(PyValue),
    /// One that `json.dumps` raises on.
    NotJson,
}

impl Literal {
    /// The value, where JSON has a form for it.
    pub(super) fn into_json(self) -> Option<PyValue> {
        match self {
            Self::Json(value) => Some(value),
            Self::NotJson => None,
        }
    }
}

/// `ast.literal_eval`; `None` where it raises.
pub(super) fn literal(expression: &Expr) -> Option<Literal> {
    match expression {
        Expr::Constant(constant) => Some(constant_value(&constant.value)),
        Expr::List(list) => sequence(&list.elts),
        Expr::Tuple(tuple) => sequence(&tuple.elts),
        Expr::Set(set) => {
            sequence(&set.elts)?;
            set.elts.iter().all(is_hashable).then_some(Literal::NotJson)
        }
        Expr::Dict(dict) => {
            let keys = dict.keys.iter().map(Option::as_ref).collect::<Option<Vec<_>>>()?;
            dictionary(&keys, &dict.values)
        }
        Expr::Call(call) => {
            let is_set = matches!(call.func.as_ref(), Expr::Name(name) if name.id.as_str() == "set");
            (is_set && call.args.is_empty() && call.keywords.is_empty()).then_some(Literal::NotJson)
        }
        Expr::BinOp(sum) => {
            let real = match sum.left.as_ref() {
                Expr::UnaryOp(_) => matches!(signed(&sum.left)?, Literal::Json(_)),
                left => matches!(number(left)?, Literal::Json(_)),
            };
            let complex = matches!(number(&sum.right)?, Literal::NotJson);
            let adds = matches!(sum.op, Operator::Add | Operator::Sub);
            (real && complex && adds).then_some(Literal::NotJson)
        }
        Expr::UnaryOp(_) => signed(expression),
        _ => None,
    }
}

fn sequence(items: &[Expr]) -> Option<Literal> {
    let values: Vec<Literal> = items.iter().map(literal).collect::<Option<_>>()?;
    let values: Option<Vec<PyValue>> = values.into_iter().map(Literal::into_json).collect();
    Some(values.map_or(Literal::NotJson, |values| Literal::Json(PyValue::List(values))))
}

/// `+` or `-` before one number; Python takes no second sign.
fn signed(expression: &Expr) -> Option<Literal> {
    let Expr::UnaryOp(unary) = expression else { return None };
    Some(match (unary.op, number(&unary.operand)?) {
        (UnaryOp::UAdd | UnaryOp::USub, Literal::NotJson) => Literal::NotJson,
        (UnaryOp::UAdd, value) => value,
        (UnaryOp::USub, Literal::Json(PyValue::Float(value))) => Literal::Json(PyValue::Float(-value)),
        (UnaryOp::USub, Literal::Json(PyValue::Int(digits))) if digits != "0" => {
            Literal::Json(PyValue::Int(format!("-{digits}")))
        }
        (UnaryOp::USub, value) => value,
        _ => return None,
    })
}

/// A number as it stands in the source: without a sign, and no boolean. Complex ones are not JSON.
fn number(expression: &Expr) -> Option<Literal> {
    let Expr::Constant(constant) = expression else { return None };
    matches!(constant.value, Constant::Int(_) | Constant::Float(_) | Constant::Complex { .. })
        .then(|| constant_value(&constant.value))
}

fn constant_value(constant: &Constant) -> Literal {
    Literal::Json(match constant {
        Constant::None => PyValue::None,
        Constant::Bool(value) => PyValue::Bool(*value),
        Constant::Str(text) => PyValue::Str(text.clone()),
        Constant::Int(value) => {
            let digits = value.to_string();
            if digits.len() > MAX_STR_DIGITS {
                return Literal::NotJson;
            }
            PyValue::Int(digits)
        }
        Constant::Float(value) => PyValue::Float(*value),
        Constant::Bytes(_) | Constant::Complex { .. } | Constant::Ellipsis | Constant::Tuple(_) => {
            return Literal::NotJson;
        }
    })
}

fn is_hashable(expression: &Expr) -> bool {
    match expression {
        Expr::List(_) | Expr::Dict(_) | Expr::Set(_) | Expr::Call(_) => false,
        Expr::Tuple(tuple) => tuple.elts.iter().all(is_hashable),
        _ => true,
    }
}

/// A dictionary with its keys as `json.dumps` writes them. Keys that Python holds equal (`1`,
/// `1.0`, `True`) are one; keys that only print alike (`1`, `"1"`) stay two.
fn dictionary(keys: &[&Expr], values: &[Expr]) -> Option<Literal> {
    let keys: Vec<(Literal, bool)> =
        keys.iter().map(|key| Some((literal(key)?, is_hashable(key)))).collect::<Option<_>>()?;
    let values: Vec<Literal> = values.iter().map(literal).collect::<Option<_>>()?;
    if !keys.iter().all(|(_, hashable)| *hashable) {
        return None;
    }
    let mut items: Vec<(PyValue, PyValue)> = Vec::new();
    for ((key, _), value) in keys.into_iter().zip(values) {
        let (Literal::Json(key), Literal::Json(value)) = (key, value) else { return Some(Literal::NotJson) };
        match items.iter_mut().find(|(known, _)| equal(known, &key)) {
            Some((_, old)) => *old = value,
            None => items.push((key, value)),
        }
    }
    let items: Option<Vec<(String, PyValue)>> =
        items.into_iter().map(|(key, value)| Some((key_text(&key)?, value))).collect();
    Some(items.map_or(Literal::NotJson, |items| Literal::Json(PyValue::Dict(items))))
}

/// Python's `==` between two keys.
fn equal(a: &PyValue, b: &PyValue) -> bool {
    let numeric = |value: &PyValue| match value {
        PyValue::Bool(value) => Some(f64::from(u8::from(*value))),
        PyValue::Int(digits) => digits.parse().ok(),
        PyValue::Float(value) => Some(*value),
        _ => None,
    };
    match (a, b) {
        (PyValue::Int(a), PyValue::Int(b)) => a == b,
        _ => a == b || matches!((numeric(a), numeric(b)), (Some(a), Some(b)) if a == b),
    }
}

/// A key as `json.dumps` writes it; `None` where it raises (tuples).
fn key_text(key: &PyValue) -> Option<String> {
    Some(match key {
        PyValue::Str(text) => text.clone(),
        PyValue::Int(digits) => digits.clone(),
        PyValue::Float(value) => repr_float(*value),
        PyValue::Bool(value) => value.to_string(),
        PyValue::None => "null".to_owned(),
        PyValue::List(_) | PyValue::Dict(_) => return None,
    })
}
