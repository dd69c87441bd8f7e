//! What a study said before it ran: where a figure lies if a claim holds, and where if it does not.

use serde::{Deserialize, Serialize};

use super::{Arm, ArmScore, Finding, Trained, last_quarter};
use crate::decide::{ALPHA, Effect, Support};
use crate::order::distinct;
use crate::runs::Run;
use crate::statistics::{holm, mean};

/// Name of the figure that runs have: the mean of their splits' scores.
pub const ACCURACY: &str = "accuracy";

/// A claim, and what would decide it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prediction {
    pub title: String,
    /// What the paper says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// It holds where all of these do and fails where one does.
    pub tests: Vec<Test>,
}

/// A condition on one figure, as a mean over seeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// A curve, of which the mean over the last quarter of the steps counts, or [`ACCURACY`].
    pub figure: String,
    /// What `b` is measured from, seed by seed; without it the figure of `b` is judged as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a: Option<String>,
    /// Name of a training, a measurement or a run.
    pub b: String,
    /// `b / a` in the place of `b - a`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ratio: bool,
    pub holds: Region,
    /// Where it does not. What is in neither is undecided.
    pub fails: Region,
}

/// A part of the real line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Region {
    Above(f64),
    Below(f64),
    /// Nearer to zero than this.
    Within(f64),
    /// Farther from zero than this, on one side.
    Beyond(f64),
}

impl Region {
    /// The smallest level at which the interval of an effect lies inside: `2·p` of the one-sided tests.
    fn p(self, effect: &Effect) -> f64 {
        let p = match self {
            Self::Above(bound) => effect.p_above(bound),
            Self::Below(bound) => effect.p_below(bound),
            Self::Within(bound) => effect.p_above(-bound).max(effect.p_below(bound)),
            Self::Beyond(bound) => effect.p_above(bound).min(effect.p_below(-bound)),
        };
        (2.0 * p).min(1.0)
    }
}

impl std::fmt::Display for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Above(bound) => write!(f, "> {bound}"),
            Self::Below(bound) => write!(f, "< {bound}"),
            Self::Within(bound) => write!(f, "within ±{bound}"),
            Self::Beyond(bound) => write!(f, "beyond ±{bound}"),
        }
    }
}

/// What became known of a [`Test`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tested {
    pub test: Test,
    /// Seeds with both figures.
    pub seeds: Vec<u64>,
    /// Mean of `a`.
    pub a: Option<f64>,
    /// Mean of `b`.
    pub b: f64,
    /// What is judged, of each seed: `b`, `b - a` or `b / a`.
    pub of_seeds: Vec<f64>,
    /// Its mean.
    pub value: f64,
    /// 95 % interval of that over seeds (Student's t); `None` with one seed or equal ones.
    pub interval: Option<(f64, f64)>,
    /// The same at the level of the claim's rank in the family (Holm).
    pub in_family: Option<(f64, f64)>,
    #[serde(skip)]
    effect: Option<Effect>,
}

/// A [`Prediction`] with what was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Predicted {
    pub prediction: Prediction,
    pub tested: Vec<Tested>,
    /// By the 95 % intervals.
    pub finding: Finding,
    /// The same with the family-wise level (Holm 1979).
    pub in_family: Finding,
}

/// Judges those predictions whose figures are all known.
pub(super) fn judge(predictions: &[Prediction], arms: &[Arm], trainings: &[Trained]) -> Vec<Predicted> {
    let figures = Figures { arms, trainings };
    let mut found: Vec<(Predicted, f64)> = predictions
        .iter()
        .filter_map(|prediction| {
            let tested: Vec<Tested> =
                prediction.tests.iter().map(|test| figures.test(test)).collect::<Option<_>>()?;
            let (finding, p) = decide(&tested);
            let in_family = Finding::Open;
            Some((Predicted { prediction: prediction.clone(), tested, finding, in_family }, p))
        })
        .collect();
    let adjusted = holm(&found.iter().map(|(_, p)| *p).collect::<Vec<_>>());
    for ((one, p), adjusted) in found.iter_mut().zip(adjusted) {
        if adjusted <= ALPHA {
            one.in_family = one.finding;
        }
        // The level at which this claim's adjusted p-value would be ALPHA.
        let level = if *p > 0.0 { ALPHA * *p / adjusted } else { ALPHA / predictions.len() as f64 };
        for tested in &mut one.tested {
            tested.in_family = tested.effect.and_then(|effect| effect.interval_at(level));
        }
    }
    found.into_iter().map(|(one, _)| one).collect()
}

