//! Replies without a statement that name one option.

use super::Said::{self, Nothing, One};
use super::alone::TALK;
use super::follow::ends_text;
use super::lists::{is_list, labels};
use super::sentences::{is_doubtful, is_refused, is_said, sentence_of, sentences};
use super::statements::lists_all;
use crate::scoring::strict::leads::{self, TAKEN_BACK};
use crate::scoring::strict::options::{Options, words};

/// Fallbacks for a text without a statement: one label in it, a conclusion or the only sentence that names one option.
pub(super) fn implied(text: &str, options: &Options) -> Said {
    pattern! { LABEL = r"(?:^|[^\w])(?i:option|choice|answer choice|alternative|选项|選項|選択肢)\s*[(\[]?([A-Z])(?:[^\w'’-]|$)|\w\.?\s\(([A-Z])\)[.!]?\s*(?:\n|$)" }
    // A long text that stops in the middle of a sentence was cut before it concluded.
    let is_cut = text.chars().count() > 200
        && text.ends_with(|c: char| c.is_alphanumeric() || matches!(c, ',' | '、' | '，' | '-'));
    if is_cut {
        return Nothing;
    }
    let mentions: Vec<(usize, char)> = LABEL
        .captures_iter(text)
        .filter_map(|found| found.get(1).or(found.get(2)))
        .filter_map(|label| Some((label.start(), options.written(label.as_str())?)))
        .collect();
    if let [(at, letter), ref rest @ ..] = mentions[..]
        && rest.iter().all(|(_, other)| *other == letter)
        && !is_list(text, options)
    {
        let (before, sentence) = sentence_of(text, at);
        let sentence = format!("{before}{}", sentence.strip_prefix(before).unwrap_or(sentence));
        let sentence = sentence.split('\n').next().unwrap_or_default();
        pattern! { HANDLED = r"(?i)\b(?:click|press|tap|button|on the (?:screen|slide|sign))" }
        if is_said(text, at, at) && !is_doubtful(sentence) && !HANDLED.is_match(sentence) {
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
    // `In the garden. The kitchen is seen before.`, `Yes, she says no to it.`
    pattern! { FIRST = r"(?i)^(?:yes|no|ja|nein|oui|non|sí|是|否)\b" }
    let first = sentences.first().copied().unwrap_or_default();
    let first = FIRST
        .find(first)
        .filter(|found| first[found.end()..].starts_with([',', '.']))
        .map_or(first, |found| found.as_str());
    if let Some(letter) = options
        .named(&words(first))
        .filter(|_| first.len() < text.len() && !is_refused(text) && !TALK.is_match(text))
        && sentences[1..].iter().all(|sentence| options.named(&words(sentence)).is_none())
        && !TAKEN_BACK.is_match(text)
    {
        return One(letter, "option_text");
    }
    // `… leaves no doubt: milk.`
    if let Some((_, end)) = last.rsplit_once([':', '—', '–'])
        && let Some(letter) = options.named(&words(end))
    {
        return One(letter, "option_sentence");
    }
    if let Some(conclusion) = concluded(last) {
        return match in_clauses(clauses(conclusion, options), options)[..] {
            [(letter, _)] => One(letter, "option_sentence"),
            ref said => stated(said),
        };
    }
    if let Some(letter) = options.named(&words(last)).filter(|_| !lists_all(text, options)) {
        return One(letter, "option_sentence");
    }
    // `It cannot be determined`, where that is an option.
    if let [(letter, ..)] = options.mentions(&words(text))[..]
        && options.text_of(letter).is_some_and(|own| is_refused(&own.join(" ")))
    {
        return One(letter, "option_sentence");
    }
    if is_refused(text) || sentences.iter().any(|sentence| sentence.ends_with(['?', '？'])) {
        return Nothing;
    }
    stated(&in_clauses(sentences.iter().flat_map(|sentence| clauses(sentence, options)), options))
}

/// What clauses name, each by [`in_clause`].
fn in_clauses<'a>(clauses: impl IntoIterator<Item = &'a str>, options: &Options) -> Vec<(char, bool)> {
    clauses.into_iter().flat_map(|clause| in_clause(clause, options)).collect()
}

/// The one option that is named where nothing is denied or weighed, if it is stated anywhere.
fn stated(said: &[(char, bool)]) -> Said {
    match said.first() {
        Some(&(letter, _))
            if said.iter().all(|(other, _)| *other == letter)
                && said.iter().any(|(_, is_stated)| *is_stated) =>
        {
            One(letter, "option_sentence")
        }
        _ => Nothing,
    }
}

/// Parts of a sentence that deny or state each for itself; the sentence where an option reaches over several. An option
/// alone between two commas goes with what stands before it: `a lamp, a vase or a clock`.
fn clauses<'a>(sentence: &'a str, options: &Options) -> Vec<&'a str> {
    // `but` belongs to what it limits.
    pattern! { BREAK = r"(?i)(?:,\s+|\s)(?:but|aber|mais|pero|mas|ma)\s+|[,;:]\s+|[，；：]|\s+[–—-]\s+|\s(?:whereas|sondern|sino|so)\s+" }
    let (mut parts, mut start) = (Vec::new(), 0);
    let ends = BREAK.find_iter(sentence).map(|found| found.end()).chain([sentence.len()]);
    for end in ends {
        let part = words(&sentence[start..end]);
        let is_bare = |&(_, from, to): &(char, usize, usize)| from < 2 && to == part.len();
        if end == sentence.len() || !options.mentions(&part).iter().any(is_bare) {
            parts.push(&sentence[start..end]);
            start = end;
        }
    }
    let within: usize = parts.iter().map(|part| options.mentions(&words(part)).len()).sum();
    if within == options.mentions(&words(sentence)).len() { parts } else { vec![sentence] }
}

