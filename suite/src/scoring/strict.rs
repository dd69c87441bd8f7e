//! Corrected extraction (spec/benchmarks.md §3.4): an answer is taken where it is given as one, or
//! not at all. Never out of running prose, an error text or a tool call.

use std::sync::LazyLock;

use regex::Regex;

use crate::record::{Outcome, Score};
use crate::sample::Gold;

/// The text that may hold the answer, and which selection found it.
struct Selected<'a> {
    text: &'a str,
    tagged: bool,
}

/// The last closed `<answer>`; without one, what follows the last `</think>`; tool calls never.
fn select(text: &str) -> Option<Selected<'_>> {
    if let Some(close) = text.rfind("</answer>")
        && let Some(open) = text[..close].rfind("<answer>")
    {
        return Some(Selected { text: text[open + "<answer>".len()..close].trim(), tagged: true });
    }
    let rest = match text.rfind("</think>") {
        Some(at) => &text[at + "</think>".len()..],
        // A think block that was never closed holds no answer.
        None if text.contains("<think>") => return None,
        None => text,
    };
    let is_call = ["<tool_call>", "<tool_code>", "<video_zoom>"].iter().any(|tag| rest.contains(tag));
    (!is_call).then(|| Selected { text: rest.trim(), tagged: false })
}