/// A claim holds by its weakest condition and fails by its strongest.
fn decide(tested: &[Tested]) -> (Finding, f64) {
    let over = |region: fn(&Test) -> Region| {
        tested.iter().map(move |one| one.effect.map_or(1.0, |effect| region(&one.test).p(&effect)))
    };
    let holds = over(|test| test.holds).fold(0.0, f64::max);
    let fails = over(|test| test.fails).fold(1.0, f64::min);
    let finding = match (holds <= ALPHA, fails <= ALPHA) {
        (true, false) => Finding::Holds,
        (false, true) => Finding::Fails,
        _ => Finding::Open,
    };
    (finding, holds.min(fails))
}

/// The score of every arm over its seeds, in the order in which arms come first.
pub(super) fn scores(arms: &[Arm]) -> Vec<ArmScore> {
    let figures = Figures { arms, trainings: &[] };
    let names = distinct(arms.iter().filter(|arm| !arm.runs.is_empty()).map(|arm| arm.name.as_str()));
    let score = |arm: &str| {
        let of_seeds = figures.of(arm, ACCURACY);
        let values: Vec<f64> = of_seeds.iter().map(|(_, value)| *value).collect();
        let interval = Effect::repetitions(&values, Support::Share).and_then(|effect| effect.interval());
        let mean = mean(&values).unwrap_or_default();
        ArmScore { arm: arm.to_owned(), seeds: values.len(), mean, interval, of_seeds }
    };
    names.into_iter().map(score).collect()
}

/// Where figures come from.
struct Figures<'a> {
    arms: &'a [Arm],
    trainings: &'a [Trained],
}

impl Figures<'_> {
    fn test(&self, test: &Test) -> Option<Tested> {
        let b = self.of(&test.b, &test.figure);
        let a = test.a.as_ref().map(|a| self.of(a, &test.figure));
        let from = |seed: u64| match &a {
            Some(a) => a.iter().find(|(other, _)| *other == seed).map(|(_, value)| Some(*value)),
            None => Some(None),
        };
        let pairs: Vec<(u64, Option<f64>, f64)> =
            b.into_iter().filter_map(|(seed, b)| Some((seed, from(seed)?, b))).collect();
        let of_seeds: Vec<f64> = pairs
            .iter()
            .map(|(_, a, b)| match a {
                Some(a) if test.ratio => b / a,
                Some(a) => b - a,
                None => *b,
            })
            .collect();
        let effect = Effect::repetitions(&of_seeds, Support::Unbounded);
        Some(Tested {
            test: test.clone(),
            seeds: pairs.iter().map(|(seed, ..)| *seed).collect(),
            a: mean(pairs.iter().filter_map(|(_, a, _)| *a)),
            b: mean(pairs.iter().map(|(.., b)| *b))?,
            value: mean(&of_seeds)?,
            of_seeds,
            interval: effect.and_then(|effect| effect.interval()),
            in_family: None,
            effect,
        })
    }

    /// The figure of every seed.
    fn of(&self, name: &str, figure: &str) -> Vec<(u64, f64)> {
        let accuracy = |arm: &Arm| Some((arm.seed, mean(arm.runs.iter().map(score))?));
        let curve = |one: &Trained| {
            let points = one.curves.series.get(figure)?;
            let values: Vec<f64> = points.iter().map(|point| point.1).collect();
            (!values.is_empty()).then(|| (one.seed, last_quarter(&values)))
        };
        match figure {
            ACCURACY => self.arms.iter().filter(|arm| arm.name == name).filter_map(accuracy).collect(),
            _ => self.trainings.iter().filter(|one| one.name == name).filter_map(curve).collect(),
        }
    }
}

