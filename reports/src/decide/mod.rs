//! One rule of verdicts, for the gate, comparisons, studies, claims and the page.
//!
//! An [`Effect`] is a mean or a paired difference with a cluster-robust interval; a [`Margin`] says how
//! far off still counts as equal; a [`Family`] holds the effects that are judged together. The rule:
//!
//! 1. two runs that do not measure the same thing are *not comparable*, whatever their numbers;
//! 2. below two clusters nothing is decided: *inconclusive*;
//! 3. *reproduced*: the whole 95 % interval lies inside the margin (two one-sided tests, Schuirmann
//!    1987, J. Pharmacokinet. Biopharm. 15:657-680, each at 2.5 %);
//! 4. *better* or *worse*: the whole interval lies beyond the margin, above or below it. With a margin
//!    of zero that is an interval which leaves zero out, and nothing is ever *reproduced*;
//! 5. all else is *inconclusive*: a point estimate decides nothing.
//!
//! In a family of several effects, 3 and 4 use p-values after Holm's correction over the family (the
//! p-value of a verdict is that of the interval's nearer end, two-sided), so that one in twenty
//! *families* has a wrong verdict by chance, not one in twenty rows. Intervals are shown uncorrected.
//!
//! Two runs whose scores are equal sample by sample are *unchanged* ("no score differs"), whatever the
//! interval for other videos.
//!
//! The regression gate asks for no loss larger than a margin, [`Margin::no_worse`]: *reproduced* is then
//! "not worse than that", gains included. It runs the same samples again, so that its videos are not
//! drawn from others: what is random is which of two runs answers a video better. With few videos it
//! therefore judges a loss by the exact one-sided test of that at 5 %,
//! [`sign_flip`](crate::statistics::sign_flip) on the differences beyond the margin
//! ([`Family::push_again`]): five videos that all lose are a loss (1/32), four are not (1/16).

mod effect;
mod lost;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::statistics::holm;

pub use effect::{ALPHA, Effect, MIN_CLUSTERS, POWER, Support, WEAK_CLUSTERS, unseen};
pub use lost::{Lost, MAX_LOST};

/// Equivalence margin in the effect's unit; bounds of a difference `ours - reference`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Margin {
    /// Largest shortfall that counts as equal, not negative.
    pub below: f64,
    /// Largest excess that counts as equal, not negative; infinite where only a loss matters.
    pub above: f64,
}

impl Margin {
    /// No difference counts as equal: is there any?
    pub const NONE: Self = Self { below: 0.0, above: 0.0 };

    /// The same in both directions.
    pub fn within(margin: f64) -> Self {
        Self { below: margin.abs(), above: margin.abs() }
    }

    /// Non-inferiority: only a loss larger than `margin` is a difference.
    pub fn no_worse(margin: f64) -> Self {
        Self { below: margin.abs(), above: f64::INFINITY }
    }
}

/// Verdict of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "why", rename_all = "snake_case")]
pub enum Verdict {
    /// The interval lies inside the margin.
    Reproduced,
    /// The interval lies above the margin.
    Better,
    /// The interval lies below the margin.
    Worse,
    /// The interval crosses an end of the margin, or there is none.
    Inconclusive,
    /// Every sample has the same score in both runs.
    Unchanged,
    /// The two numbers do not measure the same thing, for these reasons.
    NotComparable(Vec<String>),
    /// No run measures it.
    NotRun,
}

impl Verdict {
    /// One or two words, without reasons.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Inconclusive => "inconclusive",
            Self::Unchanged => "no score differs",
            Self::NotComparable(_) => "not comparable",
            Self::NotRun => "not run",
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())?;
        match self {
            Self::NotComparable(why) => write!(f, ": {}", why.join("; ")),
            _ => Ok(()),
        }
    }
}

/// A verdict and what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decision {
    pub verdict: Verdict,
    /// Two-sided p-value of the verdict by itself: of the end of the margin that the interval is
    /// farthest beyond. 1 without an effect.
    pub p: f64,
    /// The same after Holm's correction over the family.
    pub p_holm: f64,
    /// The verdict rests on fewer than [`WEAK_CLUSTERS`] clusters.
    pub weak: bool,
}

/// Effects that are judged together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Family {
    members: Vec<(Option<Effect>, Margin, Option<f64>)>,
}

