//! The words that answer an open question.

use serde_json::Value;

use super::leads::{CONDITION, LEADS, NEGATED, OTHERS, Strength};
use super::reply::{BOX, Reply, json, plain};
use crate::reference::Tag;

/// The answer to an open question and the rule that found it.
///
/// | rule | takes | does not take |
/// |---|---|---|
/// | `answer_tag` | the body of the last closed tag | |
/// | `json` | the one answer key of an object | |
/// | `boxed` | the last box | |
/// | `answer_is` | the rest of the sentence behind the last phrase | conditions, others' opinions, denials |
/// | `whole` | a reply without any of these, whole | |
pub fn text(text: &str, tags: &[Tag]) -> Option<(String, &'static str)> {
    Reply::candidates(text, tags).into_iter().find_map(|reply| {
        let (found, rule) = read(&reply);
        let found = found.trim().to_owned();
        let rule = match (reply.tagged, rule) {
            (true, "whole") => "answer_tag",
            (true, "json") => "answer_tag_json",
            (true, _) => "answer_tag_statement",
            (false, rule) => rule,
        };
        (!found.is_empty()).then_some((found, rule))
    })
}

fn read(reply: &Reply) -> (String, &'static str) {
    if let Some(found) = json(&reply.raw).as_ref().and_then(in_json) {
        return (found, "json");
    }
    let text = &reply.text;
    if let Some(body) = text.split('\n').rev().find_map(|line| line.strip_prefix(BOX)) {
        return (body.to_owned(), "boxed");
    }
    match declared(text) {
        Some(found) => (found.to_owned(), "answer_is"),
        None => (text.clone(), "whole"),
    }
}

fn in_json(value: &Value) -> Option<String> {
    let Value::Object(fields) = value else { return None };
    let (_, answer) = fields
        .iter()
        .find(|(name, _)| name.to_lowercase().replace(['_', '-', ' '], "").ends_with("answer"))?;
    match answer {
        Value::String(text) => Some(plain(text)),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The rest of the sentence behind the last phrase that declares an answer.
fn declared(text: &str) -> Option<&str> {
    pattern! { END = r"[.!?]\s|[.!?]$|\n|\.(?:\p{Han}|$)" }
    pattern! { NOUN = r"(?i)answer|ans\b|conclusion|antwort|lösung|réponse|respuesta|resposta|risposta|ответ|答案|答え|回答|解答|정답|답" }
    let mut last: Option<usize> = None;
    for lead in LEADS.iter().filter(|lead| lead.strength == Strength::Strong) {
        for found in lead.pattern.find_iter(text).filter(|found| NOUN.is_match(found.as_str())) {
            let head = &text[..found.start()];
            let head = &head[head.rfind(['\n', '!', '?']).map_or(0, |at| at + 1)..];
            let head = head.rsplit(". ").next().unwrap_or(head);
            if !CONDITION.is_match(head) && !OTHERS.is_match(head) && !NEGATED.is_match(head) {
                last = last.max(Some(found.end()));
            }
        }
    }
    let rest = &text[last?..];
    let rest = &rest[..END.find(rest.trim_end()).map_or(rest.len(), |end| end.start())];
    (!rest.trim().is_empty()).then_some(rest.trim())
}
