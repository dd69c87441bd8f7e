//! Statements: phrases, letters that are called right, check marks, lines.

use std::collections::BTreeMap;

use super::Said::{self, Nothing, One, Open};
use super::alone::{led, short};
use super::is_whole;
use super::lead::after_lead;
use super::lists::{is_list, labels};
use super::sentences::{has_but, is_doubtful, is_said};
use crate::scoring::strict::leads::{
    self, ASIDE, CALLED, CHECKED, JOINT, LEADS, OTHER_OPTION, SPARED, Strength, TAKEN_BACK, TURNED_DOWN,
};
use crate::scoring::strict::options::{Options, words};
use crate::scoring::strict::reply::{BOX, close_after, close_before};

pub(super) fn last_statement(text: &str, options: &Options) -> Said {
    let mut last: Option<(usize, Said)> = None;
    let mut other: Option<(usize, Said)> = None;
    let mut put = |at: usize, said: Said| {
        let line = &text[text[..at].rfind('\n').map_or(0, |end| end + 1)..];
        if said == Nothing || is_turned_down(text, at, said) || ASIDE.is_match(line) {
            return;
        }
        let last = if OTHER_OPTION.is_match(line) { &mut other } else { &mut last };
        if last.is_none_or(|(place, _)| place <= at) {
            *last = Some((at, said));
        }
    };
    // First, so that a phrase in front of the same letter gives its name.
    ending(text, options, &mut put);
    phrases(text, options, &mut put);
    called_right(text, options, &mut put);
    spared(text, options, &mut put);
    counted(text, options, &mut put);
    checked(text, options, &mut put);
    behind_text(text, options, &mut put);
    opener(text, options, &mut put);
    lines(text, options, &mut put);
    let (at, said) = last.or(other).unwrap_or((0, Nothing));
    if said != Nothing && TAKEN_BACK.is_match(&text[at..]) { Open } else { said }
}

/// Whether what follows a letter denies it.
fn is_turned_down(text: &str, at: usize, said: Said) -> bool {
    let One(letter, _) = said else { return false };
    let rest = close_after(&text[at..]);
    let label = rest.find(letter).filter(|place| *place < 24);
    label.is_some_and(|place| TURNED_DOWN.is_match(&rest[place + letter.len_utf8()..]))
}

/// Phrases that say "the answer follows".
fn phrases(text: &str, options: &Options, put: &mut impl FnMut(usize, Said)) {
    for lead in LEADS.iter() {
        for found in lead.pattern.find_iter(text) {
            // A phrase that begins a sentence is not part of the one before.
            let words = found.as_str().trim_start_matches(['.', '!', '?', '…', '\n', ' ']);
            if is_said(text, found.end() - words.len(), found.end()) {
                let said = after_lead(text, found.end(), options, lead.strength);
                pattern! { HEDGE = r"(?i)\b(?:would|could|may|might)\b" }
                let is_hedged = lead.strength != Strength::Strong || HEDGE.is_match(found.as_str());
                // `A and also C`
                pattern! { ALSO = r"(?i)\b(?:and|or|und|oder)\s+$" }
                if found.as_str().to_lowercase().starts_with("also") && ALSO.is_match(&text[..found.start()])
                {
                    continue;
                }
                if !is_hedged || !has_but(close_after(&text[found.end()..])) {
                    put(found.end(), said);
                }
            }
        }
    }
}

/// Letters that are called right behind them; two different ones leave the question open.
fn called_right(text: &str, options: &Options, put: &mut impl FnMut(usize, Said)) {
    pattern! { DENIED = r"^(?:ではない|ではあり|じゃない|でない|とは言え|아닙|이 아|가 아)|^\s*(?:for )?the (?:first|second|other)\b" }
    pattern! { OR = &format!(r"(?:또는|か|或者?|还是|還是|(?:^|[^A-Za-z])[A-Z]\)?(?:,?{JOINT}|、))\s*[(\[]?$") }
    pattern! { LAST = r"[\s(]([A-Z])\)?\s+(?:is|remains|seems|looks|appears)\b" }
    let mut right: Vec<char> = Vec::new();
    for called in CALLED.iter() {
        for found in called.captures_iter(text) {
            let (Some(whole), Some(label)) = (found.get(0), found.get(1)) else { continue };
            // Of `A, C and D are wrong, so B is the answer` the letter in front of the verb.
            let last = LAST.captures_iter(whole.as_str()).last().and_then(|found| found.get(1));
            let at = last.map_or(label.start(), |last| whole.start() + last.start());
            let Some(letter) = options.written(&text[at..]) else { continue };
            let (before, after) = (close_before(text, at), close_after(&text[whole.end()..]));
            pattern! { WITH = r"[A-Z]\W{1,3}(?:possibly|maybe|perhaps|or|and)\s+[A-Z]\b" }
            let is_two = last.is_none() && WITH.is_match(whole.as_str());
            let is_denied = is_two || leads::is_name(before) || DENIED.is_match(after) || OR.is_match(before);
            if !is_denied && is_said(text, at, at) && !has_but(after) {
                right.push(letter);
                let is_one = right.iter().all(|other| *other == letter);
                put(at, if is_one { One(letter, "called_right") } else { Open });
            }
        }
    }
}

/// The one letter that is left where all others are excluded.
fn spared(text: &str, options: &Options, put: &mut impl FnMut(usize, Said)) {
    for found in SPARED.iter().filter_map(|spared| spared.captures_iter(text).last()) {
        let Some(label) = found.get(1) else { continue };
        if let Some(letter) = options.written(label.as_str()) {
            put(label.start(), One(letter, "called_right"));
        }
    }
}

