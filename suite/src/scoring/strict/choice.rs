//! The letter that a reply chooses.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::leads::{
    self, CALLED, CHECKED, CONDITION, LEADS, NEGATED, OTHERS, SOFTENED, Strength, TAKEN_BACK,
};
use super::options::{Options, is_unspaced, words};
use super::reply::{BOX, Reply, close_after, close_before, json, plain, regex};
use crate::reference::Tag;

/// What stands at a place of a reply.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Said {
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
/// | `json` | the one answer key of an object | two keys with different answers, scores of all options |
/// | `letter_only` | a reply that is one letter in any dress | two letters; a letter that the row does not have |
/// | `option` | a letter in front of its option's text, or of an explanation | a list of options; the text of another option |
/// | `option_text` | the text of one option and nothing else | a text that two options have |
/// | `boxed` | the last box | a box with two letters |
/// | `answer_is` | the last phrase of `LEADS` and what follows | articles, conditions, others' opinions, negations, `B or C` |
/// | `called_right` | `B is correct` | the same in a condition or with a but |
/// | `checked` | the only line of a list or table with a check mark | two marked lines |
/// | `letter_line` | a line that is one letter, or one option with its text | lines of a list |
/// | `only_label` | the only label in a text, `which is option B` | a denied one |
/// | `option_sentence` | the only sentence, or a concluding one, that says one option | two options in it, a negation |
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
    static DIALOGUE: LazyLock<Regex> = LazyLock::new(|| regex(r"(?m)^Q\d*:"));
    static REPLY: LazyLock<Regex> = LazyLock::new(|| regex(r"(?m)^A\d*:"));
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
    match short(&reply.text, options) {
        Nothing => {}
        One(_, "option") if !is_whole(&reply.text, options) => {}
        said => return said,
    }
    match last_statement(&reply.text, options) {
        Nothing => implied(&reply.text, options),
        said => said,
    }
}

/// Whether a letter and its own text, or its explanation in the same sentence, are all that a text holds.
fn is_whole(text: &str, options: &Options) -> bool {
    let said = words(text);
    let own = said.first().and_then(|first| options.text_of(options.letter(first.chars().next()?)?));
    own.is_some_and(|own| said[1..] == *own)
}

/// The answer key of an object, or of the only object of a list.
fn in_json(value: &Value, options: &Options) -> Said {
    const KEYS: [&str; 26] = [
        "result",
        "response",
        "output",
        "final",
        "antwort",
        "réponse",
        "respuesta",
        "resposta",
        "answer",
        "finalanswer",
        "correctanswer",
        "choice",
        "finalchoice",
        "option",
        "correctoption",
        "selected",
        "selectedoption",
        "selectedanswer",
        "selectedchoice",
        "prediction",
        "predictedanswer",
        "ans",
        "letter",
        "答案",
        "选项",
        "回答",
    ];
    /// Beside an answer key: what must not contradict it.
    const TEXTS: [&str; 4] = ["text", "answertext", "optiontext", "content"];
    match value {
        Value::String(text) => short(&plain(text), options),
        Value::Array(all) => match &all[..] {
            [one] => in_json(one, options),
            several => {
                let found = several.iter().filter(|value| in_json(value, options) != Nothing).count();
                if found > 1 { Open } else { Nothing }
            }
        },
        Value::Object(fields) => {
            let key = |name: &str| name.to_lowercase().replace(['_', '-', ' '], "");
            let answers = fields.iter().filter(|(name, _)| KEYS.contains(&key(name).as_str()));
            let mut said: Vec<Said> =
                answers.map(|(_, value)| in_json(value, options)).filter(|said| *said != Nothing).collect();
            if !said.is_empty() {
                let texts = fields.iter().filter(|(name, _)| TEXTS.contains(&key(name).as_str()));
                said.extend(texts.map(|(_, value)| in_json(value, options)).filter(|said| *said != Nothing));
            }
            match said[..] {
                [] if fields.len() == 1 => {
                    fields.values().next().map_or(Nothing, |only| in_json(only, options))
                }
                [] => Nothing,
                [One(letter, _), ref rest @ ..]
                    if rest.iter().all(|said| matches!(said, One(other, _) if *other == letter)) =>
                {
                    One(letter, "json")
                }
                _ => Open,
            }
        }
        _ => Nothing,
    }
}

