//! From final text to score: a pure function of gold, text, switches and the release that is repeated.

pub mod strict;
pub mod summary;

use crate::profile::{Extraction, Switches};
use crate::record::{Outcome, Score};
use crate::reference::Reference;
use crate::sample::Gold;

/// Rule of a text at which the release's own code raises; its profiles count the sample as failed.
pub const RAISES: &str = "too_many_minutes";

/// Scores one final text.
///
/// `letters` are the row's own option letters; `truncated_call` says that the text ended at the
/// token limit in the middle of a tool call.
pub fn score(
    gold: &Gold,
    letters: &str,
    text: &str,
    truncated_call: bool,
    switches: &Switches,
    reference: &Reference,
) -> Score {
    if truncated_call && switches.flag_truncated_calls {
        return Score {
            outcome: Outcome::Unparsed,
            value: 0.0,
            prediction: None,
            rule: Some("truncated_call".to_owned()),
        };
    }
    match switches.extraction {
        Extraction::Upstream => reference.extractor.score(gold, text),
        Extraction::Strict => strict::score(gold, letters, text, reference.syntax.tags()),
    }
}
