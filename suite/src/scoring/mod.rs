//! From final text to score: a pure function of gold, text, switches and the rules that are repeated.

pub mod group;
mod metric;
pub mod number;
pub mod strict;

use crate::profile::{Extraction, Switches};
use crate::record::{Outcome, Score};
use crate::reference::Reference;
use crate::sample::Sample;

pub use crate::reference::{RAISES, Scorer};
pub use metric::{Member, Metric, MetricValue, Over};
pub use strict::Strict;

/// Scores the final text of a sample.
///
/// `truncated_call` says that the text ended at the token limit in the middle of a tool call.
pub fn score(
    sample: &Sample,
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
        Extraction::Upstream => reference.scorer.score_sample(sample, text),
        Extraction::Strict => Strict { tags: reference.syntax.tags() }.score_sample(sample, text),
    }
}