/// A text that is one answer and nothing else: a letter, a letter with its option, an option.
fn short(text: &str, options: &Options) -> Said {
    static BARE: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r"^[^\w?]*(?:(?i:the\s+)?(?i:final |correct |best )?(?i:option|answer|choice|letter|ans|antwort|réponse|respuesta|resposta|risposta|选项|答案|回答|答え|選択肢|정답|답|ответ)\s*(?i:is)?[\s:.=-]*)?[^\w?]*([A-Za-zАВСЕ])(?:[^\w?+#-][^\w?]*)?(?:\s+(?i:option|选项))?[^\w?]*$",
        )
    });
    let text = text.trim_start_matches(BOX);
    if text.contains(['✗', '✘', '❌', '≠', '¬', '×', BOX]) {
        return Nothing;
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
    if !is_labelled && let Some(letter) = options.named(&words(text)) {
        return One(letter, "option_text");
    }
    if is_list(text, options) {
        return Nothing;
    }
    static SOFT: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r"(?i)^(?:(?:probably|most likely|likely|definitely|certainly|I think|I believe|I would say|I'd say|it is|it's|it was|this is|that is|that's|they are)[\s,:]+)+",
        )
    });
    if let Some(soft) = SOFT.find(text) {
        let rest = &text[soft.end()..];
        let said = words(rest);
        if let Some((letter, taken)) = options.begun(&said)
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

/// The text of one option in front of an explanation that names no other: `No, he leaves without it.`
fn begins_with_text(text: &str, options: &Options) -> Said {
    /// What a reply says about itself before it answers.
    static TALK: LazyLock<Regex> =
        LazyLock::new(|| regex(r"(?i)\b(?:let me|I will|I'll|I need|I look|idea|frames were|I can help)\b"));
    let said = words(text);
    let Some((letter, taken)) = options.begun(&said) else { return Nothing };
    static DENIED: LazyLock<Regex> = LazyLock::new(|| {
        regex(r"(?i),?\s*(?:and |but )?\b(?:not|rather than|instead of|nicht|et non|pas)\s+[^,.;]*")
    });
    let kept = words(&DENIED.replace_all(text, " "));
    let is_alone = || named(&kept, options).iter().all(|(other, ..)| *other == letter);
    let line = text.lines().next().unwrap_or_default();
    let ends = taken < said.len() && words(line).len() >= taken && ends_text(line, &said, taken);
    match ends
        && is_alone()
        && labels(text, options).all(|(_, label)| label == letter)
        && !is_refused(text)
        && !text.contains(['?', '？'])
        && !TALK.is_match(text)
    {
        true => One(letter, "option_text"),
        false => Nothing,
    }
}

/// A Cyrillic letter that looks like a Latin one as that one.
fn latin(letter: char) -> char {
    match letter {
        'А' => 'A',
        'В' => 'B',
        'С' => 'C',
        'Е' => 'E',
        other => other,
    }
}

/// A letter in front of its option's text, or set off by a mark that only a label has.
fn led(text: &str, options: &Options) -> Said {
    static LED: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r"^[^\w]*(?:(?i:option|choice|answer|antwort|réponse|proposition|opción|respuesta|opzione|risposta|resposta|вариант|选项|選項|選択肢)\s*)?[(\[{]*([A-Z])(\s*[)\]}]?\s*[.):、,，\]：]+|\s?\(|\s*[-–—=→]+\s|[)\]]|\s|$)\s*",
        )
    });
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
        // The text of another option.
        Some((_, taken)) if taken == said.len() => return Open,
        _ => {}
    }
    static REASON: LazyLock<Regex> =
        LazyLock::new(|| regex(r"^(?i:because|since|weil|car|parce que|porque|perché)\b"));
    let is_marked = REASON.is_match(rest)
        || mark.trim_start().starts_with(['.', ')', ':', '、', ']', '}'])
        || (mark.trim().starts_with([',', '-', '–', '—', '('])
            && !said.is_empty()
            && !(matches!(letter, 'A' | 'I') && mark.starts_with(' ')));
    if is_marked { alternatives(after, options, letter, "option") } else { Nothing }
}

