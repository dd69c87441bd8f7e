//! Corrected extraction: an answer is taken where it is given as one, or
//! not at all. Never out of running prose, an error text or a tool call.

use std::sync::LazyLock;

use regex::Regex;

use crate::record::{Outcome, Score};
use crate::reference::CallTags;
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

/// How the reference driver writes a failed model call into the place of an answer.
const API_ERROR: &str = "[API error:";

/// The last closed `<answer>`; without one, what follows the last `</think>`. Tool calls, error
/// texts and a think block that was never closed hold no answer.
fn select(text: &str, tags: &CallTags) -> Option<Selected> {
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
    let text = tags.all().fold(text.to_owned(), |text, (open, close)| without_blocks(&text, open, close));
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
    /// Blocks between these tags hold no answer.
    pub tags: &'a CallTags,
}

impl Scorer for Strict<'_> {
    fn score(&self, gold: &Gold, letters: &str, text: &str) -> Score {
        score(gold, letters, text, self.tags)
    }
}

fn score(gold: &Gold, letters: &str, text: &str, tags: &CallTags) -> Score {
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
        Gold::Text { answer } => match select(text, tags).filter(|selected| !selected.text.is_empty()) {
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
pub fn letter(text: &str, letters: &str, tags: &CallTags) -> Option<(char, &'static str)> {
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
/// of taste"), unless a reason follows; "B or C" is no answer.
fn stated(text: &str) -> Option<char> {
    static STATED: LazyLock<Regex> = LazyLock::new(|| {
        let lead = r"\b(?i:answer|option)[*_]*(?:\s+(?i:is)|\s*:)[*_:]*\s*(?:[(\[*_]|\\boxed\{)*(?:(?i:option)\s+)?(?:[(\[*_]|\\boxed\{)*";
        let closed = r"([A-Za-z])(?:[)\]*_.,:;!}]|\s*$|\s*\n)";
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
pub fn interval(text: &str, tags: &CallTags) -> Option<(TimeSpan, &'static str)> {
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
pub fn number(text: &str, tags: &CallTags) -> Option<(f64, &'static str)> {
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
mod tests {
    use super::*;
    use crate::fixtures::TAGS;
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
            ("The answer is A because the lamp is lit", Some(('A', "answer_is"))),
            ("The answer is A - the lamp", Some(('A', "answer_is"))),
            ("the answer is option (b)", Some(('B', "answer_is"))),
            ("So the answer is \\boxed{D}.", Some(('D', "answer_is"))),
            ("Correct option: C, not A", Some(('C', "answer_is"))),
            ("The answer is A. No: the answer is B.", Some(('B', "answer_is"))),
            ("[[c]]", Some(('C', "letter_only"))),
            ("_B_", Some(('B', "letter_only"))),
            ("\\boxed{(b)}", Some(('B', "letter_only"))),
            ("<answer>A<answer>B</answer>", Some(('B', "answer_tag"))),
            ("<answer>B</answer> done</answer>", Some(('B', "answer_tag"))),
            ("<answer>B</answer><answer>C", Some(('B', "answer_tag"))),
            ("<think>x</think> y <think>z</think>\nB", Some(('B', "letter_only"))),
            ("<tool_call>{\"a\": \"C\"}</tool_call>\nB", Some(('B', "letter_only"))),
            ("B<|im_end|>", Some(('B', "letter_only"))),
        ] {
            assert_eq!(letter(text, "ABCD", &TAGS), expected, "{text}");
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
            "The answer is A man in red",
            "Answer: A dog runs past",
            "The answer is B or C",
            "The answer is not B",
            "Option B is wrong",
            "option b looks right",
            "A. red B. green C. blue D. none",
            "A_B",
            "B C",
            "4",
            "Á",
            "答案是B",
            "[API error: answer: B]",
            "<think>x</think> y <think> The answer is B",
            "<tool_call>{\"answer\": \"B\"}</tool_call>",
            "<answer><tool_call>answer: B</tool_call></answer>",
            "<tool_response>\nB\n</tool_response>",
            "<answer>E</answer> B",
            "",
        ] {
            assert_eq!(letter(text, "ABCD", &TAGS), None, "{text}");
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
            ("- 24.3 - 30.4", Some((24.3, 30.4))),
            ("24.3—30.4", Some((24.3, 30.4))),
            ("24.3‐30.4", Some((24.3, 30.4))),
            ("24.3, 30.4", Some((24.3, 30.4))),
            ("3 SEC To 9 Secs", Some((3.0, 9.0))),
            ("1:02:03,1:02:10", Some((3723.0, 3730.0))),
            ("from 00:19.7s - 00:25.6s.", Some((19.7, 25.6))),
            ("61:00 - 62:00", Some((3660.0, 3720.0))),
            ("３ - ７", Some((3.0, 7.0))),
            ("<think>1 - 2</think> 3 - 9", Some((3.0, 9.0))),
            ("<answer>1 - 2</answer><answer>3 - 9</answer>", Some((3.0, 9.0))),
            ("5 - 5", None),
            ("10 - -5", None),
            ("starts at 3", None),
            ("3 cats, 5 dogs", None),
            ("[API error: 400 - 65536]", None),
            ("<think>3 - 9", None),
            ("<tool_call>{\"start_time\": 3, \"x\": [3, 9]}</tool_call>", None),
            ("", None),
            ("30.4 - 24.3", None),
            ("at 5 seconds", None),
            ("-5 - 10", None),
            ("[API error: Error code: 400]", None),
        ] {
            assert_eq!(interval(text, &TAGS).map(|(found, _)| found.into()), expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_taken_where_they_are_answers() {
        for (text, expected) in [
            ("3", Some((3.0, "number_only"))),
            ("3.", Some((3.0, "number_only"))),
            ("**2.5 meters**", Some((2.5, "number_only"))),
            ("12 square meters.", Some((12.0, "number_only"))),
            ("<answer>1,250 cm</answer>", Some((1250.0, "answer_tag"))),
            ("<answer>\\boxed{-0.5}</answer>", Some((-0.5, "answer_tag"))),
            ("<answer>There are 4 chairs</answer>", Some((4.0, "answer_tag_number"))),
            ("<think>2 or 3</think>Three", Some((3.0, "number_only"))),
            ("I counted 2, then 5. The answer is 7.", Some((7.0, "answer_is"))),
            ("First 2, then 5.\n7", Some((7.0, "number_line"))),
            ("<answer>2 or 3</answer>", None),
            ("between 2 and 3", None),
            ("[API error: 400]", None),
            ("<tool_call>{\"start_time\": 3}</tool_call>", None),
            ("many", None),
            ("", None),
        ] {
            assert_eq!(number(text, &TAGS), expected, "{text}");
        }
        let gold = Gold::Number { answer: 10.0 };
        assert_eq!(score(&gold, "", "9", &TAGS).value, 0.9);
        assert_eq!(score(&gold, "", "none", &TAGS).outcome, Outcome::Unparsed);
    }

    #[test]
    fn free_text_is_compared_without_articles_and_punctuation() {
        let gold = Gold::Text { answer: "Doppler effect".into() };
        assert_eq!(score(&gold, "", "<answer>The Doppler-Effect.</answer>", &TAGS).value, 1.0);
        assert_eq!(score(&gold, "", "<answer>Doppler</answer>", &TAGS).value, 0.0);
        assert_eq!(score(&gold, "", "<answer> </answer>", &TAGS).outcome, Outcome::Unparsed);
        let letter = Gold::Text { answer: "A".into() };
        assert_eq!(score(&letter, "", "<answer>the</answer>", &TAGS).value, 0.0);
        assert_eq!(score(&letter, "", "<answer>a.</answer>", &TAGS).value, 1.0);
    }

    proptest! {
        #[test]
        fn no_text_panics_and_no_foreign_letter_comes_out(text in ".{0,200}") {
            if let Some((found, _)) = letter(&text, "ABC", &TAGS) {
                prop_assert!("ABC".contains(found));
            }
            if let Some((TimeSpan { start, end }, _)) = interval(&text, &TAGS) {
                prop_assert!(end > start);
            }
            if let Some((found, _)) = number(&text, &TAGS) {
                prop_assert!(found.is_finite());
            }
        }
    }
}
