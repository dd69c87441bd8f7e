//! From final text to score: a pure function of gold, text, switches and the rules that are repeated.

mod metric;
pub mod number;
pub mod strict;

use crate::profile::{Extraction, Switches};
use crate::record::{Outcome, Score};
use crate::reference::Reference;
use crate::sample::Gold;

pub use crate::reference::{RAISES, Scorer};
pub use metric::{Metric, MetricValue, Over};
pub use strict::Strict;

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
        Extraction::Upstream => reference.scorer.score(gold, letters, text),
        Extraction::Strict => Strict { tags: reference.syntax.tags() }.score(gold, letters, text),
    }
}
