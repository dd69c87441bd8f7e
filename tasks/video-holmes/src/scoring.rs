//! The scoring of Video-Holmes in lmms-eval (75571cf `lmms_eval/tasks/video_holmes/utils.py`): the parser of MMMU. Where
//! that finds nothing it draws a letter; here the answer is unparsed and counts 0.

use paravt_python::{is_space, strip};
use paravt_suite::record::{Outcome, Score};
use paravt_suite::sample::{Gold, Sample};
use paravt_suite::scoring::Scorer;

/// Scores by MMMU's parser; under `strict` the suite's own rules are used.
pub(crate) struct MmmuParser;

impl Scorer for MmmuParser {
    fn score(&self, gold: &Gold, letters: &str, text: &str) -> Score {
        score(gold, letters, &[], text)
    }

    fn score_sample(&self, sample: &Sample, text: &str) -> Score {
        score(&sample.gold, &sample.question.letters, &sample.question.options, text)
    }
}

fn score(gold: &Gold, letters: &str, options: &[String], text: &str) -> Score {
    let found = parse(text, letters, options);
    let right = |letter: char| gold.to_string().eq_ignore_ascii_case(letter.encode_utf8(&mut [0; 4]));
    Score {
        outcome: if found.is_some() { Outcome::Scored } else { Outcome::Unparsed },
        value: f64::from(u8::from(found.is_some_and(|(letter, _)| right(letter)))),
        prediction: found.map(|(letter, _)| letter.to_string()),
        rule: found.map(|(_, rule)| rule.to_owned()),
    }
}

/// Characters that are taken off both ends, one kind after the other.
const WRAPPING: [char; 7] = [',', '.', '!', '?', ';', ':', '\''];
/// Words of a reply up to which it is not searched for the texts of options.
const SHORT: usize = 5;

/// The letter and what it was found by: of several the one whose last place is the latest, of equals the first.
fn parse(text: &str, letters: &str, options: &[String]) -> Option<(char, &'static str)> {
    let text = WRAPPING.iter().fold(text, |text, wrapping| text.trim_matches(*wrapping));
    let text = format!(" {text} ");
    let with = |form: fn(char) -> String| -> Vec<char> {
        letters.chars().filter(|letter| text.contains(&form(*letter))).collect()
    };
    let last = |found: Vec<char>, place: &dyn Fn(char) -> Option<usize>| {
        // The last of equals is taken by `max_by_key`: from the end that is the first.
        found.into_iter().rev().max_by_key(|letter| place(*letter))
    };
    let bracketed = |letter: char| format!("({letter})");
    if let Some(letter) = last(with(bracketed), &|letter| text.rfind(&bracketed(letter))) {
        return Some((letter, "bracketed"));
    }
    let word = |letter: char| text.rfind(&format!(" {letter} "));
    for (form, rule) in [
        ((|letter| format!("{letter} ")) as fn(char) -> String, "letter_and_space"),
        (|letter| format!("{letter}."), "letter_and_point"),
    ] {
        if let Some(letter) = last(with(form), &word) {
            return Some((letter, rule));
        }
    }
    if strip(&text).split(is_space).filter(|word| !word.is_empty()).count() <= SHORT {
        return None;
    }
    let lower = text.to_lowercase();
    let place = |letter: char| {
        let option = letters.chars().position(|other| other == letter).and_then(|place| options.get(place));
        option.and_then(|option| lower.rfind(&option.to_lowercase()))
    };
    let named = letters.chars().filter(|letter| place(*letter).is_some()).collect();
    last(named, &place).map(|letter| (letter, "option_text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_found_in_the_order_of_mmmu() {
        let options = ["a red lamp", "a dog", "A Dog runs", "x", "y", "z"].map(str::to_owned);
        for (text, found) in [
            ("B", Some(('B', "letter_and_space"))),
            ("(B) or (A)", Some(('A', "bracketed"))),
            ("B. A red lamp", Some(('A', "letter_and_space"))),
            ("Answer:B.", Some(('B', "letter_and_space"))),
            ("it:B.C.x", Some(('B', "letter_and_point"))),
            ("he saw that it was a red lamp", Some(('A', "option_text"))),
            ("there he saw that a dog runs", Some(('B', "option_text"))),
            ("a red lamp", None),
            ("", None),
        ] {
            assert_eq!(parse(text, "ABCDEF", &options), found, "{text}");
        }
        let gold = Gold::Choice { answer: "B".into() };
        let score = |text| MmmuParser.score(&gold, "ABCDEF", text);
        assert_eq!((score("b").outcome, score("(B)").value), (Outcome::Unparsed, 1.0));
    }
}