/// Whether another option follows as an alternative.
fn alternatives(rest: &str, options: &Options, letter: char, rule: &'static str) -> Said {
    static OTHER: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r"^[)\]}.:\s(]*(?:(?i:and/or|or else|as well as|then|or|and|und|oder|ou|et|o|u|y|e|и|или)\s|/|&|,|，|、|和|或者?|与|及|还是|か|と|または|및|또는|와|나)\s*(?i:possibly |maybe |perhaps |even |also )?(?i:option |choice |answer |opción |opção |option )?[(\[]?([A-Z])(?:[^\w'’]|$)",
        )
    });
    static CUT: LazyLock<Regex> = LazyLock::new(|| regex(r"(?i)^\s+(?:or|and)\s*$"));
    let other = OTHER.captures(rest).and_then(|found| {
        let (other, end) = (options.letter(found[1].chars().next()?)?, found.get(1)?.end());
        // `, C is wrong`, `, I think`, `and a cat`
        static GOES_ON: LazyLock<Regex> =
            LazyLock::new(|| regex(r"^\s+(?:is|are|was|being|and [A-Z] (?:are|is))\b"));
        let is_word = matches!(other, 'A' | 'I')
            && rest[end..].starts_with(' ')
            && rest[end..].trim_start().starts_with(|c: char| c.is_lowercase());
        (!is_word && !GOES_ON.is_match(&rest[end..])).then_some(other)
    });
    if CUT.is_match(rest) {
        return Open;
    }
    if other.is_some_and(|other| other != letter) { Open } else { One(letter, rule) }
}

/// Lines or parts of a line that begin with different letters: a list of options.
fn is_list(text: &str, options: &Options) -> bool {
    let mut letters: Vec<char> = labels(text, options).map(|(_, letter)| letter).collect();
    letters.sort_unstable();
    letters.dedup();
    letters.len() > 1
}

/// Whether a line lists options: labels with their own texts, or labels where no texts are known.
fn lists_texts(line: &str, options: &Options) -> bool {
    let is_listed = |(at, letter): &(usize, char)| {
        options.text_of(*letter).is_none()
            || options.begun(&words(&line[at + 1..])).is_some_and(|(other, _)| other == *letter)
    };
    let mut letters: Vec<char> = labels(line, options).filter(is_listed).map(|(_, letter)| letter).collect();
    letters.sort_unstable();
    letters.dedup();
    letters.len() > 1
}

/// Places and letters of labels in a text, `A.` or `(B)`: where a line or a part of a sentence begins, or in front of the
/// option's own text.
fn labels<'a>(text: &'a str, options: &'a Options) -> impl Iterator<Item = (usize, char)> + 'a {
    static LABEL: LazyLock<Regex> = LazyLock::new(|| regex(r"(?:^|[\s,;(（])([A-Z])\s?[.):、]"));
    static NOUN: LazyLock<Regex> = LazyLock::new(|| {
        regex(r"(?i)(?:option|choice|answer|antwort|réponse|opción|respuesta|选项|選項|選択肢)\s*[(\[]?$")
    });
    LABEL.captures_iter(text).filter_map(|found| {
        let (label, whole) = (found.get(1)?, found.get(0)?);
        let letter = options.letter(label.as_str().chars().next()?)?;
        let (head, rest) = (&text[..label.start()], &text[whole.end()..]);
        let is_set_off = rest.chars().next().is_none_or(|c| !c.is_ascii_alphanumeric());
        let head = NOUN.find(head).map_or(head, |noun| &head[..noun.start()]);
        let begins = head
            .trim_end_matches([' ', '(', '['])
            .chars()
            .next_back()
            .is_none_or(|c| "\n.,;:!?。，；：|".contains(c));
        let is_own = || {
            options
                .begun(&words(rest.lines().next().unwrap_or_default()))
                .is_some_and(|(other, _)| other == letter)
        };
        (is_set_off && begins || is_own()).then_some((label.start(), letter))
    })
}

