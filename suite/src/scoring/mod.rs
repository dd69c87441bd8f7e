//! From final text to score: a pure function of gold, text and switches.

pub mod strict;
pub mod summary;
pub mod upstream;

use crate::profile::{Extraction, Switches};
use crate::record::{Outcome, Score};
use crate::sample::Gold;

/// Scores one final text.
///
/// `letters` are the row's own option letters; `truncated_call` says that the text ended at the
/// token limit in the middle of a tool call.
pub fn score(gold: &Gold, letters: &str, text: &str, truncated_call: bool, switches: &Switches) -> Score {
    if truncated_call && switches.flag_truncated_calls {
        return Score {
            outcome: Outcome::Unparsed,
            value: 0.0,
            prediction: None,
            rule: Some("truncated_call".to_owned()),
        };
    }
    match switches.extraction {
        Extraction::Upstream => upstream::score(gold, text),
        Extraction::Strict => strict::score(gold, letters, text),
    }
}
