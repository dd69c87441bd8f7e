//! The answer of a conversation with LongVT, its letter, and whether it is right (`custom_rewards/lmms_lab_recipe.py`).
//!
//! What the release hands to `math_verify` or to a judge when the rules find no match is not repeated.

use std::cmp::Reverse;

use paravt_python::{pattern, strip};
use paravt_suite::text::between;

/// The answer in the text of all turns (`extract_anwser_tag`): the first `<answer>`, even an empty one; the last
/// `\boxed{…}`; the number at the end of the last line that ends with one.
pub fn answer(text: &str) -> &str {
    pattern! { NUMBER = r"(?:\A|\W)(\d+(?:\.\d+)?)\s*\.?\s*\z" }
    if let Some(tagged) = between(text, "<answer>", "</answer>").next() {
        return tagged;
    }
    let number = |line| NUMBER.captures(line).map(|found| found.extract::<1>().1[0]);
    Some(boxed(text))
        .filter(|boxed| !boxed.is_empty())
        .or_else(|| strip(text).rsplit('\n').find_map(number))
        .unwrap_or_default()
}

/// The content of the last `\boxed{` whose brace is closed (`extract_boxed_answer`).
fn boxed(text: &str) -> &str {
    const OPEN: &str = r"\boxed{";
    let closed = text.match_indices(OPEN).filter_map(|(at, _)| {
        let content = &text[at + OPEN.len()..];
        let mut depth = 1_usize;
        let end = content.char_indices().find(|(_, c)| {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        end.map(|(end, _)| &content[..end])
    });
    closed.last().unwrap_or_default()
}

/// An answer without one full stop at its end and blanks around it (`simple_parse`).
pub fn simplified(answer: &str) -> &str {
    strip(answer.strip_suffix('.').unwrap_or(answer))
}

/// Whether an answer is right by the rules (`relax_exact_match`): for a gold letter its [`letter`], for any other the
/// same text, or one within the other that has nine tenths of its length. Both [`simplified`].
pub fn is_right(answer: &str, gold: &str) -> bool {
    if matches!(gold.as_bytes(), [b'A'..=b'H']) {
        return letter(answer).is_some_and(|letter| gold.starts_with(letter));
    }
    let within = |part: &str, whole: &str| {
        whole.contains(part) && part.chars().count() as f64 >= 0.9 * whole.chars().count() as f64
    };
    within(answer, gold) || within(gold, answer) || strip(answer) == strip(gold)
}

const LETTERS: std::ops::RangeInclusive<char> = 'A'..='H';

/// Words that an answer follows: a letter anywhere behind their first occurrence counts.
const PHRASES: [&str; 25] = [
    "the answer is", "answer is", "the correct answer is", "correct answer is", "the answer", "answer",
    "correct answer", "the correct answer", "the best answer is", "best answer is", "the best answer",
    "best answer", "the option is", "option is", "the correct option is", "correct option is",
    "the choice is", "choice is", "the correct choice is", "correct choice is", "i choose", "i select",
    "i pick", "my answer is", "my choice is",
];

/// The letter of an answer (`parse_mcq`): that of the best form, and of its forms the earliest.
pub fn letter(answer: &str) -> Option<char> {
    let mut trimmed = strip(answer);
    if trimmed.is_empty() {
        return None;
    }
    for mark in [',', '.', '!', '?', ';', ':', '\'', '"'] {
        trimmed = trimmed.trim_matches(mark);
    }
    let response = format!(" {trimmed} ");
    let mut found = candidates(&response);
    if found.is_empty() {
        found = LETTERS.filter_map(|letter| Some((0, response.rfind(letter)?, letter))).collect();
    }
    // Of equals the first that was found: `max_by_key` has the last.
    found.into_iter().rev().max_by_key(|(rank, at, _)| (*rank, Reverse(*at))).map(|(_, _, letter)| letter)
}

/// Rank of the form, byte offset and letter of everything that looks like a choice.
fn candidates(response: &str) -> Vec<(u8, usize, char)> {
    let mut found = Vec::new();
    let mut add = |rank: u8, form: &dyn Fn(char) -> String| {
        for letter in LETTERS {
            found.extend(response.rfind(&form(letter)).map(|at| (rank, at, letter)));
        }
    };
    add(6, &|letter| format!("({letter})"));
    for (rank, mark) in [(5, '.'), (4, ':'), (3, ')'), (2, ' '), (1, '-'), (1, '_'), (1, '=')] {
        add(rank, &|letter| format!("{letter}{mark}"));
    }
    found.extend(behind_phrases(response));
    let inner = strip(response);
    found.extend(LETTERS.filter(|letter| inner.starts_with(*letter)).map(|letter| (10, 0, letter)));
    found.extend(LETTERS.filter(|letter| inner.ends_with(*letter)).map(|letter| (9, response.len(), letter)));
    for (number, letter) in (1..).zip(LETTERS) {
        found.extend(response.rfind(&format!("{number}. {letter}")).map(|at| (8, at, letter)));
    }
    found
}

/// The first of each letter behind the first of each phrase. Lower case may have more characters: the place of a phrase
/// is taken by number of characters, as in the release.
fn behind_phrases(response: &str) -> Vec<(u8, usize, char)> {
    let lower = response.to_lowercase();
    let starts = PHRASES.iter().filter_map(|phrase| Some(lower[..lower.find(phrase)?].chars().count()));
    let behind = |start: usize| response.char_indices().map(|(at, _)| at).nth(start);
    let letters = |start: usize| {
        LETTERS.filter_map(move |letter| Some((7, start + response[start..].find(letter)?, letter)))
    };
    starts.filter_map(behind).flat_map(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        for (text, expected) in [
            ("x <answer> B </answer><answer>C</answer>", " B "),
            ("<answer></answer> 5", ""),
            (r"\boxed{1} \boxed{a{b}c} \boxed{", "a{b}c"),
            ("It is 12.5 .\nNo number", "12.5"),
            ("a12", ""),
            ("costs 3.50", "3.50"),
        ] {
            assert_eq!(answer(text), expected, "{text}");
        }
        assert_eq!(simplified(" B.. "), "B..");
        assert_eq!(simplified(" B."), "B");
    }

    #[test]
    fn letters_by_rank_and_place() {
        for (text, expected) in [
            ("A", Some('A')),
            ("(B) or (C)", Some('B')),
            ("I think B.", Some('B')),
            ("The answer is C, not D here", Some('C')),
            ("An apple, D", Some('A')),
            ("maybe xBx", Some('B')),
            ("none", None),
            ("", None),
        ] {
            assert_eq!(letter(text), expected, "{text}");
        }
        assert!(is_right("The answer is C", "C") && !is_right("D", "C"));
        assert!(is_right("a red hat on", "a red hat on!") && !is_right("red", "a red hat"));
    }
}