/// The last statement of a text.
fn last_statement(text: &str, options: &Options) -> Said {
    let mut last: Option<(usize, Said)> = None;
    let mut put = |at: usize, said: Said| {
        if said != Nothing && last.is_none_or(|(place, _)| place <= at) {
            last = Some((at, said));
        }
    };
    for lead in LEADS.iter() {
        for found in lead.pattern.find_iter(text) {
            if is_said(text, found.start(), found.end()) {
                let said = after_lead(text, found.end(), options, lead.strength);
                let is_hedged =
                    lead.strength != Strength::Strong || found.as_str().to_lowercase().contains("would");
                if !is_hedged || !has_but(close_after(&text[found.end()..])) {
                    put(found.end(), said);
                }
            }
        }
    }
    let mut right: Vec<char> = Vec::new();
    for called in CALLED.iter() {
        for found in called.captures_iter(text) {
            let (Some(whole), Some(label)) = (found.get(0), found.get(1)) else { continue };
            let letter = label.as_str().chars().next().and_then(|letter| options.letter(letter));
            let Some(letter) = letter else { continue };
            static DENIED: LazyLock<Regex> = LazyLock::new(|| {
                regex(
                    r"^(?:ではない|ではあり|じゃない|でない|とは言え|아닙|이 아|가 아)|^\s+for the (?:first|second|other)",
                )
            });
            static OR: LazyLock<Regex> = LazyLock::new(|| regex(r"(?:또는|か|或者?|\bor|\band)\s*$"));
            let is_denied = DENIED.is_match(close_after(&text[whole.end()..]))
                || OR.is_match(close_before(text, label.start()));
            if !is_denied
                && is_said(text, label.start(), label.start())
                && !has_but(close_after(&text[whole.end()..]))
            {
                right.push(letter);
                put(
                    label.start(),
                    if right.iter().all(|other| *other == letter) {
                        One(letter, "called_right")
                    } else {
                        Open
                    },
                );
            }
        }
    }
    let mut checked: Vec<(usize, char)> = CHECKED
        .captures_iter(text)
        .filter_map(|found| found.get(1).or(found.get(2)))
        .filter_map(|label| Some((label.start(), options.letter(label.as_str().chars().next()?)?)))
        .collect();
    checked.dedup_by_key(|(_, letter)| *letter);
    match checked[..] {
        [] => {}
        [(at, letter)] => put(at, One(letter, "checked")),
        [(at, _), ..] => put(at, Open),
    }
    opener(text, options, &mut put);
    lines(text, options, &mut put);
    let (at, said) = last.unwrap_or((0, Nothing));
    if said != Nothing && TAKEN_BACK.is_match(&text[at..]) { Open } else { said }
}

/// A label at the beginning of a text, unless its own sentence rejects it: `A) This is wrong`.
fn opener(text: &str, options: &Options, put: &mut impl FnMut(usize, Said)) {
    static REJECTED: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r"(?i)\b(?:wrong|incorrect|false|not|never|isn't|wasn't|doesn't|didn't|can't|cannot|ruled out|eliminated?|excluded|unlikely|tempting|possible|falsch|faux|incorrecto|incorrecta|pas|nicht|no es)\b|错|不|非|ない|ません",
        )
    });
    static SUBJECT: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r"(?i)^[\s.:)\]、,(-]*(?:this|that|it|is|was|are|were|would|could|can|does|did|has|may|might|seems|looks|the option|this option|[-–—]|never)\b",
        )
    });
    let line = text.lines().next().unwrap_or_default();
    let One(letter, rule) = led(line, options) else { return };
    let Some(at) = line.find(letter) else { return };
    let next = labels(text, options).map(|(_, label)| label).find(|label| *label != letter);
    if next.is_some_and(|next| next as u32 == letter as u32 + 1) {
        return;
    }
    let rest = &line[at + 1..];
    let said = words(rest);
    let sentence = rest.trim_start_matches(['.', ')', ':', ']', ' ']);
    let sentence = &sentence[..sentence.find(['.', '!', '?', ';', '。']).unwrap_or(sentence.len())];
    let own = options.text_of(letter).filter(|own| said.starts_with(own));
    // Behind its own text a sentence goes on about the option: `A: The red lamp is not visible`.
    let goes_on = own.is_some_and(|own| words(sentence).len() > own.len());
    if (goes_on || own.is_none() && SUBJECT.is_match(rest)) && REJECTED.is_match(sentence) {
        return;
    }
    // The text of another option in part: `D. Beckham`, where B is `David Beckham`.
    let part = words(sentence);
    let is_part = |words: &[String]| {
        !part.is_empty() && words.len() > part.len() && words.windows(part.len()).any(|window| window == part)
    };
    if own.is_none()
        && options.text_of(letter).is_none_or(|own| !is_part(own))
        && options.texts().any(|(other, words)| other != letter && is_part(words))
    {
        return;
    }
    put(0, One(letter, rule));
}