impl Family {
    /// A family of effects, each against its margin. A member without an effect, of too few clusters, stays inconclusive
    /// and does not count in the correction.
    pub fn of(members: impl IntoIterator<Item = (Option<Effect>, Margin)>) -> Self {
        Self { members: members.into_iter().map(|(effect, margin)| (effect, margin, None)).collect() }
    }

    /// Adds a second run of the same samples, with the p-value of an exact one-sided test of a loss beyond
    /// the margin, where there is one. It says alone whether there is a loss.
    pub fn push_again(&mut self, effect: Option<Effect>, margin: Margin, loss: Option<f64>) {
        self.members.push((effect, margin, loss));
    }

    /// Members with an effect: the tests that are corrected for.
    pub fn tests(&self) -> usize {
        self.members.iter().filter(|(effect, ..)| effect.is_some()).count()
    }

    /// Level of the strictest test of the family: `ALPHA / tests`.
    pub fn level(&self) -> f64 {
        ALPHA / self.tests().max(1) as f64
    }

    /// One decision per member, in the order in which they were added.
    pub fn decide(&self) -> Vec<Decision> {
        let of = |(effect, margin, loss): &(Option<Effect>, Margin, Option<f64>)| {
            Some(lead(effect.as_ref()?, *margin, *loss))
        };
        let found: Vec<Option<Lead>> = self.members.iter().map(of).collect();
        let mut corrected = holm(&found.iter().flatten().map(|lead| lead.p).collect::<Vec<_>>()).into_iter();
        let mut decisions = Vec::new();
        for (found, (effect, ..)) in found.into_iter().zip(&self.members) {
            let weak = effect.is_none_or(|effect| effect.is_weak());
            decisions.push(match found {
                None => Decision { verdict: Verdict::Inconclusive, p: 1.0, p_holm: 1.0, weak },
                Some(Lead { verdict, p }) => {
                    let p_holm = corrected.next().unwrap_or(1.0);
                    let verdict = if p_holm <= ALPHA { verdict } else { Verdict::Inconclusive };
                    Decision { verdict, p, p_holm, weak }
                }
            });
        }
        decisions
    }
}

/// Judges one effect alone, at 95 %. `None`, an effect of fewer than two clusters, is inconclusive.
///
/// ```
/// use paravt_reports::decide::{Effect, Margin, Verdict, decide};
/// use paravt_reports::statistics::Cluster;
///
/// // Forty videos with four questions each; in every second one a question is lost.
/// let videos: Vec<_> = (0..40).map(|video| Cluster { sum: -f64::from(video % 2), n: 4 }).collect();
/// let effect = Effect::difference(&videos);
/// let points = |points: f64| Margin::no_worse(points / 100.0);
/// assert_eq!(decide(effect.as_ref(), points(20.0)), Verdict::Reproduced);
/// assert_eq!(decide(effect.as_ref(), points(12.0)), Verdict::Inconclusive);
/// assert_eq!(decide(effect.as_ref(), points(5.0)), Verdict::Worse);
/// assert_eq!(decide(Effect::difference(&videos[..1]).as_ref(), points(5.0)), Verdict::Inconclusive);
/// ```
pub fn decide(effect: Option<&Effect>, margin: Margin) -> Verdict {
    let Some(effect) = effect else { return Verdict::Inconclusive };
    let Lead { verdict, p } = lead(effect, margin, None);
    if p <= ALPHA { verdict } else { Verdict::Inconclusive }
}

/// The verdict that an effect is nearest to, and its p-value: two-sided, or that of the exact test.
struct Lead {
    verdict: Verdict,
    p: f64,
}

fn lead(effect: &Effect, margin: Margin, loss: Option<f64>) -> Lead {
    let inside = match margin.above.is_infinite() {
        true => effect.p_above(-margin.below),
        false => effect.p_above(-margin.below).max(effect.p_below(margin.above)),
    };
    let beyond = if margin.above.is_infinite() { 1.0 } else { effect.p_above(margin.above) };
    let below = loss.map_or_else(|| effect.p_below(-margin.below), |one_sided| 0.5 * one_sided);
    let found = [(Verdict::Reproduced, inside), (Verdict::Better, beyond), (Verdict::Worse, below)];
    let (verdict, p) =
        found.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((Verdict::Inconclusive, 1.0));
    Lead { verdict, p: (2.0 * p).min(1.0) }
}
