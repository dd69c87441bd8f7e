//! Python f-strings as templates.

use rustpython_parser::ast::{ConversionFlag, Expr, ExprFormattedValue, ExprJoinedStr, Operator};

use super::expressions::{constant_integer, constant_text};
use paravt_suite::protocol::Template;
use paravt_suite::protocol::template::Piece;

/// An f-string (or plain string) as a template with our slot names.
pub(super) fn template(expression: &Expr) -> Option<Template> {
    match expression {
        Expr::JoinedStr(joined) => joined_template(joined),
        other => constant_text(other).map(|text| Template(vec![Piece::Text(text)])),
    }
}

fn joined_template(joined: &ExprJoinedStr) -> Option<Template> {
    let mut pieces: Vec<Piece> = Vec::new();
    for value in &joined.values {
        match value {
            Expr::FormattedValue(formatted) => pieces.push(Piece::Slot(slot(formatted)?)),
            other => match (pieces.last_mut(), constant_text(other)?) {
                (Some(Piece::Text(before)), text) => before.push_str(&text),
                (_, text) => pieces.push(Piece::Text(text)),
            },
        }
    }
    Some(Template(pieces))
}

/// The names and formats of what a template puts in.
pub(super) fn slots(template: &Template) -> Vec<&str> {
    let slots = template.0.iter().filter_map(|piece| match piece {
        Piece::Slot(name) => Some(name.as_str()),
        Piece::Text(_) => None,
    });
    slots.collect()
}

/// The template with the bare names that rendering knows.
pub(super) fn without_formats(mut template: Template) -> Template {
    for piece in &mut template.0 {
        if let Piece::Slot(slot) = piece {
            slot.truncate(slot.find(':').unwrap_or(slot.len()));
        }
    }
    template
}

/// Our name for what an f-string puts in, with the conversion and the format that it has there:
/// rendering knows one format for each name, so another must not pass for it.
fn slot(formatted: &ExprFormattedValue) -> Option<String> {
    let mut slot = slot_name(&formatted.value)?;
    if formatted.conversion != ConversionFlag::None {
        slot.push_str("!…");
    }
    match formatted.format_spec.as_deref() {
        None => {}
        Some(Expr::JoinedStr(spec)) => {
            slot.push(':');
            for piece in &spec.values {
                slot.push_str(&constant_text(piece)?);
            }
        }
        Some(_) => return None,
    }
    Some(slot)
}

/// Our name for a value.
fn slot_name(expression: &Expr) -> Option<String> {
    let name = match expression {
        Expr::Name(name) => match name.id.as_str() {
            "opts_str" => "options",
            "mcq_instr" => "instruction",
            "sub_prefix" => "subtitles_block",
            "sub_text" => "subtitles",
            "q_text" => "question",
            "st" => "start",
            "et" => "end",
            "start_str" => "start_clock",
            "end_str" => "end_clock",
            "tool_output_text" => "summary",
            "pnumber" => "side",
            "num_frames_to_sample" => "n",
            "raw_question" => "question",
            "raw_query" => "prompt",
            "e" | "error_info" => "reason",
            "o" | "v" => "option",
            "k" => "letter",
            other => other,
        }
        .to_owned(),
        Expr::Subscript(subscript) => constant_text(&subscript.slice)?,
        Expr::Attribute(attribute) => attribute.attr.to_string(),
        Expr::Call(call) => match &*call.func {
            Expr::Name(name) if name.id.as_str() == "len" => "n".to_owned(),
            Expr::Name(name) if name.id.as_str() == "str" => slot_name(call.args.first()?)?,
            Expr::Name(name) if name.id.as_str() == "int" => "seconds".to_owned(),
            Expr::Name(name) if name.id.as_str() == "chr" && counts_from_a(call.args.first()?) => {
                "letter".to_owned()
            }
            Expr::Attribute(attribute) if attribute.attr.as_str() == "basename" => "video_name".to_owned(),
            Expr::Attribute(attribute) if attribute.attr.as_str() == "get" => {
                constant_text(call.args.first()?)?
            }
            _ => return None,
        },
        _ => return None,
    };
    Some(name)
}

/// `65 + …`, the code of a capital letter.
fn counts_from_a(expression: &Expr) -> bool {
    let Expr::BinOp(sum) = expression else { return false };
    sum.op == Operator::Add && constant_integer(&sum.left) == Some(u32::from(b'A'))
}