/// Mean of the counted samples.
fn score(run: &Run) -> f64 {
    mean(run.samples().filter("counted").reals("score").flatten()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Training;

    /// Trainings of one name, a seed each, whose last quarter of steps has these means of `kappa`.
    fn trained(name: &str, ends: &[f64]) -> Vec<Trained> {
        let curves = |end: &f64| Training {
            series: [("kappa".to_owned(), vec![(1.0, 9.0), (2.0, 9.0), (3.0, 9.0), (4.0, *end)])].into(),
            about: None,
            ..Training::default()
        };
        let one = |(seed, end)| Trained {
            name: name.to_owned(),
            seed,
            title: String::new(),
            paper: None,
            curves: curves(end),
        };
        (0..).zip(ends).map(one).collect()
    }

    fn prediction(test: &str) -> Prediction {
        toml::from_str(&format!("title = 'calls'\ntests = [{test}]")).unwrap()
    }

    fn judged(test: &str, all: &[Vec<Trained>]) -> Predicted {
        judge(&[prediction(test)], &[], &all.concat()).remove(0)
    }

    #[test]
    fn a_claim_holds_where_the_whole_interval_does() {
        let difference =
            "{ figure = 'kappa', a = 'cold', b = 'rl', holds = { above = 0.5 }, fails = { below = 0 } }";
        let cold = trained("cold", &[1.0, 1.0, 1.0, 7.0]);
        // Mean 1.2, standard error 0.1: t(0.975, 2) is 4.3027, so 0.77 to 1.63.
        let found = judged(difference, &[cold.clone(), trained("rl", &[2.0, 2.2, 2.4])]);
        assert_eq!((found.finding, found.in_family), (Finding::Holds, Finding::Holds));
        let tested = &found.tested[0];
        assert_eq!((tested.seeds.as_slice(), tested.a), ([0, 1, 2].as_slice(), Some(1.0)));
        let half = 4.302_652_729_749_464 * (0.2 / 3.0_f64.sqrt());
        let (low, high) = tested.interval.unwrap();
        assert!((low - (1.2 - half)).abs() < 1e-9 && (high - (1.2 + half)).abs() < 1e-9, "{low} {high}");
        let finding = |ends: &[f64]| judged(difference, &[cold.clone(), trained("rl", ends)]).finding;
        assert_eq!(finding(&[1.4, 1.6, 1.8]), Finding::Open, "0.10 to 1.10");
        assert_eq!(finding(&[0.1, 0.2, 0.3]), Finding::Fails);
        assert_eq!(finding(&[0.1]), Finding::Open, "one seed has no interval");
    }

    #[test]
    fn equal_seeds_have_no_interval_and_are_judged_by_the_sign_test() {
        let value = "{ figure = 'kappa', b = 'rl', holds = { below = 0.1 }, fails = { above = 0.5 } }";
        let found = judged(value, &[trained("rl", &[0.0; 6])]);
        assert_eq!((found.finding, found.tested[0].interval), (Finding::Holds, None));
        assert_eq!(judged(value, &[trained("rl", &[0.0; 5])]).finding, Finding::Open, "2/2^5");
        assert_eq!(judged(value, &[trained("rl", &[0.3; 6])]).finding, Finding::Open);
    }

    #[test]
    fn all_conditions_hold_or_one_fails() {
        let two = "{ figure = 'kappa', b = 'x', holds = { within = 1 }, fails = { beyond = 1 } },
                   { figure = 'kappa', b = 'y', holds = { within = 1 }, fails = { beyond = 1 } }";
        let near = [0.1, 0.2, 0.15];
        let finding = |y: &[f64]| judged(two, &[trained("x", &near), trained("y", y)]).finding;
        assert_eq!(finding(&near), Finding::Holds);
        assert_eq!(finding(&[-4.0, -4.1, -4.2]), Finding::Fails);
        assert_eq!(finding(&[0.9, 1.0, 1.1]), Finding::Open);
    }

    #[test]
    fn a_ratio_is_of_each_seed_and_a_family_is_judged_together() {
        let test = |b: &str| {
            format!(
                "{{ figure = 'kappa', a = 'cold', b = '{b}', ratio = true, holds = {{ below = 0.2 }}, fails = {{ above = 0.5 }} }}"
            )
        };
        let all = [
            trained("cold", &[2.0, 4.0, 8.0]),
            trained("clear", &[0.1, 0.22, 0.4]),
            // Shares of 0.10, 0.12, 0.14: two-sided p of 0.0196 against 0.2, twice that in a family of two.
            trained("weak", &[0.18, 0.36, 0.56]),
        ]
        .concat();
        let found = judge(
            &[prediction(&test("clear")), prediction(&test("weak")), prediction(&test("gone"))],
            &[],
            &all,
        );
        assert_eq!(found.len(), 2, "what was not run is left out");
        assert_eq!(found[0].tested[0].of_seeds, [0.05, 0.055, 0.05]);
        assert!(found.iter().all(|one| one.finding == Finding::Holds));
        let (low, high) = found[1].tested[0].interval.unwrap();
        let (wide_low, wide_high) = found[1].tested[0].in_family.unwrap();
        assert!(wide_low <= low && high <= wide_high);
    }
}
