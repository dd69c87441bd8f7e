//! What follows a phrase that says "the answer follows".

use super::Said::{self, Nothing, One, Open};
use super::follow::{alternatives, ends_text, latin, option_after};
use super::lists::{labels, lists_texts};
use crate::scoring::strict::leads::Strength;
use crate::scoring::strict::options::{Options, words};
use crate::scoring::strict::reply::{BOX, close_after, is_unspaced};

/// What follows a phrase.
pub(super) fn after_lead(text: &str, at: usize, options: &Options, strength: Strength) -> Said {
    let is_strong = strength == Strength::Strong;
    pattern! { LETTER = r#"^[\s:(\[{"'\x01]*(?:(?i:option|choice|letter|answer|the letter|la|opción|lettre|opção)\s+)?[(\[{"'<]*([A-Za-zАВСЕ])([)\]}"'>]*)"# }
    let rest = close_after(&text[at..]);
    let line = rest.trim_start().trim_start_matches(BOX);
    let line = line.lines().next().unwrap_or_default();
    // A list of the options that begins under the phrase.
    let begins_list = || {
        let mut all = labels(rest, options);
        all.next().zip(all.next()).is_some_and(|((_, one), (_, next))| next as u32 == one as u32 + 1)
    };
    let blank = &text[text[..at].trim_end_matches(|c: char| c.is_whitespace() || c == ':').len()..at];
    if (blank.contains('\n') || rest.starts_with('\n')) && begins_list() {
        return Nothing;
    }
    if lists_texts(line, options) {
        return if is_strong { Open } else { Nothing };
    }
    let said = words(line);
    let is_labelled =
        labels(line, options).next().is_some_and(|(at, _)| !line[..at].contains(char::is_alphanumeric));
    // In `(A) text` the bracketed A is an option label, not the article `a`.
    pattern! { MARKED = r"^[\s(\[]*[A-Z][)\]]" }
    let is_labelled = is_labelled || MARKED.is_match(line);
    if is_strong && !is_labelled {
        // The text of one option, or its letter before it, to the end of the line or of the sentence.
        if let Some((letter, taken)) = options.begun(&said) {
            return match option_after(&said[taken..], options) {
                true => Open,
                false if said.len() == taken || ends_text(line, &said, taken) => One(letter, "answer_is"),
                false => Nothing,
            };
        }
    }
    // `My answer: the garden (B), since …`
    pattern! { CLAUSE = r"^([^,.;:\n(]+?)\s*(?:\(([A-Z])\))?\s*(?:[,.;!]|$)" }
    if is_strong
        && !is_labelled
        && let Some(clause) = CLAUSE.captures(line)
        && let Some(letter) = options.named(&words(&clause[1])).filter(|_| clause[1].trim().len() > 1)
        && clause.get(2).is_none_or(|label| label.as_str().starts_with(letter))
    {
        return One(letter, "answer_is");
    }
    let Some(found) = LETTER.captures(rest) else { return Nothing };
    let (Some(label), Some(close)) = (found.get(1), found.get(2)) else { return Nothing };
    let written = latin(label.as_str().chars().next().unwrap_or_default());
    let Some(letter) = options.letter(written) else { return Nothing };
    let after = &rest[close.end()..];
    // `C'est`, `A+`
    if close.as_str().ends_with('\'') && after.starts_with(char::is_alphanumeric)
        || after.starts_with(['+', '#'])
    {
        return Nothing;
    }
    pattern! { IF = r"(?i)^[\s,)]{0,3}(?:only )?(?:if|provided|unless|assuming|at first)\b" }
    pattern! { ALSO = r"(?i)^[^.\n]{0,40}\b(?:but|or|though)\b[^.\n]{0,20}\b(?:could|might|may) (?:also|as well|be)\b|^\s*[,，]?\s*(?:但是?)?也(?:有)?可能|^[)\s]*[.;,]\s*(?:it|this|the answer)\s+(?:could|might|may)\s+also\b|^[^\n]{0,60}Without more context" }
    // `A for yes or B for no`
    pattern! { EITHER = r"(?i)^[)\s]*(?:for|if)\s+\w+,?\s+(?:or|and|otherwise)\b" }
    if IF.is_match(after) || EITHER.is_match(after) {
        return Nothing;
    }
    if ALSO.is_match(after) {
        return Open;
    }
    let is_boundary = after.is_empty()
        || after.starts_with(['\n', ',', ';', '!', '，', '；', '！', '、', '،', '।', BOX])
        || !close.as_str().is_empty()
        || after.starts_with(['.', ':'])
            && after[1..].chars().next().is_none_or(|c| !c.is_ascii_alphanumeric())
        || after.starts_with(is_unspaced)
        || after.starts_with(|c: char| matches!(c, '가'..='힣'));
    let next = after.trim_start();
    let word: String = next.chars().take_while(|c| c.is_alphanumeric() || *c == '\'').collect();
    let gives_reason = after.starts_with(char::is_whitespace)
        && (matches!(
            word.to_lowercase().as_str(),
            "because"
                | "since"
                | "as"
                | "for"
                | "based"
                | "given"
                | "due"
                | "which"
                | "where"
                | "with"
                | "weil"
                | "da"
                | "als"
                | "übrig"
                | "denn"
                | "car"
                | "parce"
                | "porque"
                | "ya"
                | "perché"
                | "потому"
                | "so"
                | "rather"
                | "not"
                | "है"
                | "here"
                | "şıkkıdır"
                | "şıkkı"
                | "option"
        ) || next.starts_with(['-', '–', '—', '(', '[', '→', '=']));
    let own_text = || {
        let own = options.text_of(letter)?;
        words(next.lines().next()?).starts_with(own).then_some(())
    };
    let is_upper = written.is_ascii_uppercase();
    if !after.is_empty() && (is_upper || is_strong) && own_text().is_some() {
        return alternatives(after, options, letter, "answer_is");
    }
    // The text of another option beside the letter.
    let told = words(
        next.lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches(['.', ')', ':', ',', '-', '–', '—', '、', '，', ' ']),
    );
    if let Some((other, taken)) = options.begun(&told)
        && other != letter
        && (taken == told.len() || !close.as_str().is_empty())
        && is_upper
        && !after.starts_with('\n')
        && !(letter == 'A' && close.as_str().is_empty() && after.starts_with(' '))
    {
        return Open;
    }
    if strength == Strength::Label {
        return Nothing;
    }
    // In `A or B` the A is an option label, not the article `a`.
    if is_strong && is_upper && alternatives(after, options, letter, "answer_is") == Open {
        return Open;
    }
    let word_follows = after.starts_with(char::is_whitespace) && !next.is_empty();
    let taken = match (is_boundary, is_strong) {
        // A lower-case letter before a comma may be a word of another language.
        (true, _) => {
            is_upper
                || after.is_empty() && written != 'a'
                || after.starts_with(['.', '\n', BOX])
                || !close.as_str().is_empty()
        }
        (false, _) if gives_reason => is_upper,
        (false, true) => {
            is_upper
                && word_follows
                && !matches!(letter, 'A' | 'I')
                && next.starts_with(|c: char| c.is_alphabetic() && !c.is_uppercase())
        }
        (false, false) => false,
    };
    if taken { alternatives(after, options, letter, "answer_is") } else { Nothing }
}
