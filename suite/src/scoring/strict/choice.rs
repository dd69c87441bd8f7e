//! The letter that a reply chooses.

mod alone;
mod follow;
mod implied;
mod json;
mod lead;
mod lists;
mod sentences;
mod statements;

use self::alone::short;
use self::implied::implied;
use self::json::in_json;
use self::statements::last_statement;
use super::leads::TAKEN_BACK;
use super::options::{Options, words};
use super::reply::{Reply, json};
use crate::reference::Tag;

/// What stands at a place of a reply.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::scoring::strict) enum Said {
    /// One option, by its letter or text.
    One(char, &'static str),
    /// Several options, or a letter beside the text of another: the question stays open.
    Open,
    /// No option.
    Nothing,
}

use Said::{Nothing, One, Open};

/// The letter of a reply and the rule that found it.
///
/// | rule | takes | does not take |
/// |---|---|---|
/// | `answer_tag`, `answer_tag_option`, `answer_tag_text`, … | the last closed tag: what the rules below find in it | a tag in a tool call; what stands beside a tag |
/// | `json` | the one answer key of an object, the one option that is judged true | two keys with different answers, scores of all options |
/// | `letter_only` | a reply that is one letter in any dress | two letters; a letter that the row does not have |
/// | `option` | a letter in front of its option's text or of an explanation, or in brackets behind its text | a list of options; the text of another option |
/// | `option_text` | the text of one option, in any inflection, alone or as the first sentence | a text that two options have |
/// | `boxed` | the last box | a box with two letters |
/// | `answer_is` | the last phrase of `LEADS` and what follows | articles, conditions, others' opinions, negations, `B or C` |
/// | `called_right` | `B is correct`, `all but B are wrong`, `the third option is correct` | the same in a condition or with a but; `Speaker B is right` |
/// | `checked` | the only line of a list or table with a check mark | two marked lines |
/// | `letter_line` | a line that is one letter or one option with its text; a letter that is the last sentence | lines of a list |
/// | `only_label` | the only label in a text, `which is option B` | a denied one |
/// | `option_sentence` | the only option that clauses name, a conclusion that names one | two options, a clause that denies, weighs, plans or quotes |
///
/// Of statements (`boxed` to `letter_line`) the last one in the text counts: it replaces those before it.
pub fn letter(text: &str, options: &Options, tags: &[Tag]) -> Option<(char, &'static str)> {
    for reply in Reply::candidates(text, tags) {
        match read(&reply, options) {
            Nothing => {}
            Open => return None,
            // What follows a tag may take it back.
            One(..) if reply.tagged && TAKEN_BACK.is_match(&reply.after) => {
                let One(letter, rule) = last_statement(&reply.after, options) else { return None };
                return Some((letter, rule));
            }
            One(letter, rule) => return Some((letter, if reply.tagged { in_tag(rule) } else { rule })),
        }
    }
    None
}

/// The name of a rule where it read the body of an answer tag.
fn in_tag(rule: &'static str) -> &'static str {
    match rule {
        "letter_only" => "answer_tag",
        "option" => "answer_tag_option",
        "option_text" => "answer_tag_text",
        "json" => "answer_tag_json",
        _ => "answer_tag_statement",
    }
}

fn read(reply: &Reply, options: &Options) -> Said {
    pattern! { DIALOGUE = r"(?m)^Q\d*:" }
    pattern! { REPLY = r"(?m)^A\d*:" }
    if DIALOGUE.is_match(&reply.text) {
        let text = REPLY.replace_all(&reply.text, "Answer:").into_owned();
        return last_statement(&text, options);
    }
    if let Some(value) = json(&reply.raw) {
        match in_json(&value, options) {
            Nothing if !reply.raw.trim().starts_with(['{', '[', '`']) => {}
            said => return said,
        }
    }
    // A reply that is one answer; where more follows, its beginning is a statement among others.
    if is_several(&reply.text, options) {
        return Open;
    }
    match short(&reply.text, options) {
        Nothing => {}
        // `He feeds the dog, which is option B`
        One(letter, "option_text") if contradicts(last_statement(&reply.text, options), letter) => {
            return Open;
        }
        One(_, "option") if !is_whole(&reply.text, options) => {}
        // `A, B and D can be excluded. What remains is C.`
        Open if matches!(last_statement(&reply.text, options), One(_, "answer_is" | "called_right")) => {}
        said => return said,
    }
    match last_statement(&reply.text, options) {
        Nothing => implied(&reply.text, options),
        said => said,
    }
}

/// Whether a statement is another letter, or leaves the question open.
fn contradicts(statement: Said, letter: char) -> bool {
    statement != Nothing && !matches!(statement, One(other, _) if other == letter)
}

/// Whether a text is several options and nothing else: letters, letters with their texts, or texts.
fn is_several(text: &str, options: &Options) -> bool {
    pattern! { JOINED = r"^[(\[]?[A-Z][)\]]?[、,，和与/&]\s*[(\[]?[A-Z][)\]]?\s*都(?:对|對|是?正确|是?正確|可以|符合)" }
    if text.contains(['✓', '✔', '✅', '☑', '✗', '✘', '❌']) {
        return false;
    }
    let (said, mut at, mut found) = (words(text), 0, Vec::new());
    while at < said.len() {
        let label = said[at].chars().next().filter(|_| said[at].len() == 1).and_then(|c| options.letter(c));
        let own =
            label.and_then(|letter| options.text_of(letter)).filter(|own| said[at + 1..].starts_with(own));
        match (label, own, options.begun(&said[at..])) {
            (Some(letter), Some(own), _) => {
                found.push(letter);
                at += 1 + own.len();
            }
            (_, _, Some((letter, taken))) => {
                found.push(letter);
                at += taken;
            }
            (Some(letter), ..) => {
                found.push(letter);
                at += 1;
            }
            _ => break,
        }
    }
    let is_whole = at == said.len()
        && found.len() > 1
        && found.iter().enumerate().all(|(at, letter)| !found[..at].contains(letter));
    let is_spaced = text.contains(char::is_whitespace) || text.contains(['(', '[']);
    is_whole && is_spaced || JOINED.is_match(text)
}

/// Whether a letter and its own text, or its explanation in the same sentence, are all that a text holds.
fn is_whole(text: &str, options: &Options) -> bool {
    let said = words(text);
    let own = said.first().and_then(|first| options.text_of(options.letter(first.chars().next()?)?));
    own.is_some_and(|own| said[1..] == *own)
}