/// An option by its place: `the third option is correct`.
fn counted(text: &str, options: &Options, put: &mut impl FnMut(usize, Said)) {
    const PLACES: [&str; 6] = ["first", "second", "third", "fourth", "fifth", "sixth"];
    pattern! { PLACE = r"(?i)(?:\bthe (\w+) (?:option|choice|answer|alternative|one) is (?:the )?(?:correct|right|best)|\b(?:answer|choice) is the (\w+) (?:option|choice|one)\b)" }
    for found in PLACE.captures_iter(text) {
        let Some(place) = found.get(1).or(found.get(2)) else { continue };
        let number = PLACES.iter().zip('A'..).find(|(name, _)| place.as_str().eq_ignore_ascii_case(name));
        if let Some(letter) = number.and_then(|(_, letter)| options.letter(letter))
            && is_said(text, place.start(), place.start())
        {
            put(place.start(), One(letter, "called_right"));
        }
    }
}

/// The line of a list or table with a check mark.
fn checked(text: &str, options: &Options, put: &mut impl FnMut(usize, Said)) {
    let mut all: Vec<(usize, char)> = CHECKED
        .captures_iter(text)
        .filter_map(|found| found.get(1).or(found.get(2)))
        .filter_map(|label| Some((label.start(), options.written(label.as_str())?)))
        .collect();
    all.dedup_by_key(|(_, letter)| *letter);
    match all[..] {
        [] => {}
        [(at, letter)] => put(at, One(letter, "checked")),
        [(at, _), ..] => put(at, Open),
    }
}

/// A letter in brackets behind its own text: `it has a vertex of degree 3 (option D)`.
fn behind_text(text: &str, options: &Options, put: &mut impl FnMut(usize, Said)) {
    pattern! { LABEL = r"\s\((?i:option |choice |answer )?([A-Z])\)" }
    for found in LABEL.captures_iter(text) {
        let (Some(whole), Some(label)) = (found.get(0), found.get(1)) else { continue };
        let before = words(close_before(text, whole.start()));
        let own = options.mentions(&before).last().copied().filter(|(.., to)| *to == before.len());
        let written = options.written(label.as_str());
        if own.is_some() && written.is_some() && own.map(|(letter, ..)| letter) != written {
            put(label.start(), Open);
        }
        if let Some((letter, from, _)) = own.filter(|(letter, ..)| written == Some(*letter))
            && is_said(text, label.start(), label.start())
            && !is_doubtful(&before[from.saturating_sub(6)..from].join(" "))
        {
            put(label.start(), One(letter, "option"));
        }
    }
}

/// A letter that is the last sentence: `… settles it: A.`
fn ending(text: &str, options: &Options, put: &mut impl FnMut(usize, Said)) {
    pattern! { END = r"(?:[.!:;?…。：]|\s[–—-])\s+[(\[]?([A-Z])[)\]]?[.!]?\s*$" }
    let Some(label) = END.captures(text).and_then(|found| found.get(1)) else { return };
    // `Answer: B`, then `Confidence: A`
    pattern! { FIELD = r"\n\W*(?:[\p{L}'-]+ ){0,3}[\p{L}'-]+:\W*[A-Z]\W*$" }
    if FIELD.is_match(text) {
        return;
    }
    if let Some(letter) =
        options.written(label.as_str()).filter(|_| is_said(text, label.start(), label.start()))
    {
        put(label.start(), One(letter, "letter_line"));
    }
}

/// A label at the beginning of a text, unless its own sentence rejects it: `A) This is wrong`.
pub(super) fn opener(text: &str, options: &Options, put: &mut impl FnMut(usize, Said)) {
    pattern! { REJECTED = r"(?i)\b(?:wrong|incorrect|false|not|never|isn't|wasn't|doesn't|didn't|can't|cannot|ruled out|eliminated?|excluded|unlikely|tempting|possible|falsch|faux|incorrecto|incorrecta|pas|nicht|no es)\b|错|不|非|ない|ません" }
    pattern! { SUBJECT = r"(?i)^[\s.:)\]、,(-]*(?:this|that|it|is|was|are|were|would|could|can|does|did|has|may|might|seems|looks|the option|this option|[-–—]|never)\b" }
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
pub(super) fn lines(text: &str, options: &Options, put: &mut impl FnMut(usize, Said)) {
    let mut seen: Vec<char> = Vec::new();
    let (is_list, length) = (is_list(text, options), text.trim_end().len());
    let mut at = 0;
    let mut bare_before = None;
    // The last box and where it ends.
    let mut box_before: Option<(char, usize)> = None;
    pattern! { OR = r"(?i)^\s*(?:(?:or|and|oder|und|ou|et|o|y|e|или|и|或|和|または|또는)?\s*[,/]?)\s*$" }
    for line in text.split('\n') {
        let start = at;
        at += line.len() + 1;
        let said = short(line, options);
        if line.starts_with(BOX) {
            match said {
                One(letter, _) => {
                    let joined = box_before.replace((letter, at - 1)).is_some_and(|(other, end)| {
                        other != letter && text.get(end..start).is_some_and(|between| OR.is_match(between))
                    });
                    put(start, if joined { Open } else { One(letter, "boxed") });
                }
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
pub(super) fn lists_all(text: &str, options: &Options) -> bool {
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
pub(super) fn stands_above(rest: &str, options: &Options, letter: char) -> bool {
    let next = labels(rest, options).next().map(|(_, next)| next);
    rest.starts_with('\n') && next.is_some_and(|next| next as u32 != letter as u32 + 1 && next != letter)
}
