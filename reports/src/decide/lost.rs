//! Rows without a full answer: one rule for all comparisons.

use paravt_suite::backend::FinishReason;
use paravt_suite::record::Record;
use serde::{Deserialize, Serialize};

/// Share of a run's rows that may lack a full answer without making its score another measurement.
///
/// Such rows stay in the denominator as wrong, as in ParaVT cf55249 (paravt/eval/driver.py: a row with
/// an error counts 0), so the published numbers contain some. One row moves a score by at most `1/N`:
/// half a percent of the rows moves it by at most half a point, a sixth of the smallest equivalence
/// margin of a published cell (3 points) and half of what neighbouring checkpoints differ by. More than
/// that would decide a verdict by failures instead of answers.
pub const MAX_LOST: f64 = 0.005;

/// Finish reasons of servers that stopped a reply themselves.
const ABORTED: [&str; 7] =
    ["abort", "aborted", "cancelled", "canceled", "content_filter", "error", "timeout"];

/// Rows of a run that lack a full answer. A row can be in several classes; [`rows`](Self::rows) counts
/// each once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lost {
    /// Rows that ended in an error.
    pub failed: usize,
    /// Rows in which the server aborted a reply.
    pub aborted: usize,
    /// Rows whose frames could not be had, so that the question went out as text alone.
    pub frame_less: usize,
    /// Rows in any of these classes.
    pub rows: usize,
    /// Recorded rows.
    pub of: usize,
}

impl Lost {
    /// Counts a run's records.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut lost = Self::default();
        records.into_iter().for_each(|record| lost.add(record));
        lost
    }

    pub(crate) fn add(&mut self, record: &Record) {
        let classes = [record.error.is_some(), aborted(record), record.transcript.frame_loss.is_some()];
        self.of += 1;
        self.failed += usize::from(classes[0]);
        self.aborted += usize::from(classes[1]);
        self.frame_less += usize::from(classes[2]);
        self.rows += usize::from(classes.contains(&true));
    }

    /// Rows that may be lost: [`MAX_LOST`] of those recorded, rounded down.
    pub fn allowed(&self) -> usize {
        (MAX_LOST * self.of as f64).floor() as usize
    }

    /// Why the run is not comparable with its reference: it lost more rows than the reference did
    /// and [`MAX_LOST`] allows beyond that. `reference` is what is known of the reference; of a published
    /// number nothing is, which counts as none lost. `None` where the rule is kept.
    pub(crate) fn excess_over(&self, reference: &Self) -> Option<String> {
        let extra = self.rows.saturating_sub(reference.rows);
        (extra > self.allowed()).then(|| {
            format!(
                "{} of {} rows lack a full answer ({}), at most {} may",
                self.rows,
                self.of,
                self.classes(),
                reference.rows + self.allowed()
            )
        })
    }

    /// Why the run measures failures: more than half of its rows have no answer. That another run failed on as
    /// many makes the two no more comparable.
    pub(crate) fn mostly_failed(&self) -> Option<String> {
        (2 * self.failed > self.of).then(|| format!("{} of {} rows failed", self.failed, self.of))
    }

    /// The classes with their counts, e.g. `3 failed, 1 frame loss`.
    pub fn classes(&self) -> String {
        let classes = [(self.failed, "failed"), (self.aborted, "aborted"), (self.frame_less, "frame loss")];
        let named = classes.iter().filter(|(count, _)| *count > 0);
        named.map(|(count, name)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
    }
}

fn aborted(record: &Record) -> bool {
    record.transcript.calls.iter().any(|call| match &call.finish_reason {
        Some(FinishReason::Other(reason)) => ABORTED.contains(&reason.to_lowercase().as_str()),
        _ => false,
    })
}
