//! The scoring of VideoMMMU in lmms-eval (75571cf `lmms_eval/tasks/videommmu/utils.py` and
//! `lmms_eval/tasks/_task_utils/mcq_extract.py`). An empty reply to an open question is unparsed and counts 0; there it
//! leaves the mean.

mod choice;
mod open;

use paravt_suite::record::{Outcome, Score};
use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;

/// Scores by the rules of lmms-eval; under `strict` the suite's own rules are used.
pub(crate) struct LmmsEval;

impl Scorer for LmmsEval {
    fn score(&self, gold: &Gold, letters: &str, text: &str) -> Score {
        let gold_text = gold.to_string();
        let (found, right, rule) = match gold {
            Gold::Choice { .. } => match choice::extract(text, letters) {
                Some((letter, rule)) => {
                    let letter = letter.to_string();
                    let right = letter == gold_text;
                    (Some(letter), right, Some(rule))
                }
                None => (None, false, None),
            },
            _ => match open::key_phrases(text) {
                Some(phrases) => {
                    let right = open::holds(&phrases, &gold_text);
                    (Some(phrases.join("; ")), right, Some("key_phrase"))
                }
                None => (None, false, None),
            },
        };
        Score {
            outcome: if found.is_some() { Outcome::Scored } else { Outcome::Unparsed },
            value: f64::from(u8::from(right)),
            prediction: found,
            rule: rule.map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_and_open_questions_have_rules_of_their_own() {
        let choice = Gold::Choice { answer: "J".into() };
        let score = LmmsEval.score(&choice, "ABCDEFGHIJ", "The answer is J");
        assert_eq!(
            (score.value, score.prediction.as_deref(), score.rule.as_deref()),
            (1.0, Some("J"), Some("end"))
        );
        assert_eq!(LmmsEval.score(&choice, "ABCDEFGHIJ", "none").outcome, Outcome::Unparsed);
        let open = Gold::Text { answer: "1,200".into(), counted: true };
        let score = LmmsEval.score(&open, "", "Adding both.\nThe total is 1200.");
        assert_eq!((score.value, score.prediction.as_deref()), (1.0, Some("1200")));
        assert_eq!(LmmsEval.score(&open, "", "").outcome, Outcome::Unparsed);
        assert_eq!(LmmsEval.score(&open, "", "no").value, 0.0);
    }
}
