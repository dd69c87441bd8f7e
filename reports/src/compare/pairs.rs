//! Samples that two runs share.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::rows::{SampleRow, samples, sums_by_video};
use crate::runs::Run;
use crate::statistics::Cluster;

/// From here on an answer counts as right: 1 or 0 for choices, IoU for intervals.
const RIGHT: f64 = 0.5;

/// The samples that both runs scored, in the order of their names.
#[derive(Debug, Clone)]
pub struct Pairs {
    rows: Vec<(SampleRow, SampleRow)>,
    /// Samples that only one of the runs scored.
    pub unpaired: usize,
}

/// Samples whose answer flipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Flips {
    /// Wrong in A, right in B.
    pub gained: usize,
    /// Right in A, wrong in B.
    pub lost: usize,
}

/// An answer that flipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flip {
    /// Sample.
    pub uid: String,
    /// Right in B, wrong in A; else the other way round.
    pub gained: bool,
}

/// Means over the pairs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Means {
    /// Of A.
    pub a: f64,
    /// Of B.
    pub b: f64,
    /// Tokens of B less A.
    pub tokens: f64,
    /// Seconds of B less A.
    pub seconds: f64,
}

impl Pairs {
    /// Pairs the counted records of two runs by sample.
    pub fn of(a: &Run, b: &Run) -> Self {
        let rows = |run: &Run| samples(&run.manifest.plan.switches, &run.records);
        Self::join(&rows(a), &rows(b))
    }

    /// Pairs the counted [`samples`] of two runs by name.
    pub fn join(a: &[SampleRow], b: &[SampleRow]) -> Self {
        fn counted(rows: &[SampleRow]) -> BTreeMap<&str, &SampleRow> {
            rows.iter().filter(|row| row.counted).map(|row| (row.uid.as_str(), row)).collect()
        }
        let (a, b) = (counted(a), counted(b));
        let shared = |(uid, row): (&&str, &&SampleRow)| Some(((*row).clone(), (*b.get(uid)?).clone()));
        let rows: Vec<_> = a.iter().filter_map(shared).collect();
        let unpaired = a.len() + b.len() - 2 * rows.len();
        Self { rows, unpaired }
    }

    /// Why the pairs are not of the same questions: samples of one name with different gold answers.
    pub fn mismatch(&self) -> Option<String> {
        let other = self.rows.iter().filter(|(a, b)| a.gold != b.gold).count();
        (other > 0)
            .then(|| format!("{other} of {} samples have another gold answer in the other run", self.len()))
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether the runs have no sample in common.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether every pair has equal scores.
    pub fn are_equal(&self) -> bool {
        self.rows.iter().all(|(a, b)| a.value == b.value)
    }

    /// Sums by video of `b - a`.
    pub fn differences(&self) -> Vec<Cluster> {
        self.differences_by_video().into_values().collect()
    }

    /// The same with the videos' names.
    pub fn differences_by_video(&self) -> BTreeMap<String, Cluster> {
        self.clusters(|a, b| b - a)
    }

    /// Sums by video, as A names it, of a function of both scores.
    pub fn clusters(&self, value: impl Fn(f64, f64) -> f64) -> BTreeMap<String, Cluster> {
        let values = self.rows.iter().map(|(a, b)| (a.video.as_str(), value(a.value, b.value)));
        sums_by_video(values).into_iter().map(|(video, cluster)| (video.to_owned(), cluster)).collect()
    }

    /// Means of both runs; 0 without pairs.
    pub fn means(&self) -> Means {
        let mean = |value: &dyn Fn(&SampleRow, &SampleRow) -> f64| {
            self.rows.iter().map(|(a, b)| value(a, b)).sum::<f64>() / self.len().max(1) as f64
        };
        let tokens = |row: &SampleRow| (row.prompt_tokens + row.completion_tokens) as f64;
        Means {
            a: mean(&|a, _| a.value),
            b: mean(&|_, b| b.value),
            tokens: mean(&|_, b| tokens(b)) - mean(&|a, _| tokens(a)),
            seconds: mean(&|_, b| b.seconds) - mean(&|a, _| a.seconds),
        }
    }

    /// Answers that flipped, in the order of their names.
    pub fn flips(&self) -> (Flips, Vec<Flip>) {
        let turned = self.rows.iter().filter(|(a, b)| (a.value >= RIGHT) != (b.value >= RIGHT));
        let flipped: Vec<Flip> =
            turned.map(|(_, b)| Flip { uid: b.uid.clone(), gained: b.value >= RIGHT }).collect();
        let gained = flipped.iter().filter(|flip| flip.gained).count();
        (Flips { gained, lost: flipped.len() - gained }, flipped)
    }
}
