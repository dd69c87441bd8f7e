//! Samples that two runs share.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::frame::Frame;
use crate::runs::Run;
use crate::statistics::Cluster;

/// From here on an answer counts as right: 1 or 0 for choices, IoU for intervals.
pub(crate) const RIGHT: f64 = 0.5;

/// The samples that both runs scored, by name.
#[derive(Debug, Clone)]
pub struct Pairs {
    frame: Frame,
    scores: Vec<(f64, f64)>,
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
        Self::join(&a.samples(), &b.samples())
    }

    /// Pairs the counted [`samples`](crate::rows::samples) of two runs by name.
    pub fn join(a: &Frame, b: &Frame) -> Self {
        let (a, b) = (a.filter("counted"), b.filter("counted"));
        let frame = a.inner_join(&b, &["sample"]).sorted("sample");
        let unpaired = a.height() + b.height() - 2 * frame.height();
        let scores = frame.reals("score").flatten().zip(frame.reals("score_right").flatten()).collect();
        Self { frame, scores, unpaired }
    }

    /// Why the pairs are not of the same questions: samples of one name with different gold answers.
    pub fn mismatch(&self) -> Option<String> {
        let both = self.frame.texts("gold").zip(self.frame.texts("gold_right"));
        let other = both.filter(|(a, b)| a != b).count();
        (other > 0)
            .then(|| format!("{other} of {} samples have another gold answer in the other run", self.len()))
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// Whether the runs have no sample in common.
    pub fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// Whether every pair has equal scores.
    pub fn are_equal(&self) -> bool {
        self.scores.iter().all(|(a, b)| a == b)
    }

    /// Sums by video, as A names it, of `b - a`.
    pub fn differences(&self) -> BTreeMap<String, Cluster> {
        self.clusters(|a, b| b - a)
    }

    /// Sums by video of a function of both scores.
    pub fn clusters(&self, value: impl Fn(f64, f64) -> f64) -> BTreeMap<String, Cluster> {
        let values = self.scores.iter().map(|(a, b)| value(*a, *b)).collect();
        self.frame.clone().with("value", values).clusters("video", "value")
    }

    /// Means of both runs; 0 without pairs.
    pub fn means(&self) -> Means {
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / self.len().max(1) as f64;
        let tokens = |prompt: &str, completion: &str| {
            let both = self.frame.counts(prompt).zip(self.frame.counts(completion));
            mean(&mut both.filter_map(|(prompt, completion)| Some((prompt? + completion?) as f64)))
        };
        let seconds = |name: &str| mean(&mut self.frame.reals(name).flatten());
        Means {
            a: mean(&mut self.scores.iter().map(|(a, _)| *a)),
            b: mean(&mut self.scores.iter().map(|(_, b)| *b)),
            tokens: tokens("prompt_tokens_right", "completion_tokens_right")
                - tokens("prompt_tokens", "completion_tokens"),
            seconds: seconds("seconds_right") - seconds("seconds"),
        }
    }

    /// Answers that flipped, in the order of their names.
    pub fn flips(&self) -> (Flips, Vec<Flip>) {
        let flip = |(uid, (a, b)): (Option<&str>, &(f64, f64))| {
            let turned = (*a >= RIGHT) != (*b >= RIGHT);
            turned.then(|| Flip { uid: uid.unwrap_or_default().to_owned(), gained: *b >= RIGHT })
        };
        let flipped: Vec<Flip> = self.frame.texts("sample").zip(&self.scores).filter_map(flip).collect();
        let gained = flipped.iter().filter(|flip| flip.gained).count();
        (Flips { gained, lost: flipped.len() - gained }, flipped)
    }
}