/// Lines that are one answer and nothing else, but for those of a list; boxes.
fn lines(text: &str, options: &Options, put: &mut impl FnMut(usize, Said)) {
    let mut seen: Vec<char> = Vec::new();
    let (is_list, length) = (is_list(text, options), text.trim_end().len());
    let mut at = 0;
    let mut bare_before = None;
    for line in text.split('\n') {
        let start = at;
        at += line.len() + 1;
        let said = short(line, options);
        if line.starts_with(BOX) {
            match said {
                One(letter, _) => put(start, One(letter, "boxed")),
                said => put(start, said),
            }
            continue;
        }
        let One(letter, rule) = said else {
            bare_before = None;
            continue;
        };
        // A label with more than its own text behind it begins an explanation.
        if rule == "option" && !is_whole(line, options) {
            bare_before = None;
            seen.push(letter);
            continue;
        }
        // Letters on lines behind each other are a list of them.
        let is_bare = rule == "letter_only";
        let follows = bare_before.replace(letter).is_some_and(|before| before != letter);
        let is_end = start == 0 || start + line.len() >= length;
        let counts = match is_bare {
            true => true,
            // Inside of a text, an option is part of the reasoning.
            false if !is_end => false,
            false if lists_all(text, options) => false,
            // A list names each option once; an answer under it repeats one, an answer above it is not followed by the
            // next letter.
            false => {
                !is_list
                    || seen.contains(&letter)
                    || start == 0 && stands_above(&text[at.min(text.len())..], options, letter)
            }
        };
        if counts {
            put(
                start,
                if is_bare && (follows || lists_all(text, options)) {
                    Open
                } else {
                    One(letter, "letter_line")
                },
            );
        }
        seen.push(letter);
    }
}

/// Whether at least three lines are different options, each said as often as the others: the options copied, not chosen.
fn lists_all(text: &str, options: &Options) -> bool {
    let mut counts: BTreeMap<char, usize> = BTreeMap::new();
    for line in text.split('\n') {
        if let One(letter, _) = short(line, options) {
            *counts.entry(letter).or_default() += 1;
        }
    }
    let most = counts.values().max().copied().unwrap_or(0);
    counts.len() > 2 && counts.values().filter(|count| **count == most).count() > 1
}

/// Whether the first line is an answer above a list of the other options: a blank line is between them, and the list does
/// not go on where the line left off.
fn stands_above(rest: &str, options: &Options, letter: char) -> bool {
    let next = labels(rest, options).next().map(|(_, next)| next);
    rest.starts_with('\n') && next.is_some_and(|next| next as u32 != letter as u32 + 1 && next != letter)
}

/// Whether a phrase is said by the model itself: not in a condition or a question, not of others, not negated.
fn is_said(text: &str, start: usize, end: usize) -> bool {
    let (before, sentence) = sentence_of(text, start);
    let rest = close_after(&text[end..]);
    let stop = rest.find(['.', '!', '?', '\n', '？', '！']).map(|at| &rest[at..]);
    let is_question = stop.is_some_and(|stop| {
        stop.starts_with(['?', '？']) && !rest[..rest.len() - stop.len()].contains(['–', '—', ',', ';'])
    });
    static CONTRAST: LazyLock<Regex> =
        LazyLock::new(|| regex(r"(?i)^(?:ではなく|而是|아니라|sondern|but rather|sino|,\s*а)"));
    if CONTRAST.is_match(&text[start..]) {
        return true;
    }
    let depends = CONDITION.is_match(before) && !SOFTENED.is_match(before);
    let is_others = text[start..end].contains(char::is_alphabetic) && leads::is_of_other_answer(before);
    let is_denied = NEGATED.is_match(before) || leads::is_clause_denied(before);
    !(is_question || depends || is_others || is_denied || OTHERS.is_match(before) || sentence.is_empty())
}

/// The beginning of the sentence that holds a place, and the sentence from there on.
fn sentence_of(text: &str, at: usize) -> (&str, &str) {
    let (before, from) = (close_before(text, at), at - close_before(text, at).len());
    let stop = before.char_indices().rfind(|(at, c)| match c {
        '\n' | '!' | '?' | '！' | '？' | ';' | '；' => true,
        '.' => before[at + 1..].starts_with(char::is_whitespace) || before[at + 1..].starts_with(is_unspaced),
        _ => false,
    });
    let start = from + stop.map_or(0, |(at, c)| at + c.len_utf8());
    (&text[start..at], &text[start..])
}

