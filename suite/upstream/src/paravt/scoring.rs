//! Extraction and scoring as the released driver does them, wrong turns included
//! (ParaVT cf55249 `paravt/eval/utils.py`).

use paravt_python::{MAX_STR_DIGITS, float, pattern, standalone, strip};
use paravt_suite::record::{Outcome, Score};
use paravt_suite::sample::Gold;
use paravt_suite::scoring::RAISES;
use paravt_suite::scoring::{Scorer, Strict};
use paravt_suite::span::TimeSpan;
use paravt_suite::text::{between, fixed1};
use regex::Regex;

const LETTERS: std::ops::RangeInclusive<char> = 'A'..='J';

/// An extracted letter (or whatever the fallback made of the text) and the rule that found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// At most one character; empty when the text is.
    pub text: String,
    pub rule: &'static str,
}

/// `extract_letter`: the first rule that returns wins.
pub fn extract_letter(text: &str) -> Letter {
    let text = strip(text);
    let found = |c: char, rule| Letter { text: c.to_string(), rule };
    if let Some(inside) = between(text, "<answer>", "</answer>").next() {
        let inside = strip(inside);
        if let Some(letter) = only_letter(inside) {
            return found(letter, "answer_tag");
        }
        if let Some(letter) = standalone(inside, |c| LETTERS.contains(&c)) {
            return found(letter, "answer_tag_word");
        }
    }
    if let Some(letter) = only_letter(text) {
        return found(letter, "letter_only");
    }
    if let Some(letter) = stated(text) {
        return found(letter, "answer_is");
    }
    if let Some(letter) = standalone(text, |c| LETTERS.contains(&c)) {
        return found(letter, "first_word");
    }
    let text = text.chars().next().map(String::from).unwrap_or_default();
    Letter { text, rule: "first_character" }
}

fn only_letter(text: &str) -> Option<char> {
    let mut characters = text.chars();
    characters.next().filter(|c| LETTERS.contains(c) && characters.next().is_none())
}

fn stated(text: &str) -> Option<char> {
    pattern! { STATED = r"(?:answer|Answer)\s*(?:is|:)\s*([A-J])" }
    STATED.captures(text)?.get(1)?.as_str().chars().next()
}

/// An extracted interval in seconds and the rule that found it.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Start; may be after the end.
    pub start: f64,
    pub end: f64,
    pub rule: &'static str,
}

/// Python's exception for minutes that are too many for a number; upstream's sample ends as an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TooManyMinutes(pub String);

/// `extract_time_from_response`.
///
/// # Errors
/// Minutes beyond what Python can convert, as it words it.
pub fn extract_interval(text: &str) -> Result<Option<Interval>, TooManyMinutes> {
    pattern! { TAG = r"<time>([^<]+)</time>" }
    if strip(text).is_empty() {
        return Ok(None);
    }
    let tag = TAG.captures(text).and_then(|found| found.get(1));
    for target in tag.map(|inside| inside.as_str()).into_iter().chain([text]) {
        if let Some(found) = clock_range(target)? {
            return Ok(Some(found));
        }
        if let Some(found) = range(target) {
            return Ok(Some(found));
        }
    }
    Ok(named_times(text).or_else(|| two_numbers(text)))
}

fn clock_range(text: &str) -> Result<Option<Interval>, TooManyMinutes> {
    pattern! { CLOCK = r"(\d+):(\d+(?:\.\d+)?)\s*[-–—]\s*(\d+):(\d+(?:\.\d+)?)" }
    let Some(found) = CLOCK.captures(text) else { return Ok(None) };
    let group = |index: usize| found.get(index).map_or("", |found| found.as_str());
    let time = |minutes: &str, seconds: &str| {
        let number = |text: &str| float(text).unwrap_or(f64::NAN);
        checked_minutes(minutes, number(minutes) * 60.0).map(|minutes| minutes + number(seconds))
    };
    let (start, end) = (time(group(1), group(2))?, time(group(3), group(4))?);
    Ok((end > start && end < 3600.0).then_some(Interval { start, end, rule: "clock_range" }))
}

/// Python reads minutes as an integer, which is exact up to a limit and raises beyond it.
fn checked_minutes(text: &str, seconds: f64) -> Result<f64, TooManyMinutes> {
    let digits = text.chars().count();
    if digits > MAX_STR_DIGITS {
        return Err(TooManyMinutes(format!(
            "ValueError: Exceeds the limit ({MAX_STR_DIGITS} digits) for integer string conversion: \
             value has {digits} digits; use sys.set_int_max_str_digits() to increase the limit"
        )));
    }
    if seconds.is_infinite() {
        return Err(TooManyMinutes("OverflowError: int too large to convert to float".to_owned()));
    }
    Ok(seconds)
}

fn range(text: &str) -> Option<Interval> {
    pattern! { RANGE = r"(\d+\.?\d*)\s*[-–—]\s*(\d+\.?\d*)" }
    let [start, end] = numbers(&RANGE, text)?;
    (end > start).then_some(Interval { start, end, rule: "range" })
}

/// The groups of the first match as numbers.
fn numbers<const N: usize>(regex: &Regex, text: &str) -> Option<[f64; N]> {
    let found = regex.captures(text)?;
    let mut values = [0.0; N];
    for (index, value) in values.iter_mut().enumerate() {
        *value = float(found.get(index + 1)?.as_str())?;
    }
    Some(values)
}

