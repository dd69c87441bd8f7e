//! The suite's own reading of replies: an answer is taken where a reader would say at once that it is one, or not at all.
//!
//! One module for each kind of question, each a list of named rules; the table at its function says what a rule takes and
//! what it must not take. `suite/tests/replies/` holds replies with the reading that a person gives them.

/// A static pattern, compiled where it is first used.
macro_rules! pattern {
    ($(#[$doc:meta])* $vis:vis $name:ident = $pattern:expr) => {
        $(#[$doc])*
        $vis static $name: std::sync::LazyLock<regex::Regex> =
            std::sync::LazyLock::new(|| regex::Regex::new($pattern).expect("literal pattern"));
    };
}

mod choice;
mod interval;
mod leads;
mod number;
mod options;
mod reply;
mod text;
mod times;

use crate::record::{Outcome, Score};
use crate::reference::Tag;
use crate::sample::{Gold, Sample};
use crate::scoring::Scorer;
use crate::scoring::number::mean_relative_accuracy;
use crate::span::TimeSpan;
use crate::text::fixed1;

pub use choice::letter;
pub use interval::interval;
pub use number::number;
pub use options::Options;
pub use text::text;

/// The rules of profile `strict`, of `audit` and of rewards that ask for them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Strict<'a> {
    /// Blocks that hold a call, and with it no answer.
    pub tags: &'a [Tag],
}

impl Scorer for Strict<'_> {
    fn score(&self, gold: &Gold, letters: &str, text: &str) -> Score {
        self.read(gold, &Options::new(letters, &[]), text)
    }

    fn score_sample(&self, sample: &Sample, text: &str) -> Score {
        let question = &sample.question;
        self.read(&sample.gold, &Options::new(&question.letters, &question.option_texts()), text)
    }
}

impl Strict<'_> {
    fn read(&self, gold: &Gold, options: &Options, reply: &str) -> Score {
        let found = match gold {
            Gold::Choice { answer } => letter(reply, options, self.tags).map(|(letter, rule)| {
                let letter = letter.to_string();
                (f64::from(u8::from(letter == *answer)), letter, rule)
            }),
            Gold::Interval { start, end } => interval(reply, self.tags).map(|(found, rule)| {
                let prediction = format!("{}-{}", fixed1(found.start), fixed1(found.end));
                (found.iou(TimeSpan::new(*start, *end)), prediction, rule)
            }),
            Gold::Number { answer } => number(reply, self.tags)
                .map(|(found, rule)| (mean_relative_accuracy(found, *answer), found.to_string(), rule)),
            Gold::Text { answer, .. } => text(reply, self.tags).map(|(found, rule)| {
                (f64::from(u8::from(normalised(&found) == normalised(answer))), found, rule)
            }),
        };
        match found {
            Some((value, prediction, rule)) => Score {
                outcome: Outcome::Scored,
                value,
                prediction: Some(prediction),
                rule: Some(rule.to_owned()),
            },
            None => Score { outcome: Outcome::Unparsed, value: 0.0, prediction: None, rule: None },
        }
    }
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
mod tests;
