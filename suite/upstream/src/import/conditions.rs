//! Which way a Python condition goes: `Some(false)` for the negation of what is asked, `None` for
//! anything else. A text taken from the wrong branch would look as good as the right one.

use rustpython_parser::ast::{BoolOp, CmpOp, Expr, UnaryOp};

use super::expressions::{constant_text, is_method, is_name};

/// `VARIABLE == "VALUE"`.
pub(super) fn equality(test: &Expr, variable: &str, value: &str) -> Option<bool> {
    direction(test, &|test| {
        let Expr::Compare(compare) = test else { return None };
        let ([op], [other]) = (&compare.ops[..], &compare.comparators[..]) else { return None };
        if !is_name(&compare.left, variable) || constant_text(other)? != value {
            return None;
        }
        match op {
            CmpOp::Eq => Some(true),
            CmpOp::NotEq => Some(false),
            _ => None,
        }
    })
}

/// `VARIABLE`, by its truth.
pub(super) fn name(test: &Expr, variable: &str) -> Option<bool> {
    direction(test, &|test| is_name(test, variable).then_some(true))
}

/// `…["KEY"]`, by its truth.
pub(super) fn item(test: &Expr, key: &str) -> Option<bool> {
    direction(test, &|test| match test {
        Expr::Subscript(item) => (constant_text(&item.slice)? == key).then_some(true),
        _ => None,
    })
}

/// The literal of `AGENTIC and "…" not in ….lower()`, where AGENTIC is a call of `_is_agentic` or of
/// `….startswith("agentic_")`.
pub(super) fn agentic_without(test: &Expr) -> Option<String> {
    let Expr::BoolOp(both) = test else { return None };
    let ([first, Expr::Compare(compare)], BoolOp::And) = (&both.values[..], both.op) else { return None };
    let ([CmpOp::NotIn], [Expr::Call(lowered)]) = (&compare.ops[..], &compare.comparators[..]) else {
        return None;
    };
    (is_agentic(first) && is_method(&lowered.func, "lower")).then(|| constant_text(&compare.left))?
}

fn is_agentic(test: &Expr) -> bool {
    let Expr::Call(call) = test else { return false };
    let prefix = call.args.first().and_then(constant_text);
    is_name(&call.func, "_is_agentic")
        || is_method(&call.func, "startswith") && prefix.as_deref() == Some("agentic_")
}

fn direction(test: &Expr, affirms: &dyn Fn(&Expr) -> Option<bool>) -> Option<bool> {
    match test {
        Expr::UnaryOp(negated) if negated.op == UnaryOp::Not => {
            direction(&negated.operand, affirms).map(|holds| !holds)
        }
        other => affirms(other),
    }
}
