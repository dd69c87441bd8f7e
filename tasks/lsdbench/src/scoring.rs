//! The scoring that LSDBench was published with (dvlab-research/LSDBench 340a469 `evaluation/utils.py`, and lmms-eval
//! 75571cf `lmms_eval/tasks/lsdbench/utils.py`): the last letter that stands alone is the answer.

use paravt_suite::record::{Outcome, Score};
use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;

/// Scores by the last letter; under `strict` the suite's own rules are used.
pub(crate) struct LastLetter;

impl Scorer for LastLetter {
    fn score(&self, gold: &Gold, _letters: &str, text: &str) -> Score {
        let found = last_letter(text).map(String::from);
        Score {
            outcome: if found.is_some() { Outcome::Scored } else { Outcome::Unparsed },
            value: f64::from(u8::from(found.as_ref().is_some_and(|letter| *letter == gold.to_string()))),
            prediction: found,
            rule: Some("last_letter".to_owned()),
        }
    }
}

/// The last match of `(?<![a-zA-Z])[ABCD](?![a-zA-Z])`; the letter A of "A man" is one.
fn last_letter(text: &str) -> Option<char> {
    let is_letter = |c: Option<&char>| c.is_some_and(char::is_ascii_alphabetic);
    let characters: Vec<char> = text.chars().collect();
    let alone = |at: &usize| {
        let before = at.checked_sub(1).and_then(|before| characters.get(before));
        ('A'..='D').contains(&characters[*at]) && !is_letter(before) && !is_letter(characters.get(at + 1))
    };
    (0..characters.len()).rev().find(alone).map(|at| characters[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_letter_that_stands_alone_is_the_answer() {
        for (text, letter) in [
            ("A", Some('A')),
            ("the answer is <answer>D</answer>", Some('D')),
            ("(B), not C.", Some('C')),
            ("B because A man enters", Some('A')),
            ("_B_ 1C2", Some('C')),
            ("éBé", Some('B')),
            ("E", None),
            ("ABCD and b", None),
            ("", None),
        ] {
            assert_eq!(last_letter(text), letter, "{text}");
        }
        let gold = Gold::Choice { answer: "C".into() };
        assert_eq!(LastLetter.score(&gold, "ABCD", "It is C").value, 1.0);
        assert_eq!(LastLetter.score(&gold, "ABCD", "none").outcome, Outcome::Unparsed);
    }
}