/// Scores one final text against its row's own letters.
pub fn score(gold: &Gold, letters: &str, text: &str) -> Score {
    match gold {
        Gold::Choice { answer } => match letter(text, letters) {
            Some((letter, rule)) => scored(letter.to_string() == *answer, letter.to_string(), rule),
            None => unparsed(),
        },
        Gold::Interval { start, end } => match interval(text) {
            Some((found, rule)) => Score {
                outcome: Outcome::Scored,
                value: iou(found, (*start, *end)),
                prediction: Some(format!("{:.1}-{:.1}", found.0, found.1)),
                rule: Some(rule.to_owned()),
            },
            None => unparsed(),
        },
        Gold::Text { answer } => match select(text).filter(|selected| !selected.text.is_empty()) {
            Some(selected) => {
                let same = normalised(selected.text) == normalised(answer);
                scored(same, selected.text.to_owned(), "exact")
            }
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

fn regex(pattern: &str) -> Option<Regex> {
    // Patterns are constants; one that does not compile fails every test of this module.
    Regex::new(pattern).ok()
}

/// A letter of the row, in either case, and the rule that found it.
pub fn letter(text: &str, letters: &str) -> Option<(char, &'static str)> {
    static WRAPPED: LazyLock<Option<Regex>> = LazyLock::new(|| {
        regex(
            r"^(?:\\boxed\{)?[()\[\]*_.:\s]*(?:(?i:option|answer)[\s:]+)?[()\[\]*_\s]*([A-Za-z])[()\[\]*_.:\s]*\}?[()\[\]*_.:\s]*$",
        )
    });
    static STATED: LazyLock<Option<Regex>> = LazyLock::new(|| {
        regex(
            r"\b(?i:answer|option)[*_]*(?:\s+(?i:is)|\s*:)[*_:]*\s*[(\[*_]*(?:(?i:option)\s+)?(?:([A-Za-z])(?:[)\]*_.,:;!]|\s*$|\s*\n)|([B-HJ-Z])\s)",
        )
    });
    static LED: LazyLock<Option<Regex>> =
        LazyLock::new(|| regex(r"^[(\[*_]*([A-Z])[*_]*[.):\]][*_]*(?:\s|$)"));
    let own = |found: Option<&str>| {
        let upper = found?.chars().next()?.to_ascii_uppercase();
        letters.contains(upper).then_some(upper)
    };
    let group = |regex: &LazyLock<Option<Regex>>, text: &str| -> Option<String> {
        Some(regex.as_ref()?.captures(text)?.get(1)?.as_str().to_owned())
    };
    let selected = select(text)?;
    if let Some(found) = own(group(&WRAPPED, selected.text).as_deref()) {
        return Some((found, if selected.tagged { "answer_tag" } else { "letter_only" }));
    }
    // "B. The green lamp": the letter of an option that is given whole, inside the tag only.
    if selected.tagged
        && let Some(found) = own(group(&LED, selected.text).as_deref())
    {
        return Some((found, "answer_tag_option"));
    }
    if let Some(found) = own(last_group(&STATED, selected.text).as_deref()) {
        return Some((found, "answer_is"));
    }
    let lines = selected.text.lines().rev().map(str::trim);
    let line = lines.filter_map(|line| own(group(&WRAPPED, line).as_deref())).next()?;
    Some((line, "letter_line"))
}

/// The last match's letter. `A`, `I` and lower-case letters before a space are words of a sentence
/// ("the answer is a matter of taste"), so the pattern's second group leaves them out.
fn last_group(regex: &LazyLock<Option<Regex>>, text: &str) -> Option<String> {
    let found = regex.as_ref()?.captures_iter(text).last()?;
    Some(found.get(1).or_else(|| found.get(2))?.as_str().to_owned())
}

/// An interval in seconds with its end after its start, and the rule that found it.
pub fn interval(text: &str) -> Option<((f64, f64), &'static str)> {
    const TIME: &str =
        r"(\d+:\d{1,2}:\d{1,2}(?:\.\d+)?|\d+:\d{1,2}(?:\.\d+)?|\d+(?:\.\d+)?)\s*(?:s\b|secs?\b|seconds?\b)?";
    static RANGE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        regex(&format!(r"(?:^|[^\d.:]){TIME}\s*(?:[-–—−‐‑~,]|\b(?i:to|and|until)\b)\s*{TIME}(?:$|[^\d:])"))
    });
    let selected = select(text)?;
    // A minus that belongs to a number ("-5 - 10") makes no time of a video.
    let found = RANGE.as_ref()?.captures(selected.text)?;
    let first = found.get(1)?;
    let before = selected.text[..first.start()].trim_end();
    if selected.text[..first.start()].ends_with(['-', '−']) && !before.is_empty() {
        return None;
    }
    if before == "-" || before == "−" {
        return None;
    }
    let (start, end) = (seconds(first.as_str())?, seconds(found.get(2)?.as_str())?);
    let rule = if selected.tagged { "answer_tag_range" } else { "range" };
    (end > start).then_some(((start, end), rule))
}

fn seconds(text: &str) -> Option<f64> {
    text.split(':').try_fold(0.0, |total, part| Some(total * 60.0 + part.parse::<f64>().ok()?))
}

/// Intersection over union by lengths.
pub fn iou(a: (f64, f64), b: (f64, f64)) -> f64 {
    let intersection = (a.1.min(b.1) - a.0.max(b.0)).max(0.0);
    let union = (a.1 - a.0) + (b.1 - b.0) - intersection;
    if union > 0.0 { intersection / union } else { 0.0 }
}

/// Lower case, without articles and punctuation, single spaces.
fn normalised(text: &str) -> String {
    let plain: String =
        text.to_lowercase().chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
    plain.split_whitespace().filter(|word| !matches!(*word, "a" | "an" | "the")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn letters_are_taken_where_they_are_answers() {
        for (text, expected) in [
            ("<answer>B</answer>", Some(('B', "answer_tag"))),
            ("<answer>b</answer>", Some(('B', "answer_tag"))),
            ("<answer>A</answer> no, <answer> (C). </answer>", Some(('C', "answer_tag"))),
            ("<answer>\\boxed{D}</answer>", Some(('D', "answer_tag"))),
            ("<answer>**B**</answer>", Some(('B', "answer_tag"))),
            ("<answer>B. The green lamp.</answer>", Some(('B', "answer_tag_option"))),
            ("<think>A or B?</think> C", Some(('C', "letter_only"))),
            ("(d)", Some(('D', "letter_only"))),
            ("The answer is B.", Some(('B', "answer_is"))),
            ("Answer: (C)", Some(('C', "letter_only"))),
            ("I looked twice.\nB\n", Some(('B', "letter_line"))),
            ("**Answer:** B", Some(('B', "letter_only"))),
            ("The answer is C because the lamp is lit", Some(('C', "answer_is"))),
        ] {
            assert_eq!(letter(text, "ABCD"), expected, "{text}");
        }
    }

    #[test]
    fn letters_are_not_taken_out_of_prose_errors_or_calls() {
        for text in [
            "I think B",
            "A dog runs past the gate.",
            "<answer>E</answer>",
            "<answer></answer>",
            "[API error: Error code: 400]",
            "<tool_call>{\"name\": \"B\"",
            "<think>The answer is B",
            "The answer is a matter of taste",
            "",
        ] {
            assert_eq!(letter(text, "ABCD"), None, "{text}");
        }
    }

    #[test]
    fn times_in_every_listed_form() {
        for (text, expected) in [
            ("The event happens in the 24.3 - 30.4 seconds.", Some((24.3, 30.4))),
            ("<answer>24.3s to 30.4s</answer>", Some((24.3, 30.4))),
            ("00:10 to 00:20", Some((10.0, 20.0))),
            ("01:02:03 - 01:02:10.5", Some((3723.0, 3730.5))),
            ("24.3 − 30.4", Some((24.3, 30.4))),
            ("24.3‑30.4", Some((24.3, 30.4))),
            ("24.3~30.4", Some((24.3, 30.4))),
            ("between 3 and 9 seconds", Some((3.0, 9.0))),
            ("[3, 9]", Some((3.0, 9.0))),
            ("<think>1 - 2</think><answer>3 - 9</answer>", Some((3.0, 9.0))),
            ("30.4 - 24.3", None),
            ("at 5 seconds", None),
            ("-5 - 10", None),
            ("[API error: Error code: 400]", None),
        ] {
            assert_eq!(interval(text).map(|(found, _)| found), expected, "{text}");
        }
    }

    #[test]
    fn unions_are_lengths_less_overlap() {
        assert_eq!(iou((0.0, 10.0), (5.0, 15.0)), 5.0 / 15.0);
        assert_eq!(iou((0.0, 1.0), (9.0, 10.0)), 0.0);
        assert_eq!(iou((5.0, 5.0), (5.0, 5.0)), 0.0);
    }

    #[test]
    fn free_text_is_compared_without_articles_and_punctuation() {
        let gold = Gold::Text { answer: "Doppler effect".into() };
        assert_eq!(score(&gold, "", "<answer>The Doppler-Effect.</answer>").value, 1.0);
        assert_eq!(score(&gold, "", "<answer>Doppler</answer>").value, 0.0);
    }

    proptest! {
        #[test]
        fn no_text_panics_and_no_foreign_letter_comes_out(text in ".{0,200}") {
            if let Some((found, _)) = letter(&text, "ABC") {
                prop_assert!("ABC".contains(found));
            }
            if let Some(((start, end), _)) = interval(&text) {
                prop_assert!(end > start);
            }
        }
    }
}