/// Whether the rest of a sentence takes back what its beginning said.
fn has_but(rest: &str) -> bool {
    static BUT: LazyLock<Regex> = LazyLock::new(|| {
        regex(r"(?i)^[^.\n]{0,160}\b(?:but|however|though|although|except|only if|unless|yet)\b")
    });
    BUT.is_match(rest)
}

/// What follows a phrase.
fn after_lead(text: &str, at: usize, options: &Options, strength: Strength) -> Said {
    let is_strong = strength == Strength::Strong;
    static LETTER: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r#"^[\s:(\[{"'\x01]*(?:(?i:option|choice|letter|answer|the letter|la|opción|lettre|opção)\s+)?[(\[{"'<]*([A-Za-zАВСЕ])([)\]}"'>]*)"#,
        )
    });
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
    static IF: LazyLock<Regex> =
        LazyLock::new(|| regex(r"(?i)^[\s,)]{0,3}(?:only )?(?:if|provided|unless|assuming|at first)\b"));
    static ALSO: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r"(?i)^[^.\n]{0,40}\b(?:but|or|though)\b[^.\n]{0,20}\b(?:could|might|may) (?:also|as well|be)\b|^[^\n]{0,60}Without more context",
        )
    });
    if IF.is_match(after) {
        return Nothing;
    }
    if ALSO.is_match(after) {
        return Open;
    }
    let is_boundary = after.is_empty()
        || after.starts_with(['\n', ',', ';', '!', '，', '；', '！', '、', BOX])
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
        ) || next.starts_with(['-', '–', '—', '(', '[', '→', '=']));
    let own_text = || {
        let own = options.text_of(letter)?;
        words(next.lines().next()?).starts_with(own).then_some(())
    };
    let is_upper = written.is_ascii_uppercase();
    if !after.is_empty() && (is_upper || is_strong) && own_text().is_some() {
        return alternatives(after, options, letter, "answer_is");
    }
    if strength == Strength::Label {
        return Nothing;
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
        && taken == told.len()
        && is_upper
        && !after.starts_with('\n')
    {
        return Open;
    }
    let word_follows = after.starts_with(char::is_whitespace) && !next.is_empty();
    let taken = match (is_boundary, is_strong) {
        // A lower-case letter before a comma may be a word of another language.
        (true, _) => {
            is_upper || after.is_empty() || after.starts_with(['.', '\n', BOX]) || !close.as_str().is_empty()
        }
        (false, _) if gives_reason => is_upper,
        (false, true) => {
            is_upper
                && word_follows
                && !matches!(letter, 'A' | 'I')
                && next.starts_with(|c: char| c.is_lowercase())
        }
        (false, false) => false,
    };
    if taken { alternatives(after, options, letter, "answer_is") } else { Nothing }
}

/// Whether another option's letter or text follows as an alternative.
fn option_after(said: &[String], options: &Options) -> bool {
    let [word, rest @ ..] = said else { return false };
    if options.begun(said).is_some() && options.texts().all(|(_, words)| words.len() < 3) {
        return true;
    }
    if matches!(word.as_str(), "or" | "as")
        && rest.iter().enumerate().take(3).any(|(at, _)| options.begun(&rest[at..]).is_some())
    {
        return true;
    }
    matches!(word.as_str(), "or" | "and" | "oder" | "und" | "ou" | "et" | "o" | "y" | "或")
        && (options.begun(rest).is_some()
            || rest
                .first()
                .is_some_and(|word| word.len() == 1 && word.chars().all(|c| options.letter(c).is_some())))
}

/// Whether a sentence may end after these many words of a line: a stop, a comma or a reason follows.
fn ends_text(line: &str, said: &[String], taken: usize) -> bool {
    const REASONS: [&str; 12] =
        ["because", "since", "as", "which", "based", "given", "due", "for", "weil", "car", "porque", "not"];
    if REASONS.contains(&said[taken].as_str()) {
        return true;
    }
    // The shortest beginning of the line with as many words, and the mark behind it.
    let end = line.char_indices().map(|(at, c)| at + c.len_utf8()).find(|&at| {
        words(&line[..at]).len() >= taken
            && words(&line[..at])[..taken] == said[..taken]
            && !line[at..].starts_with(|c: char| c.is_alphanumeric())
    });
    end.is_some_and(|at| {
        line[at..]
            .trim_start_matches([')', ']', '\'', ' '])
            .starts_with(['.', ',', ';', '!', ':', '(', '-', '–', '—', '，'])
    })
}

