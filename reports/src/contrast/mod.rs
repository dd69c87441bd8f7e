//! Contrasts: what two sets of runs answer. One place decides what a comparison is about, which run is B, what the two
//! are called and how it is said; the page, `report`, `compare` and the gate all show its answer.
//!
//! Runs that differ in one thing are recognised by their manifests. Where these give an order (with the tool and
//! without, more frames and fewer), the order in which runs are given decides nothing. Where they do not (two models),
//! B is what was given second, and neither is better.

mod among;
mod effects;
mod pair;

#[cfg(test)]
mod tests;

use paravt_suite::run::Manifest;
use serde::Serialize;

use crate::decide::{Lost, Margin, Verdict, decide};
use crate::frame::Frame;
use crate::order::{distinct, group_by};
use crate::question::{Factor, Question};
use crate::runs::RunDigest;
use crate::tone::Tone;

pub(crate) use among::among;
pub use effects::{ALL, PairedEffect};
pub(crate) use effects::{Paired, effects};
pub use pair::Pair;

/// Differences that a sentence names.
const NAMED: usize = 3;

/// A run as a comparison sees it.
#[derive(Debug, Clone)]
pub(crate) struct Side<'a> {
    pub manifest: &'a Manifest,
    /// Its [`samples`](crate::rows::samples).
    pub samples: Frame,
    /// Rows without a full answer.
    pub lost: Lost,
    /// Whether subtitles are part of its questions.
    pub subtitles: bool,
}

impl<'a> Side<'a> {
    /// The question of two runs, in the order in which they were given.
    pub(crate) fn question(&self, second: &Self) -> Question {
        Question::of([self.manifest, second.manifest], [self.subtitles, second.subtitles])
    }
}

impl<'a> From<&'a RunDigest> for Side<'a> {
    fn from(run: &'a RunDigest) -> Self {
        let RunDigest { manifest, samples, facts, .. } = run;
        Self { manifest, samples: samples.clone(), lost: facts.lost, subtitles: facts.shows_subtitles }
    }
}

/// B against A on all splits that both were run on.
#[derive(Debug, Clone, Serialize)]
pub struct Contrast {
    /// The comparison in words, B first.
    pub question: String,
    /// What it is about: `tool`, `subtitles`, `protocol`, `model`, `backend`, `nothing`, or the name of a setting.
    pub factor: String,
    /// Whether the manifests say which run is B; else B is what was given second.
    pub is_ordered: bool,
    /// Name of A; absent where its runs have several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<String>,
    /// What else differs, from A to B.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// Differences: on the mean of the splits first, where there are several.
    pub effects: Vec<PairedEffect>,
    /// Splits on which the two do not measure the same thing, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<String>,
    /// Split by split.
    #[serde(skip)]
    pub pairs: Vec<Pair>,
}

impl Contrast {
    /// Of pairs of one question, each of another split. They are judged as a family.
    fn of(question: String, mut pairs: Vec<Pair>) -> Self {
        pair::decide(&mut pairs);
        let also = distinct(pairs.iter().flat_map(|pair| &pair.also).map(ToString::to_string));
        let (mut apart, mut paired) = (Vec::new(), Vec::new());
        for pair in &pairs {
            match &pair.verdict {
                Verdict::NotComparable(_) => apart.push(format!("{}: {}", pair.title, pair.verdict)),
                _ => paired.push(Paired {
                    split: pair.title.clone(),
                    seed: 0,
                    pairs: pair.n,
                    a: pair.a,
                    b: pair.b,
                    differences: pair.differences.clone(),
                }),
            }
        }
        let factor = pairs.first().map_or(Factor::Nothing, |pair| pair.factor.clone());
        let name = |of: fn(&Pair) -> &String| {
            let first = pairs.first().map(of)?;
            pairs.iter().all(|pair| of(pair) == first).then(|| first.clone())
        };
        Self {
            question,
            factor: factor.name().to_owned(),
            is_ordered: factor.is_ordered(),
            a: name(|pair| &pair.name_a),
            b: name(|pair| &pair.name_b),
            also,
            effects: effects(&paired),
            apart,
            pairs,
        }
    }

    /// The contrasts of pairs, by their questions: one for each, in the order of the first pairs.
    pub(crate) fn all(pairs: Vec<Pair>) -> Vec<Self> {
        let groups = group_by(pairs.into_iter().map(|pair| (pair.question.clone(), pair)));
        groups.into_iter().map(|(question, pairs)| Self::of(question, pairs)).collect()
    }

    /// The answer in a sentence: question, points, interval, splits and what else differs.
    pub fn sentence(&self) -> String {
        let found = match self.effects.first() {
            Some(_) if self.pairs.iter().all(|pair| pair.verdict == Verdict::Unchanged) => {
                format!("no score differs in {} pairs", self.pairs.iter().map(|pair| pair.n).sum::<usize>())
            }
            Some(effect) => effect.words(),
            None => "nothing to compare".to_owned(),
        };
        let apart = (!self.apart.is_empty()).then(|| format!("left out: {}", self.apart.join(", ")));
        let named = &self.also[..self.also.len().min(NAMED)];
        let more = match self.also.len() - named.len() {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let also = (!named.is_empty()).then(|| format!("also differs: {}{more}", named.join(", ")));
        let parts: Vec<String> = [Some(found), apart, also].into_iter().flatten().collect();
        format!("{}: {}", self.question, parts.join("; "))
    }

    /// The verdict of the mean over the splits, or of the only one, with a margin of zero.
    pub fn verdict(&self) -> Verdict {
        decide(self.effects.first().and_then(|effect| effect.estimates[0]).as_ref(), Margin::NONE)
    }

    /// The verdict in a word.
    pub(crate) fn word(&self) -> &'static str {
        word(&self.verdict(), self.is_directed())
    }

    /// The colour of the verdict.
    pub(crate) fn tone(&self) -> Tone {
        tone(&self.verdict(), self.is_directed())
    }

    fn is_directed(&self) -> bool {
        self.is_ordered && self.also.is_empty()
    }
}

/// A verdict in a word. *Better* and *worse* need a direction: where the order of two runs is only that in which they were
/// given, or something else differs as well, a score is higher or lower.
fn word(verdict: &Verdict, is_directed: bool) -> &'static str {
    match verdict {
        Verdict::Better if !is_directed => "higher",
        Verdict::Worse if !is_directed => "lower",
        verdict => verdict.as_str(),
    }
}

/// The colour of such a word.
fn tone(verdict: &Verdict, is_directed: bool) -> Tone {
    match verdict {
        Verdict::Better | Verdict::Worse if !is_directed => Tone::Plain,
        verdict => Tone::of(verdict),
    }
}
