//! From final text to score: a pure function of gold, text, switches and the rules that are repeated.

mod metric;
pub mod number;
pub mod strict;
pub mod summary;

use crate::profile::{Extraction, Switches};
use crate::record::{Outcome, Score};
use crate::reference::Reference;
use crate::sample::Gold;

pub use metric::{Metric, MetricValue};
pub use strict::Strict;

/// Rule of a text at which the release's own code raises; its profiles count the sample as failed.
pub const RAISES: &str = "too_many_minutes";

/// A way to take an answer out of a text and to compare it: the corrected rules ([`Strict`]), those of a
/// release, mistakes included, or those that a benchmark was published with.
pub trait Scorer: Send + Sync {
    /// Scores one final text. `letters` are the row's own option letters, empty for other than choice
    /// questions. A text at which the repeated code raises has the rule [`RAISES`].
    fn score(&self, gold: &Gold, letters: &str, text: &str) -> Score;
}

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