/// Fallbacks for a text without a statement: one label in it, a conclusion or the only sentence that names one option.
fn implied(text: &str, options: &Options) -> Said {
    static LABEL: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r"(?:^|[^\w])(?i:option|choice|answer choice|alternative|选项|選項|選択肢)\s*[(\[]?([A-Z])(?:[^\w'’-]|$)",
        )
    });
    // A long text that stops in the middle of a sentence was cut before it concluded.
    let is_cut = text.chars().count() > 200
        && text.ends_with(|c: char| c.is_alphanumeric() || matches!(c, ',' | '、' | '，' | '-'));
    if is_cut {
        return Nothing;
    }
    let mentions: Vec<(usize, char)> = LABEL
        .captures_iter(text)
        .filter_map(|found| Some((found.get(1)?.start(), options.letter(found[1].chars().next()?)?)))
        .collect();
    if let [(at, letter), ref rest @ ..] = mentions[..]
        && rest.iter().all(|(_, other)| *other == letter)
        && !is_list(text, options)
    {
        let (before, sentence) = sentence_of(text, at);
        let sentence = format!("{before}{}", sentence.strip_prefix(before).unwrap_or(sentence));
        let sentence = sentence.split('\n').next().unwrap_or_default();
        if is_said(text, at, at) && !is_doubtful(sentence) {
            return One(letter, "only_label");
        }
    }
    let labelled: Vec<(usize, char)> = labels(text, options).collect();
    if let Some(&(at, letter)) = labelled.first() {
        let own = options.begun(&words(&text[at + 1..])).is_some_and(|(other, _)| other == letter);
        let is_single = labelled.iter().all(|(_, other)| *other == letter);
        let sentence = text[at..].split('\n').next().unwrap_or_default();
        let is_sure =
            is_said(text, at, at) && !is_doubtful(sentence) && !is_doubtful(sentence_of(text, at).0);
        return if is_single && own && is_sure && !is_refused(text) {
            One(letter, "only_label")
        } else {
            Nothing
        };
    }
    let sentences = sentences(text);
    let Some(last) = sentences.last() else { return Nothing };
    if let Some(conclusion) = concluded(last) {
        return sentence(conclusion, options);
    }
    if let Some(letter) = options.named(&words(last)) {
        return One(letter, "option_sentence");
    }
    if is_refused(text) || sentences.iter().any(|sentence| sentence.ends_with(['?', '？'])) {
        return Nothing;
    }
    // Of several sentences only where no other option is named in any of them.
    let said: Vec<Said> =
        sentences.iter().map(|one| sentence(one, options)).filter(|said| *said != Nothing).collect();
    let named = named(&words(text), options);
    match said.first() {
        Some(&One(letter, rule)) if named.iter().all(|(other, ..)| *other == letter) => One(letter, rule),
        _ => Nothing,
    }
}

/// Whether a text says that it cannot answer.
fn is_refused(text: &str) -> bool {
    static REFUSED: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r"(?i)\b(?:cannot|can't|can not|could not|couldn't|unable|impossible|not possible|not (?:able|clear|enough|sufficient|provided|listed|among|explicitly)|sorry|insufficient|no (?:video|image|information|way)|unclear|as an AI|please (?:share|upload|provide|send|attach)|happy to help|can help)\b|无法|無法|不能|抱歉|稍等|承知|かしこまり|お待ち|できません|分かりません|kann (?:ich )?nicht|impossible de|no (?:puedo|es posible)|não (?:posso|é possível)",
        )
    });
    REFUSED.is_match(text)
}

/// The rest of a sentence behind a word that draws a conclusion.
fn concluded(sentence: &str) -> Option<&str> {
    static CONCLUSION: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r"(?i)(?:^|[,;:]\s*(?:and\s+)?)(?:so|in the end|thus|hence|therefore|in conclusion|in summary|in short|overall|consequently|to conclude|a good summary is that|as a result|final(?:ly)?|因此|所以|综上(?:所述)?|したがって|よって|daher|also|folglich|donc|ainsi|por (?:lo )?tanto|entonces|portanto|quindi|итак|поэтому)\b[\s,:，、]*",
        )
    });
    CONCLUSION.find_iter(sentence).last().map(|found| &sentence[found.end()..])
}

