//! Corrected extraction: an answer is taken where it is given as one, or
//! not at all. Never out of running prose, an error text or a tool call.

use std::sync::LazyLock;

use regex::Regex;

use crate::record::{Outcome, Score};
use crate::reference::{RESPONSE, Tag};
use crate::sample::Gold;
use crate::scoring::Scorer;
use crate::scoring::number::mean_relative_accuracy;
use crate::span::TimeSpan;
use crate::text::{between, clock_seconds, fixed1};

/// The text that may hold the answer, and which selection found it.
struct Selected {
    text: String,
    tagged: bool,
}

/// Prefix by which the reference driver writes a failed model call in place of an answer.
const API_ERROR: &str = "[API error:";

/// The last closed `<answer>`; without one, what follows the last `</think>`. Tool calls, error
/// texts and a think block that was never closed hold no answer.
fn select(text: &str, tags: &[Tag]) -> Option<Selected> {
    if text.trim_start().starts_with(API_ERROR) {
        return None;
    }
    let (text, tagged) = match between(text, "<answer>", "</answer>").last() {
        Some(body) => (body.rsplit("<answer>").next().unwrap_or(body), true),
        None => {
            let rest = text.rsplit("</think>").next().unwrap_or(text);
            (rest.split("<think>").next().unwrap_or(rest), false)
        }
    };
    let blocks = tags.iter().chain([&RESPONSE]);
    let text = blocks.fold(text.to_owned(), |text, (open, close)| without_blocks(&text, open, close));
    let text = text.replace("<|im_end|>", "");
    Some(Selected { text: text.trim().to_owned(), tagged })
}

/// The text without its `open … close` blocks; one that is not closed reaches to the end.
fn without_blocks(text: &str, open: &str, close: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, block)) = rest.split_once(open) {
        out.push_str(before);
        // A line break keeps what stood on both sides from growing together.
        out.push('\n');
        rest = block.split_once(close).map_or("", |(_, after)| after);
    }
    out + rest
}

/// The corrected rules.
#[derive(Debug, Clone, Copy)]
pub struct Strict<'a> {
    /// Blocks that hold a call, and with it no answer.
    pub tags: &'a [Tag],
}

impl Scorer for Strict<'_> {
    fn score(&self, gold: &Gold, letters: &str, text: &str) -> Score {
        score(gold, letters, text, self.tags)
    }
}

fn score(gold: &Gold, letters: &str, text: &str, tags: &[Tag]) -> Score {
    match gold {
        Gold::Choice { answer } => match letter(text, letters, tags) {
            Some((letter, rule)) => scored(letter.to_string() == *answer, letter.to_string(), rule),
            None => unparsed(),
        },
        Gold::Interval { start, end } => match interval(text, tags) {
            Some((found, rule)) => Score {
                outcome: Outcome::Scored,
                value: found.iou(TimeSpan::new(*start, *end)),
                prediction: Some(format!("{}-{}", fixed1(found.start), fixed1(found.end))),
                rule: Some(rule.to_owned()),
            },
            None => unparsed(),
        },
        Gold::Text { answer, .. } => match select(text, tags).filter(|selected| !selected.text.is_empty()) {
            Some(selected) => {
                let same = normalised(&selected.text) == normalised(answer);
                scored(same, selected.text, "exact")
            }
            None => unparsed(),
        },
        Gold::Number { answer } => match number(text, tags) {
            Some((found, rule)) => Score {
                outcome: Outcome::Scored,
                value: mean_relative_accuracy(found, *answer),
                prediction: Some(found.to_string()),
                rule: Some(rule.to_owned()),
            },
            None => unparsed(),
        },
    }
}

fn scored(right: bool, prediction: String, rule: &str) -> Score {
    Score {
        outcome: Outcome::Scored,
        value: f64::from(u8::from(right)),
        prediction: Some(prediction),
        rule: Some(rule.to_owned()),
    }
}

fn unparsed() -> Score {
    Score { outcome: Outcome::Unparsed, value: 0.0, prediction: None, rule: None }
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("literal pattern")
}

/// A letter of the row, in either case, and the rule that found it.
pub fn letter(text: &str, letters: &str, tags: &[Tag]) -> Option<(char, &'static str)> {
    /// An option's letter before its text: `B. The green lamp`.
    static LED: LazyLock<Regex> = LazyLock::new(|| regex(r"^[(\[*_]*([A-Z])[*_]*[.):\]][*_]*(?:\s|$)"));
    let own = |found: char| {
        let upper = found.to_ascii_uppercase();
        letters.contains(upper).then_some(upper)
    };
    let Selected { text, tagged } = select(text, tags)?;
    if let Some(found) = wrapped(&text).and_then(own) {
        return Some((found, if tagged { "answer_tag" } else { "letter_only" }));
    }
    // Inside the tag only: outside of it, the letter may begin a list of all options.
    if tagged && let Some(found) = first_group(&LED, &text).and_then(own) {
        return Some((found, "answer_tag_option"));
    }
    if let Some(found) = stated(&text).and_then(own) {
        return Some((found, "answer_is"));
    }
    let line = text.lines().rev().find_map(|line| wrapped(line.trim()).and_then(own))?;
    Some((line, "letter_line"))
}

/// The one letter of a text that holds nothing else but its wrapping.
fn wrapped(text: &str) -> Option<char> {
    static WRAPPED: LazyLock<Regex> = LazyLock::new(|| {
        regex(
            r"^(?:[()\[\]*_.:\s]|\\boxed\{)*(?:(?i:option|answer)[\s:*_]+)?[()\[\]*_\s]*([A-Za-z])[()\[\]*_.:}\s]*$",
        )
    });
    first_group(&WRAPPED, text)
}

