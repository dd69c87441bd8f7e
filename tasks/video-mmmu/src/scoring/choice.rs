//! `extract_mcq_answer`: the letter in the form of the highest priority, of several the last.

use std::sync::LazyLock;

use paravt_python::{CharClass, strip};

/// Characters that are taken off both ends, one kind after the other.
const WRAPPING: [char; 8] = [',', '.', '!', '?', ';', ':', '\'', '"'];

/// What an answer is announced with, in lower case.
const PHRASES: [&str; 27] = [
    "the answer is", "answer is", "the correct answer is", "correct answer is", "the best answer is",
    "best answer is", "the correct option is", "correct option is", "the best option is", "best option is",
    "the choice is", "choice is", "the correct choice is", "correct choice is", "i choose", "i select",
    "i pick", "my answer is", "my choice is", "옵션", "정답은", "답은", "답:", "答案是", "答案为", "选",
    "答えは",
];

/// Forms in which a letter is found anywhere, by priority; `_` is the letter.
const FORMS: [(&str, u8, &str); 5] = [
    ("(_)", 6, "parentheses"),
    ("_.", 5, "period"),
    ("_:", 4, "colon"),
    ("_)", 3, "right_paren"),
    ("_ ", 2, "space"),
];

/// A letter, its priority, its place and the name of its form.
type Candidate = (char, u8, usize, &'static str);

/// The letter and the form in which it was found.
pub(super) fn extract(text: &str, letters: &str) -> Option<(char, &'static str)> {
    if strip(text).is_empty() {
        return None;
    }
    let text = WRAPPING.iter().fold(strip(text), |text, wrapping| text.trim_matches(*wrapping));
    let text = format!(" {text} ");
    let mut candidates: Vec<Candidate> = Vec::new();
    for (form, priority, name) in FORMS {
        let place = |letter: char| text.rfind(&form.replace('_', letter.encode_utf8(&mut [0; 4])));
        candidates
            .extend(letters.chars().filter_map(|letter| Some((letter, priority, place(letter)?, name))));
    }
    candidates.extend(announced(&text, letters));
    candidates.extend(at_an_end(&text, letters));
    if candidates.is_empty() {
        let anywhere = |letter: char| Some((letter, 0, text.rfind(letter)?, "fallback"));
        candidates.extend(letters.chars().filter_map(anywhere));
    }
    // Of equals the first.
    let best = candidates.into_iter().rev().max_by_key(|(_, priority, place, _)| (*priority, *place));
    best.map(|(letter, _, _, name)| (letter, name))
}

/// Every letter's first place after the first place of each phrase, however far.
fn announced(text: &str, letters: &str) -> Vec<Candidate> {
    let lower = text.to_lowercase();
    let mut found = Vec::new();
    for phrase in PHRASES {
        let Some(at) = lower.find(phrase) else { continue };
        // Places are counted in characters: another case may have other bytes.
        let after = lower[..at + phrase.len()].chars().count();
        let from = text.char_indices().nth(after).map_or(text.len(), |(from, _)| from);
        let place = |letter: char| Some(from + text[from..].find(letter)?);
        found.extend(letters.chars().filter_map(|letter| Some((letter, 7, place(letter)?, "phrase"))));
    }
    found
}

/// A letter at the start or the end that is not part of a word.
fn at_an_end(text: &str, letters: &str) -> Vec<Candidate> {
    let bare: Vec<char> = strip(text).chars().collect();
    let alone = |at: Option<&char>, beside: Option<&char>, letter: char| {
        at == Some(&letter) && !beside.is_some_and(|c| is_alphabetic(*c))
    };
    let before_last = bare.len().checked_sub(2).and_then(|at| bare.get(at));
    let starts = letters.chars().filter(|letter| alone(bare.first(), bare.get(1), *letter));
    let ends = letters.chars().filter(|letter| alone(bare.last(), before_last, *letter));
    let starts = starts.map(|letter| (letter, 10, 0, "start"));
    starts.chain(ends.map(|letter| (letter, 9, text.len(), "end"))).collect()
}

/// `str.isalpha` of one character.
fn is_alphabetic(c: char) -> bool {
    static LETTER: LazyLock<CharClass> = LazyLock::new(|| CharClass::literal(r"\p{L}"));
    LETTER.run_of(c).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_the_highest_priority_is_taken() {
        for (text, found) in [
            ("B", Some(('B', "start"))),
            ("A dog, so C", Some(('A', "start"))),
            ("so it is C.", Some(('C', "end"))),
            ("The answer is: (B), and not C: blue", Some(('C', "phrase"))),
            ("(B) fits, (A) fits less", Some(('A', "parentheses"))),
            ("see A. and B: both", Some(('A', "period"))),
            ("dogBark", Some(('B', "fallback"))),
            ("选 B吧", Some(('B', "phrase"))),
            ("no idea", None),
            (" ", None),
        ] {
            assert_eq!(extract(text, "ABCD"), found, "{text}");
        }
    }
}