/// Sentences of a text.
fn sentences(text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut rest = text;
    while !rest.trim().is_empty() {
        let end = rest.char_indices().find(|(at, c)| match c {
            '\n' | '!' | '！' | '？' => true,
            '?' => !rest[at + 1..].trim_start().starts_with(|c: char| c.is_lowercase()),
            '.' => rest[at + 1..].chars().next().is_none_or(|c| c.is_whitespace() || is_unspaced(c)),
            _ => false,
        });
        let end = end.map_or(rest.len(), |(at, c)| at + c.len_utf8());
        all.extend(Some(rest[..end].trim()).filter(|sentence| !sentence.is_empty()));
        rest = &rest[end..];
    }
    all
}

/// Whether a sentence denies, weighs or asks.
fn is_doubtful(sentence: &str) -> bool {
    static DOUBT: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r"(?i)\b(?:not|no|never|without|neither|nor|rather|instead|unlike|except|but|or|either|if|question|asked|asks|need to|let me|let's|first|look at|require|describes|error|invalid|comparing|misleading|cannot|can't|isn't|aren't|doesn't|don't|didn't|wasn't|although|though|however|could|might|may|könnte|würde|pourrait|podría|possible|possibly|could argue|unclear|unsure|maybe|sorry|unable|wrong|incorrect|eliminated?|excluded?|ruled?|nicht|kein\w*|pas|ne|aucun\w*|ni|ningun\w*|non|não|nem|oder|ou|не|или)\b|\?\s*$|不|没|沒|非|或|错|ない|ません|아니|않",
        )
    });
    DOUBT.is_match(sentence)
}

/// One sentence that is about one option: it begins or ends with its text, says that something is it, or repeats at least
/// three words of it; and names no other.
fn sentence(text: &str, options: &Options) -> Said {
    const IS: [&str; 12] = [
        "is",
        "are",
        "was",
        "were",
        "be",
        "shows",
        "show",
        "represents",
        "called",
        "named",
        "depicts",
        "becomes",
    ];
    let said = words(text);
    let whole = named(&said, options);
    let Some(&(letter, ..)) = whole.first() else { return Nothing };
    let is_article = |word: &String| matches!(word.as_str(), "a" | "an" | "the");
    let is_stated = |&(_, from, to): &(char, usize, usize)| {
        let before = said[..from].iter().rev().find(|word| !is_article(word));
        let is = before.is_some_and(|word| IS.contains(&word.as_str()));
        let there = is && said.first().is_some_and(|word| word == "there");
        let begins = to - from > 1 && said[..from].iter().all(is_article);
        to == said.len()
            || begins
            || there
            || is && ends_text(text, &said, to)
            || to - from > 2
                && !said
                    .iter()
                    .any(|word| matches!(word.as_str(), "who" | "which" | "that" | "later" | "about"))
    };
    let is_single = whole.iter().all(|(other, ..)| *other == letter);
    // A negation inside of the option's text is part of it: `not open`.
    let beside = |&(_, from, to): &(char, usize, usize)| [&said[..from], &said[to..]].concat().join(" ");
    let is_sure = !text.trim_end().ends_with('?') && whole.iter().all(|place| !is_doubtful(&beside(place)));
    if is_single && is_sure && whole.iter().any(is_stated) { One(letter, "option_sentence") } else { Nothing }
}

/// Options whose texts are among some words, with the places of their first word and behind their last. An option whose
/// text is part of a longer one is named with it.
fn named(said: &[String], options: &Options) -> Vec<(char, usize, usize)> {
    let mut all: Vec<(char, usize, usize)> = Vec::new();
    let is_letter = |own: &[String]| matches!(own, [word] if word.chars().count() == 1 && word.chars().all(char::is_alphabetic));
    for (letter, own) in options.texts().filter(|(_, own)| !is_letter(own)) {
        let places = said.windows(own.len()).enumerate().filter(|(_, window)| *window == own);
        all.extend(places.map(|(at, _)| (letter, at, at + own.len())));
    }
    let is_part = |(letter, from, to): &(char, usize, usize)| {
        all.iter().any(|(other, start, end)| {
            other != letter && start <= from && to <= end && end - start > to - from
        })
    };
    all.iter().filter(|place| !is_part(place)).copied().collect()
}