fn first_group(regex: &Regex, text: &str) -> Option<char> {
    let found = regex.captures(text)?;
    found.get(1).or_else(|| found.get(2)).or_else(|| found.get(3))?.as_str().chars().next()
}

/// The letter of the last "answer is X" or "option: X".
///
/// Before a space, `A`, `I` and lower-case letters are words of a sentence ("the answer is a matter
/// of taste"), unless a reason follows; "B or C" is not an answer.
fn stated(text: &str) -> Option<char> {
    static STATED: LazyLock<Regex> = LazyLock::new(|| {
        let lead = r"\b(?i:answer|option)[*_]*(?:\s+(?i:is)|\s*:)[*_:]*\s*(?:[(\[*_]|\\boxed\{)*(?:(?i:option)\s+)?(?:[(\[*_]|\\boxed\{)*";
        let closed = r"([A-Za-z])(?:[)\]*_.,:;!}]|\s*</|\s*$|\s*\n)";
        let reason = r"([AI])\s+(?:because|since|as|[-–—(])";
        regex(&format!(r"{lead}(?:{closed}|{reason}|([B-HJ-Z])\s)"))
    });
    let found = STATED.captures_iter(text).last()?;
    let letter = found.get(1).or_else(|| found.get(2)).or_else(|| found.get(3))?;
    let mut after =
        text[letter.end()..].split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let ambiguous = matches!(after.next(), Some("or" | "and"))
        && after
            .next()
            .is_some_and(|word| word.len() == 1 && word.bytes().all(|byte| byte.is_ascii_alphabetic()));
    if ambiguous { None } else { letter.as_str().chars().next() }
}

/// An interval in seconds with its end after its start, and the rule that found it.
pub fn interval(text: &str, tags: &[Tag]) -> Option<(TimeSpan, &'static str)> {
    const TIME: &str =
        r"(\d+:\d{1,2}:\d{1,2}(?:\.\d+)?|\d+:\d{1,2}(?:\.\d+)?|\d+(?:\.\d+)?)\s*(?i:s\b|secs?\b|seconds?\b)?";
    static RANGE: LazyLock<Regex> = LazyLock::new(|| {
        regex(&format!(r"(?:^|[^\d.:]){TIME}\s*(?:[-–—−‐‑~,]|\b(?i:to|and)\b)\s*{TIME}(?:$|[^\d:])"))
    });
    let selected = select(text, tags)?;
    let found = RANGE.captures(&selected.text)?;
    let (first, second) = (found.get(1)?, found.get(2)?);
    // A minus that belongs to the number makes no time of a video.
    if selected.text[..first.start()].ends_with(['-', '−']) {
        return None;
    }
    let found = TimeSpan::new(clock_seconds(first.as_str())?, clock_seconds(second.as_str())?);
    let rule = if selected.tagged { "answer_tag_range" } else { "range" };
    (found.end > found.start).then_some((found, rule))
}

/// A number and the rule that found it. A unit may follow; of several numbers none is taken.
pub fn number(text: &str, tags: &[Tag]) -> Option<(f64, &'static str)> {
    const NUMBER: &str = r"([-−+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|[-−+]?\.\d+)";
    /// A number with nothing beside it but wrapping and up to three words of a unit.
    static ALONE: LazyLock<Regex> = LazyLock::new(|| {
        let unit = r"(?:\s*[A-Za-z°%²³/]+\.?){0,3}";
        regex(&format!(
            r"^(?:[()\[\]*_:\s]|\\boxed\{{)*(?:(?i:answer)[\s:*_]+)?{NUMBER}{unit}[()\[\]*_.}}\s]*$"
        ))
    });
    static ANY: LazyLock<Regex> = LazyLock::new(|| regex(NUMBER));
    static STATED: LazyLock<Regex> = LazyLock::new(|| {
        regex(&format!(r"\b(?i:answer)[*_]*(?:\s+(?i:is)|\s*:)[*_:]*\s*(?:[(\[*_]|\\boxed\{{)*{NUMBER}"))
    });
    let first = |regex: &Regex, text: &str| plain_number(regex.captures(text)?.get(1)?.as_str());
    let Selected { text, tagged } = select(text, tags)?;
    if let Some(found) = first(&ALONE, &text).or_else(|| number_word(&text)) {
        return Some((found, if tagged { "answer_tag" } else { "number_only" }));
    }
    if tagged && ANY.find_iter(&text).count() == 1 {
        return Some((first(&ANY, &text)?, "answer_tag_number"));
    }
    if let Some(found) = STATED.captures_iter(&text).last() {
        return Some((plain_number(found.get(1)?.as_str())?, "answer_is"));
    }
    Some((first(&ALONE, text.lines().last()?.trim())?, "number_line"))
}

/// A number without the commas between its thousands.
fn plain_number(text: &str) -> Option<f64> {
    text.replace(',', "").replace('−', "-").parse().ok()
}

/// A count that is written as a word.
fn number_word(text: &str) -> Option<f64> {
    const WORDS: [&str; 13] = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
        "twelve",
    ];
    let word = text.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    WORDS.iter().position(|known| *known == word).map(|value| value as f64)
}

/// Lower case, without punctuation and articles, single spaces. A text that is nothing but an
/// article keeps it, or the answer `A` would equal `the`.
fn normalised(text: &str) -> String {
    let plain: String =
        text.to_lowercase().chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    let kept: Vec<&str> = words.iter().copied().filter(|word| !matches!(*word, "a" | "an" | "the")).collect();
    if kept.is_empty() { words.join(" ") } else { kept.join(" ") }
}

#[cfg(test)]
mod tests;
