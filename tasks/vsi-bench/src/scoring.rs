//! The scoring that VSI-Bench was published with (vision-x-nyu/thinking-in-space 51e089c
//! `lmms_eval/tasks/vsibench/utils.py`): the first word of the reply is the answer.

use paravt_python::{float, strip};
use paravt_suite::record::{Outcome, Score};
use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;
use paravt_suite::scoring::number::mean_relative_accuracy;

/// Scores by the first word; under `strict` the suite's own rules are used.
pub(crate) struct FirstWord;

impl Scorer for FirstWord {
    fn score(&self, gold: &Gold, _letters: &str, text: &str) -> Score {
        let word = first_word(text);
        let value = match gold {
            Gold::Number { answer } => float(word).map(|found| mean_relative_accuracy(found, *answer)),
            gold => Some(f64::from(u8::from(word.to_lowercase() == gold.to_string().to_lowercase()))),
        };
        Score {
            outcome: if value.is_some() { Outcome::Scored } else { Outcome::Unparsed },
            value: value.unwrap_or_default(),
            prediction: Some(word.to_owned()),
            rule: Some("first_word".to_owned()),
        }
    }
}

/// What stands before the first space, without full stops at its end. A line break does not count as a space.
fn first_word(text: &str) -> &str {
    strip(text.split(' ').next().unwrap_or_default().trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_is_the_answer() {
        let score = |gold: &Gold, text| FirstWord.score(gold, "ABCD", text).value;
        let letter = Gold::Choice { answer: "A".into() };
        for (text, value) in [("A", 1.0), ("a. left", 1.0), ("A. left", 1.0), ("A) left", 0.0), (" A", 0.0)] {
            assert_eq!(score(&letter, text), value, "{text}");
        }
        assert_eq!(score(&letter, "<answer>A</answer>"), 0.0, "no tags are read");
        let number = Gold::Number { answer: 10.0 };
        for (text, value) in
            [("9", 0.9), ("9.5 m", 1.0), ("10.", 1.0), ("1_0", 1.0), ("ten", 0.0), ("nan", 0.0)]
        {
            assert_eq!(score(&number, text), value, "{text}");
        }
        assert_eq!(FirstWord.score(&number, "", "ten").outcome, Outcome::Unparsed);
    }
}
