//! Flags of choice questions whose options leave the answer in doubt.

use crate::sample::{Gold, Question};

/// Flag of a choice question with an option that has no text.
pub const EMPTY_OPTION: &str = "empty_option";
/// Flag of a choice question with another option of the gold answer's text: its letter scores 0.
pub const GOLD_TWICE: &str = "gold_text_twice";

/// The flags of a question. Its options are compared without blanks around them and without letters.
pub(super) fn flags(question: &Question, gold: &Gold) -> impl Iterator<Item = &'static str> {
    let texts = question.option_texts();
    let gold = match gold {
        Gold::Choice { answer } => question.letters.chars().position(|letter| answer.chars().eq([letter])),
        Gold::Interval { .. } | Gold::Text { .. } | Gold::Number { .. } => None,
    };
    let same = |gold: &&str| texts.iter().filter(|text| *text == gold).count() > 1;
    let twice = gold.and_then(|index| texts.get(index)).is_some_and(same);
    let empty = texts.contains(&"");
    [(empty, EMPTY_OPTION), (twice, GOLD_TWICE)].into_iter().filter_map(|(is, flag)| is.then_some(flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags_of(stem: &str, options: &[&str], gold: &str) -> Vec<&'static str> {
        let options: Vec<String> = options.iter().map(|option| option.to_string()).collect();
        let letters = "ABC".to_owned();
        let question = Question { stem: stem.to_owned(), options, letters, subtitles: None };
        flags(&question, &Gold::Choice { answer: gold.to_owned() }).collect()
    }

    #[test]
    fn an_empty_option_and_a_gold_text_of_two_letters_are_flagged() {
        assert_eq!(flags_of("Q?", &["kite", "drone", " kite "], "A"), [GOLD_TWICE]);
        assert_eq!(flags_of("Q?", &["kite", "drone", "kite"], "B"), [""; 0], "the gold stands once");
        assert_eq!(flags_of("Q?", &["", "drone", " "], "C"), [EMPTY_OPTION, GOLD_TWICE]);
        assert_eq!(flags_of("Q?", &["kite", "drone", "kite"], "?"), [""; 0], "a gold without a letter");
    }

    #[test]
    fn options_are_compared_without_their_letters() {
        assert_eq!(flags_of("Q?", &["A. kite", "B. drone", "C. kite"], "C"), [GOLD_TWICE]);
        assert_eq!(flags_of("Q?", &["A. A.", "B. F.", "C."], "C"), [EMPTY_OPTION]);
        assert_eq!(flags_of("Q?\n(A) kite\n(B) kite\n(C)", &[], "B"), [EMPTY_OPTION, GOLD_TWICE]);
    }

    #[test]
    fn a_number_has_no_options() {
        let number = Gold::Number { answer: 2.0 };
        assert_eq!(flags(&Question { stem: "How many?".into(), ..Question::default() }, &number).count(), 0);
    }
}