/// The first named start and the first named end, in whatever order they stand.
fn named_times(text: &str) -> Option<Interval> {
    // Python's re.I lets `i` match U+0130 and U+0131 too; the regex crate's folding does not.
    pattern! { STARTS = r"(?i)(?:start(?:[iİı]ng)?|beg[iİı]n(?:n[iİı]ng)?)\s*(?:t[iİı]me)?[:\s]*(\d+\.?\d*)" }
    pattern! { ENDS = r"(?i)(?:end(?:[iİı]ng)?|f[iİı]n[iİı]sh(?:[iİı]ng)?)\s*(?:t[iİı]me)?[:\s]*(\d+\.?\d*)" }
    let [start] = numbers(&STARTS, text)?;
    let [end] = numbers(&ENDS, text)?;
    Some(Interval { start, end, rule: "named_times" })
}

fn two_numbers(text: &str) -> Option<Interval> {
    pattern! { NUMBER = r"(\d+\.?\d*)" }
    let mut found = NUMBER.find_iter(text).filter_map(|found| float(found.as_str()));
    Some(Interval { start: found.next()?, end: found.next()?, rule: "two_numbers" })
}

/// `temporal_iou`: the union is the hull of both intervals.
pub fn temporal_iou(a: TimeSpan, b: TimeSpan) -> f64 {
    let intersection = python_max(0.0, python_min(a.end, b.end) - python_max(a.start, b.start));
    let union = python_max(a.end, b.end) - python_min(a.start, b.start);
    if union > 0.0 { intersection / union } else { 0.0 }
}

/// Python's `max(a, b)`: the first unless the second is greater, which decides what NaN does.
fn python_max(a: f64, b: f64) -> f64 {
    if b > a { b } else { a }
}

fn python_min(a: f64, b: f64) -> f64 {
    if b < a { b } else { a }
}

/// Characters of the text that stand for a prediction where no interval is found.
const EXCERPT: usize = 200;

/// Scores as the evaluation driver gives them.
pub struct DriverScoring;

impl Scorer for DriverScoring {
    fn score(&self, gold: &Gold, _letters: &str, text: &str) -> Score {
        score(gold, text)
    }
}

/// `_score`.
pub fn score(gold: &Gold, text: &str) -> Score {
    match gold {
        Gold::Choice { answer } | Gold::Text { answer, .. } => {
            let letter = extract_letter(text);
            let right = letter.text == *answer;
            // The fallback is not an answer, except where it happens to be compared as right.
            let guessed = letter.rule == "first_character" && !right;
            Score {
                outcome: if guessed { Outcome::Unparsed } else { Outcome::Scored },
                value: f64::from(u8::from(right)),
                prediction: Some(letter.text),
                rule: Some(letter.rule.to_owned()),
            }
        }
        Gold::Interval { start, end } => match extract_interval(text) {
            Ok(Some(found)) => Score {
                outcome: Outcome::Scored,
                value: temporal_iou(TimeSpan::new(found.start, found.end), TimeSpan::new(*start, *end)),
                prediction: Some(format!("{}-{}", fixed1(found.start), fixed1(found.end))),
                rule: Some(found.rule.to_owned()),
            },
            Ok(None) => no_interval(text, None),
            Err(TooManyMinutes(_)) => no_interval(text, Some(RAISES)),
        },
        // The release asks for no numbers: the suite's own rule.
        Gold::Number { .. } => Strict { tags: super::REFERENCE.syntax.tags() }.score(gold, "", text),
    }
}

fn no_interval(text: &str, rule: Option<&str>) -> Score {
    Score {
        outcome: Outcome::Unparsed,
        value: 0.0,
        prediction: Some(text.chars().take(EXCERPT).collect()),
        rule: rule.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn english_words_are_read_as_answers() {
        for (text, letter, rule) in [
            ("I think B", "I", "first_word"),
            ("A dog runs. B", "A", "first_word"),
            ("<answer>b</answer>", "<", "first_character"),
            ("<answer>(C) x</answer>", "C", "answer_tag_word"),
            ("the answer is D", "D", "answer_is"),
            ("answer:\u{1c}E", "E", "answer_is"),
        ] {
            assert_eq!(extract_letter(text), Letter { text: letter.into(), rule }, "{text}");
        }
    }

    #[test]
    fn unparsed_answers_are_counted() {
        let gold = |answer: &str| Gold::Choice { answer: answer.into() };
        assert_eq!(score(&gold("B"), "no idea").outcome, Outcome::Unparsed);
        assert_eq!(score(&gold("4"), "4").outcome, Outcome::Scored);
        assert_eq!(score(&gold("4"), "4").value, 1.0);
        assert_eq!(score(&Gold::Interval { start: 0.0, end: 1.0 }, "none").outcome, Outcome::Unparsed);
    }

    #[test]
    fn turkish_letters_match_as_in_python() {
        let found = extract_interval("begİnnıng 3 endıng 9").unwrap().unwrap();
        assert_eq!((found.start, found.end, found.rule), (3.0, 9.0, "named_times"));
    }

    #[test]
    fn minutes_beyond_pythons_integers_raise() {
        for (digits, kind) in [(400, "OverflowError"), (5000, "ValueError")] {
            let text = format!("{}:00 - 1:00", "9".repeat(digits));
            assert!(extract_interval(&text).is_err_and(|error| error.0.starts_with(kind)));
            let score = score(&Gold::Interval { start: 0.0, end: 1.0 }, &text);
            assert_eq!((score.outcome, score.rule.as_deref()), (Outcome::Unparsed, Some("too_many_minutes")));
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,200}") {
            let _ = score(&Gold::Choice { answer: "A".into() }, &text);
            let value = score(&Gold::Interval { start: 1.0, end: 2.0 }, &text).value;
            prop_assert!((0.0..=1.0).contains(&value));
        }
    }
}
