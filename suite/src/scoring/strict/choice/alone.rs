//! Replies and lines that are one answer and nothing else.

use super::Said::{self, Nothing, One, Open};
use super::follow::{alternatives, ends_text, latin, option_after};
use super::lists::{is_list, labels};
use super::sentences::is_refused;
use crate::scoring::strict::leads::TURNED_DOWN;
use crate::scoring::strict::options::{Options, words};
use crate::scoring::strict::reply::BOX;

/// A text that is one answer and nothing else: a letter, a letter with its option, an option.
pub(super) fn short(text: &str, options: &Options) -> Said {
    pattern! { BARE = r"^[^\w?]*(?:(?i:the\s+)?(?i:final |correct |best )?(?i:option|answer|choice|letter|ans|antwort|réponse|respuesta|resposta|risposta|选项|答案|回答|答え|選択肢|정답|답|ответ)\s*(?i:is)?[\s:.=-]*)?[^\w?]*([A-Za-zАВСЕ])(?:[^\w?+#-][^\w?]*)?(?:\s+(?i:option|选项))?[^\w?+#]*$" }
    let text = text.trim_start_matches(BOX);
    if text.contains(['✗', '✘', '❌', '≠', '¬', '×', BOX]) {
        return Nothing;
    }
    let said = words(text);
    if let Some(letter) =
        options.named(&said).filter(|_| said.concat().len() > 1 && text.contains(['+', '#']))
    {
        return One(letter, "option_text");
    }
    if let Some(found) = BARE.captures(text).and_then(|found| found[1].chars().next()).map(latin) {
        return options.letter(found).map_or(Nothing, |letter| One(letter, "letter_only"));
    }
    // One letter said again: `B. B`
    let mut alone = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    if let Some(first) = alone.next()
        && alone.all(|word| word == first)
        && let [letter] = first.chars().collect::<Vec<_>>()[..]
        && let Some(letter) = options.letter(letter).filter(|found| *found == letter && !text.contains('?'))
    {
        return One(letter, "letter_only");
    }
    let is_labelled =
        labels(text, options).next().is_some_and(|(at, _)| !text[..at].contains(char::is_alphanumeric));
    if !is_labelled && let Some(letter) = options.named(&said) {
        return One(letter, "option_text");
    }
    if let Some(letter) = affirmed(text.trim_matches([' ', '.', '!', '。', '"']))
        .and_then(|word| options.named(&[word.to_owned()]))
    {
        return One(letter, "option_text");
    }
    if is_list(text, options) {
        return Nothing;
    }
    pattern! { SOFT = r"(?i)^(?:(?:probably|most likely|likely|definitely|certainly|I think|I believe|I would say|I'd say|it is|it's|it was|this is|that is|that's|they are)[\s,:]+)+" }
    if let Some(soft) = SOFT.find(text) {
        let rest = &text[soft.end()..];
        let said = words(rest);
        pattern! { MARKED = r"^[(\[]*[A-Z][)\]]" }
        if let Some((letter, taken)) = options.begun(&said).filter(|_| !MARKED.is_match(rest))
            && (taken == said.len() || ends_text(rest, &said, taken))
        {
            return One(letter, "option_text");
        }
    }
    match led(text, options) {
        Nothing => begins_with_text(text, options),
        said => said,
    }
}

/// `Nein`, `はい` as the English word.
fn affirmed(word: &str) -> Option<&'static str> {
    const YES: [&str; 13] =
        ["yes", "yeah", "yep", "ja", "oui", "sí", "sì", "sim", "да", "是", "是的", "はい", "네"];
    const NO: [&str; 12] =
        ["no", "nope", "nein", "non", "não", "нет", "否", "不是", "不", "いいえ", "아니요", "아니오"];
    let word = word.to_lowercase();
    match () {
        () if YES.contains(&&*word) => Some("yes"),
        () if NO.contains(&&*word) => Some("no"),
        () => None,
    }
}