/// The rest of a sentence behind a word that draws a conclusion.
fn concluded(sentence: &str) -> Option<&str> {
    pattern! { CONCLUSION = r"(?i)(?:^|[,;:]\s*(?:and\s+)?)(?:so|comparing (?:these|them|those|the \w+)(?: \w+)?|in the end|thus|hence|therefore|in conclusion|in summary|in short|overall|consequently|to conclude|a good summary is that|as a result|final(?:ly)?|因此|所以|综上(?:所述)?|したがって|よって|daher|also|folglich|donc|ainsi|por (?:lo )?tanto|entonces|portanto|quindi|итак|поэтому)\b[\s,:，、]*" }
    CONCLUSION.find_iter(sentence).last().map(|found| &sentence[found.end()..])
}

/// Options that a clause names and does not deny, and whether it says that one is so: it begins or ends with it, says that
/// something is it, or repeats at least two words of it.
fn in_clause(text: &str, options: &Options) -> Vec<(char, bool)> {
    const IS: [&str; 26] = [
        "is", "are", "was", "were", "be", "not", "shows", "show", "represents", "called", "named", "depicts",
        "becomes", "looks", "seems", "feels", "appears", "remains", "reads", "makes", "cest", "est", "ist",
        "es", "war", "era",
    ];
    /// Words that lead on from what was said.
    const ON: [&str; 19] = [
        "throughout", "in", "on", "at", "to", "for", "during", "when", "because", "while", "with", "from",
        "by", "after", "the", "who", "that", "qui", "quien",
    ];
    let said = words(text);
    let is_article = |word: &String| matches!(word.as_str(), "a" | "an" | "the");
    let all = options.mentions(&said);
    // A negation inside of an option's text is part of it: `not open`.
    let beside = |(_, from, to): (char, usize, usize)| [&said[..from], &said[to..]].concat().join(" ");
    let is_sure = !text.trim_end().ends_with('?')
        && !leads::is_speech(text)
        && all.iter().map(|place| beside(*place)).all(|beside| {
            // Scripts without blanks are words of one character each.
            !is_doubtful(&beside) && !is_doubtful(&beside.replace(' ', ""))
        });
    let is_stated = |(_, from, to): (char, usize, usize)| {
        let before = said[..from].iter().rev().find(|word| !is_article(word));
        let is = before.is_some_and(|word| IS.contains(&word.as_str()));
        let there = is && said.first().is_some_and(|word| word == "there");
        let subject = said[..from].iter().all(is_article)
            && (to > 1 || said.get(to).is_some_and(|word| IS.contains(&word.as_str())));
        let aside = ["who", "which", "that", "later", "about"];
        to == said.len()
            || subject
            || there
            || is
                && (ends_text(text, &said, to)
                    || said.get(to).is_some_and(|word| ON.contains(&word.as_str())))
            || to - from > 1 && !said.iter().any(|word| aside.contains(&word.as_str()))
    };
    all.iter().filter(|_| is_sure).map(|place| (place.0, is_stated(*place))).collect()
}
