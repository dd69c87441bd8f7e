//! Samples that two runs share.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::decide::{Effect, Lost};
use crate::frame::Frame;
use crate::rows::per_sample;
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
    pub uid: String,
    /// Right in B, wrong in A; else the other way round.
    pub gained: bool,
}

/// Means over the pairs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Means {
    pub a: f64,
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

    /// Pairs the counted [`samples`](crate::rows::samples) of two runs by name; repeated ones by their means.
    pub fn join(a: &Frame, b: &Frame) -> Self {
        let (a, b) = (per_sample(a.filter("counted")), per_sample(b.filter("counted")));
        let frame = a.inner_join(&b, &["sample"]).sorted("sample");
        let unpaired = a.height() + b.height() - 2 * frame.height();
        let scores = frame.reals("score").flatten().zip(frame.reals("score_right").flatten()).collect();
        Self { frame, scores, unpaired }
    }

    /// Why the pairs are not of the same questions: samples of one name with different gold answers. Options may stand
    /// under other letters: an option of the same text is the same answer.
    pub fn mismatch(&self) -> Option<String> {
        let letters = self.frame.texts("gold").zip(self.frame.texts("gold_right"));
        let texts = self.frame.texts("gold_text").zip(self.frame.texts("gold_text_right"));
        let same = |letters: (Option<&str>, Option<&str>), texts: (Option<&str>, Option<&str>)| {
            letters.0 == letters.1 || texts.0.is_some() && texts.0 == texts.1
        };
        let other = letters.zip(texts).filter(|(letters, texts)| !same(*letters, *texts)).count();
        (other > 0)
            .then(|| format!("{other} of {} samples have another gold answer in the other run", self.len()))
    }

    /// Why the two do not measure the same samples alike, each given with its name: other gold answers, more rows without
    /// a full answer than the other has, or failures alone.
    pub(crate) fn caveats(&self, [a, b]: [(&str, Lost); 2]) -> Vec<String> {
        let lost = [(a, b.1), (b, a.1)].into_iter().filter_map(|((name, ours), theirs)| {
            let why = ours.excess_over(&theirs).or_else(|| ours.mostly_failed())?;
            Some(format!("{name}: {why}"))
        });
        self.mismatch().into_iter().chain(lost).collect()
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
    pub(crate) fn are_equal(&self) -> bool {
        self.scores.iter().all(|(a, b)| a == b)
    }

    /// Sums by video, as A names it, of `b - a`.
    pub fn differences(&self) -> BTreeMap<String, Cluster> {
        self.clusters(|a, b| b - a)
    }

    /// The difference of `b` and `a` with its interval by video; `None` for fewer than two videos.
    pub(crate) fn effect(&self) -> Option<Effect> {
        Effect::difference(self.differences().values())
    }

    /// Sums by video of a function of both scores.
    pub fn clusters(&self, value: impl Fn(f64, f64) -> f64) -> BTreeMap<String, Cluster> {
        let values = self.scores.iter().map(|(a, b)| value(*a, *b)).collect();
        self.frame.clone().with("value", values).clusters("video", "value")
    }

    /// By video, the questions with options in both runs, and those of them for which both chose an option of the
    /// same text.
    pub(crate) fn same_choice(&self) -> BTreeMap<String, Cluster> {
        let column = |name: &str| self.frame.texts(name).collect::<Vec<_>>();
        let [videos, gold_a, gold_b] = ["video", "gold_text", "gold_text_right"].map(column);
        let [chosen_a, chosen_b] = ["chosen", "chosen_right"].map(column);
        let mut clusters: BTreeMap<String, Cluster> = BTreeMap::new();
        for row in (0..videos.len()).filter(|row| gold_a[*row].is_some() && gold_b[*row].is_some()) {
            let same = chosen_a[row].is_some() && chosen_a[row] == chosen_b[row];
            let video = videos[row].unwrap_or_default().to_owned();
            let cluster = clusters.entry(video).or_insert(Cluster { sum: 0.0, n: 0 });
            cluster.sum += f64::from(u8::from(same));
            cluster.n += 1;
        }
        clusters
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