/// The text of one option in front of an explanation that names no other: `No, he leaves without it.`
pub(super) fn begins_with_text(text: &str, options: &Options) -> Said {
    let said = words(text);
    let Some((letter, taken)) = options.begun(&said) else { return Nothing };
    pattern! {
        DENIED = r"(?i),?\s*(?:and |but )?\b(?:not|rather than|instead of|nicht|et non|pas)\s+[^,.;]*"
    }
    let kept = words(&DENIED.replace_all(text, " "));
    let is_alone = || options.mentions(&kept).iter().all(|(other, ..)| *other == letter);
    let line = text.lines().next().unwrap_or_default();
    let ends = taken < said.len() && words(line).len() >= taken && ends_text(line, &said, taken);
    match ends
        && is_alone()
        && labels(text, options).all(|(_, label)| label == letter)
        && !is_refused(text)
        && !text.contains(['?', '？'])
        && !["ではな", "ではあり", "じゃな", "아니", "아닙", "नहीं", "değil"]
            .iter()
            .any(|no| text.contains(no))
        && !TALK.is_match(text)
    {
        true => One(letter, "option_text"),
        false => Nothing,
    }
}

pattern! {
    /// What a reply says about itself before it answers.
    pub(super) TALK = r"(?i)\b(?:let me|I will|I'll|I need|I look|idea|frames were|I can help)\b"
}

/// A letter in front of its option's text, or set off by a mark that only a label has.
pub(super) fn led(text: &str, options: &Options) -> Said {
    pattern! { LED = r"^[^\w]*(?:(?i:option|choice|answer|antwort|réponse|proposition|opción|respuesta|opzione|risposta|resposta|вариант|选项|選項|選択肢)\s*)?[(\[{]*([A-Z])(\s*[)\]}]?\s*[.):、,，\]：]+|\s?\(|\s*[-–—=→]+\s|[)\]]|\s|$)\s*" }
    let Some(found) = LED.captures(text) else { return Nothing };
    let Some(letter) = found[1].chars().next().and_then(|letter| options.letter(letter)) else {
        return Nothing;
    };
    let (mark, rest) = (found.get(2).map_or("", |mark| mark.as_str()), &text[found[0].len()..]);
    let after = &text[found.get(1).map_or(0, |label| label.end())..];
    // `D.C.`, `B.1`
    let is_abbreviation = mark.ends_with('.')
        && !text[..found[0].len()].ends_with(char::is_whitespace)
        && rest.starts_with(|c: char| c.is_ascii_alphanumeric())
        && options.begun(&words(rest)).is_none();
    if is_abbreviation {
        return Nothing;
    }
    if TURNED_DOWN.is_match(after) {
        return Nothing;
    }
    let line = rest.lines().next().unwrap_or_default();
    let said = words(line);
    match options.begun(&said) {
        // A letter and a blank may be an article.
        Some((other, taken))
            if other == letter
                && (!mark.trim().is_empty() || taken == said.len() || ends_text(line, &said, taken)) =>
        {
            return match option_after(&said[taken..], options) {
                true => Open,
                false => alternatives(after, options, letter, "option"),
            };
        }
        // The text of another option; of one that is a number, with what is counted.
        Some((other, taken))
            if taken == said.len()
                || other != letter && said[..taken].iter().all(|word| word.parse::<f64>().is_ok()) =>
        {
            return Open;
        }
        _ => {}
    }
    pattern! { REASON = r"^(?i:because|since|weil|car|parce que|porque|perché)\b" }
    pattern! { ONLY_IF = r"^(?i:(?:but )?(?:only )?(?:if|provided|unless)|but only)\b" }
    if ONLY_IF.is_match(rest) && mark.trim_start().starts_with(',') {
        return Open;
    }
    // `I, as a model, …`
    if letter == 'I' && mark.trim_start().starts_with(',') {
        return Nothing;
    }
    let is_marked = REASON.is_match(rest)
        || mark.trim_start().starts_with(['.', ')', ':', '、', ']', '}'])
        || (mark.trim().starts_with([',', '-', '–', '—', '('])
            && !said.is_empty()
            && !(matches!(letter, 'A' | 'I') && mark.starts_with(' ')));
    if is_marked { alternatives(after, options, letter, "option") } else { Nothing }
}
