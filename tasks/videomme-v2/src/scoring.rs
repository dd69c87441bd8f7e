//! The extraction that Video-MME-v2 was published with (MME-Benchmarks/Video-MME-v2 b24176a
//! `evaluation/test_video_mme_v2.py`, and lmms-eval 75571cf `lmms_eval/tasks/videomme_v2/utils.py`; lmms-eval 0.7.3 has
//! another): the first capital from A to H is the answer, in a word or not.

use paravt_suite::record::{Outcome, Score};
use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;

/// Scores by the first capital; under `strict` the suite's own rules are used.
pub(crate) struct FirstCapital;

impl Scorer for FirstCapital {
    fn score(&self, gold: &Gold, _letters: &str, text: &str) -> Score {
        let found = first_capital(text).map(String::from);
        Score {
            outcome: if found.is_some() { Outcome::Scored } else { Outcome::Unparsed },
            value: f64::from(u8::from(found.as_ref().is_some_and(|letter| *letter == gold.to_string()))),
            prediction: found,
            rule: Some("first_capital".to_owned()),
        }
    }
}

/// Texts that are deleted before, one after the other and wherever they stand.
const PREFIXES: [&str; 11] = [
    "Final Answer:", "The best answer is", "The correct answer is", "The answer is", "The answer",
    "The best option is", "The correct option is", "Best answer:", "Best option:", "Answer:", "Option:",
];

fn first_capital(text: &str) -> Option<char> {
    let text = PREFIXES.iter().fold(text.to_owned(), |text, prefix| text.replace(prefix, ""));
    text.chars().find(|c| ('A'..='H').contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_capital_is_the_answer() {
        for (text, letter) in [
            ("Final Answer: <C>", Some('C')),
            ("The best answer is (H).", Some('H')),
            ("I think it is the Goat", Some('G')),
            ("Hello B", Some('H')),
            ("answer: b", None),
            ("The answer", None),
        ] {
            assert_eq!(first_capital(text), letter, "{text}");
        }
        let gold = Gold::Choice { answer: "B".into() };
        assert_eq!(FirstCapital.score(&gold, "ABCDEFGH", "B. A lamp").value, 1.0);
        assert_eq!(FirstCapital.score(&gold, "ABCDEFGH", "none").outcome, Outcome::Unparsed);
    }
}
