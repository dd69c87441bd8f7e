//! B against A on the samples of one split.

use std::collections::BTreeMap;

use paravt_suite::run::Difference;
use serde::Serialize;

use super::{Side, tone, word};
use crate::decide::{Effect, Family, Margin, Verdict};
use crate::pairs::{Flip, Flips, Pairs};
use crate::question::Factor;
use crate::runs::ReportError;
use crate::statistics::{Cluster, mean};
use crate::tone::Tone;

/// One split in two runs. Values are shares; `b` less `a`.
#[derive(Debug, Clone, Serialize)]
pub struct Pair {
    pub task: String,
    pub title: String,
    /// Name of the mean over samples, e.g. `accuracy`.
    pub metric: &'static str,
    pub name_a: String,
    pub name_b: String,
    /// Differences of the two plans, from A to B.
    pub differs: Vec<String>,
    /// Samples in both.
    pub n: usize,
    /// Samples that only one of them scored; they are left out.
    pub unpaired: usize,
    /// Mean of A over the pairs.
    pub a: f64,
    /// Mean of B over the pairs.
    pub b: f64,
    /// B less A.
    pub difference: f64,
    /// The same with its interval clustered by video; `None` for fewer than two videos.
    pub effect: Option<Effect>,
    /// 95 % interval of the difference; `None` where no score differs.
    pub interval: Option<(f64, f64)>,
    /// P-value of no difference: Student's t on the errors clustered by video, the test that the
    /// interval inverts.
    pub p: Option<f64>,
    /// The same after Holm's correction over the splits.
    pub p_holm: Option<f64>,
    /// Smallest difference that these pairs find with 80 % power at the corrected level; `None` where
    /// no pair differs from another.
    pub detectable: Option<f64>,
    /// Better, worse or inconclusive, with a margin of zero; unchanged where no score differs.
    pub verdict: Verdict,
    /// Answers that flipped; for IoU, across 0.5.
    pub flips: Flips,
    pub flipped: Vec<Flip>,
    /// Tokens a sample that B takes more.
    pub extra_tokens: f64,
    /// Additional seconds per sample in B.
    pub extra_seconds: f64,
    /// The comparison in words.
    #[serde(skip)]
    pub(crate) question: String,
    #[serde(skip)]
    pub(super) factor: Factor,
    /// What else differs than what the comparison is about.
    #[serde(skip)]
    pub(super) also: Vec<Difference>,
    /// Sums of B less A by video.
    #[serde(skip)]
    pub(super) differences: BTreeMap<String, Cluster>,
    /// Positions of A and B among the runs that were compared.
    #[serde(skip)]
    pub(crate) positions: [usize; 2],
}

impl Pair {
    /// Additional tokens and seconds per sample for each point gained; `None` without a gain.
    pub fn cost_per_point(&self) -> Option<(f64, f64)> {
        let points = 100.0 * self.difference;
        (points > 0.0).then(|| (self.extra_tokens / points, self.extra_seconds / points))
    }

    /// The verdict in a word: *better* and *worse* where the comparison has a direction and nothing else differs, else higher
    /// and lower.
    pub fn word(&self) -> &'static str {
        word(&self.verdict, self.is_directed())
    }

    /// The same with reasons.
    pub(crate) fn words(&self) -> String {
        match &self.verdict {
            Verdict::NotComparable(_) => self.verdict.to_string(),
            _ => self.word().to_owned(),
        }
    }

    /// The colour of the verdict.
    pub(crate) fn tone(&self) -> Tone {
        tone(&self.verdict, self.is_directed())
    }

    fn is_directed(&self) -> bool {
        self.factor.is_ordered() && self.also.is_empty()
    }

    /// Compares two runs at these positions, in the order in which they were given.
    ///
    /// # Errors
    /// Runs of different profiles, or no sample in common.
    pub(crate) fn of([first, second]: [(usize, &Side<'_>); 2]) -> Result<Self, ReportError> {
        let question = first.1.question(second.1);
        let [a, b] = if question.is_swapped { [second, first] } else { [first, second] };
        let positions = [a.0, b.0];
        let [a, b] = [a.1, b.1];
        let names = [a, b].map(|side| side.manifest.display_name());
        let profiles = [a, b].map(|side| side.manifest.plan.profile());
        if profiles[0] != profiles[1] {
            let [a, b] = profiles.map(|profile| profile.to_string());
            return Err(ReportError::Profiles { task: first.1.manifest.task.name.clone(), a, b });
        }
        let pairs = Pairs::join(&a.samples, &b.samples);
        let why = pairs.caveats([("A", a.lost), ("B", b.lost)]);
        // A failed sample may be left out of its score, and all of them leave no pair.
        if pairs.is_empty() && [a, b].iter().all(|side| side.lost.mostly_failed().is_none()) {
            return Err(ReportError::NothingInCommon);
        }
        let differences = pairs.differences();
        let effect = Effect::difference(differences.values());
        let (flips, flipped) = pairs.flips();
        let means = pairs.means();
        let task = &b.manifest.task;
        Ok(Self {
            task: task.name.clone(),
            title: task.title.clone(),
            metric: task.metric.name(),
            question: question.title([a.manifest, b.manifest], [&names[0], &names[1]]),
            name_a: names[0].clone(),
            name_b: names[1].clone(),
            differs: a.manifest.differences(b.manifest),
            n: pairs.len(),
            unpaired: pairs.unpaired,
            a: means.a,
            b: means.b,
            // Of the same sums as its interval: everywhere the number is this one, to the last digit.
            difference: mean(differences.values()).unwrap_or_default(),
            effect,
            interval: effect.filter(|_| !pairs.are_equal()).and_then(|effect| effect.interval()),
            p: effect.map(|effect| effect.p()),
            p_holm: None,
            detectable: None,
            verdict: match why.is_empty() {
                true if pairs.are_equal() => Verdict::Unchanged,
                true => Verdict::Inconclusive,
                false => Verdict::NotComparable(why),
            },
            flips,
            flipped,
            extra_tokens: means.tokens,
            extra_seconds: means.seconds,
            also: question.also,
            factor: question.factor,
            differences,
            positions,
        })
    }
}

/// Judges the comparable splits of one comparison as a family; the power is that of its strictest test.
pub(super) fn decide(splits: &mut [Pair]) {
    let members: Vec<&mut Pair> =
        splits.iter_mut().filter(|pair| !matches!(pair.verdict, Verdict::NotComparable(_))).collect();
    let family = Family::of(members.iter().map(|pair| (pair.effect, Margin::NONE)));
    let level = family.level();
    for (pair, decision) in members.into_iter().zip(family.decide()) {
        pair.p_holm = pair.effect.map(|_| decision.p_holm);
        pair.detectable = pair.effect.and_then(|effect| effect.detectable(level));
        if pair.verdict != Verdict::Unchanged {
            pair.verdict = decision.verdict;
        }
    }
}
