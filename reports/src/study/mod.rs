//! A study: the comparisons that a recipe plans, each repeated with every seed.

mod answers;
mod predictions;
mod show;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::decide::{Effect, Support};
use crate::order::group_by;
use crate::runs::Run;
use crate::statistics::mean;
use crate::training::Training;

pub use crate::contrast::{ALL, PairedEffect};
pub use answers::Effort;
pub use predictions::{ACCURACY, Predicted, Prediction, Region, Test, Tested};
pub(crate) use show::{
    ASKED, EXPECTED, FIGURES, PREDICTED, by_split, markdown, predictions, unseen_failures,
};
pub use show::{tables, terminal};

/// Planned comparison of `b` with `a`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    pub title: String,
    /// Name of an arm.
    pub a: String,
    /// Name of an arm.
    pub b: String,
    pub paper: Option<String>,
    /// Points by which `b` is expected to be above `a` at least, on the mean of the splits.
    pub at_least: Option<f64>,
}

/// The evaluation of one checkpoint in one way.
#[derive(Debug)]
pub struct Arm {
    /// Its name, shared by all seeds.
    pub name: String,
    pub seed: u64,
    /// One run per split.
    pub runs: Vec<Run>,
}

/// One training, or the measurement of a model before it, and its curves.
#[derive(Debug, Clone)]
pub struct Trained {
    /// Its name, shared by all seeds.
    pub name: String,
    pub seed: u64,
    pub title: String,
    pub paper: Option<String>,
    pub curves: Training,
}

/// Answers to all questions.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Study {
    /// In the order of the questions; those whose arms were not run are left out.
    pub answers: Vec<Answer>,
    /// In the order of the predictions; those whose figures are not known are left out.
    pub predicted: Vec<Predicted>,
    /// Scores of the arms over seeds.
    pub scores: Vec<ArmScore>,
    pub curves: Vec<Curve>,
    /// All curves, means over seeds: by name, a line for each training.
    #[serde(skip)]
    pub lines: BTreeMap<String, Vec<Line>>,
    /// The curves of each training, as they were read.
    #[serde(skip)]
    pub trainings: Vec<Trained>,
}

/// A line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub label: String,
    /// Step and value.
    pub points: Vec<(f64, f64)>,
    /// Lowest and highest value of a seed at each of the points; empty where there is one seed.
    pub band: Vec<(f64, f64)>,
}

/// Result.
#[derive(Debug, Clone, Serialize)]
pub struct Answer {
    pub question: Question,
    /// Seeds that both arms were run with.
    pub seeds: Vec<u64>,
    /// One per split, and the mean of all splits first where there are several.
    pub effects: Vec<PairedEffect>,
    /// Cost per answer, in A and in B.
    pub effort: [Effort; 2],
    /// Whether the expectation was met, where there is one.
    pub finding: Option<Finding>,
}

/// Whether an expectation was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The whole interval is beyond it, by video and by seed.
    Holds,
    /// The whole interval is below it, by video and by seed.
    Fails,
    /// An interval crosses it, or there is none.
    Open,
}

impl Finding {
    /// The words of the page and the terminal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "does not hold",
            Self::Open => "inconclusive",
        }
    }
}

/// The score of an arm, means over its seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmScore {
    pub arm: String,
    pub seeds: usize,
    /// Mean over splits and seeds, a share.
    pub mean: f64,
    /// 95 % interval of that mean over the seeds.
    pub interval: Option<(f64, f64)>,
    /// The mean over the splits of each seed.
    pub of_seeds: Vec<(u64, f64)>,
}

/// Summary of one curve of one training, means over its seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    pub training: String,
    pub title: String,
    pub series: String,
    pub seeds: usize,
    /// Value of the first step.
    pub first: f64,
    /// Mean over the steps.
    pub mean: f64,
    /// 95 % interval of that mean over the seeds.
    pub interval: Option<(f64, f64)>,
    /// Largest value.
    pub peak: f64,
    /// Mean over the last quarter of the steps.
    pub end: f64,
    pub paper: Option<String>,
}

/// The curves that tell whether tool use and format survive.
const SERIES: [&str; 6] = ["f_tau", "compliance", "kappa", "tool_success", "reward_accuracy", "flat_groups"];
/// What the table of steps has beside them: the reward and its parts, groups that were asked and not trained on, how far the
/// model went, and where its turns keep the form.
const MORE_SERIES: [&str; 12] = [
    "reward", "reward_tool", "groups_dropped", "behaviour_weight", "kl", "length", "generated_tokens",
    "think_opens", "think_closes", "tag_follows", "call_closes", "answer_closes",
];

impl Study {
    /// Answers the questions and judges the predictions.
    pub fn of(plan: (&[Question], &[Prediction]), arms: &[Arm], trainings: Vec<Trained>) -> Self {
        let (questions, predictions) = plan;
        Self {
            answers: questions.iter().filter_map(|question| answers::answer(question, arms)).collect(),
            predicted: predictions::judge(predictions, arms, &trainings),
            scores: predictions::scores(arms),
            curves: curves(&trainings),
            lines: lines(&trainings),
            trainings,
        }
    }
}

/// Trainings by name, in the order in which names come first.
fn by_name(trainings: &[Trained]) -> Vec<Vec<&Trained>> {
    group_by(trainings.iter().map(|trained| (&trained.name, trained)))
        .into_iter()
        .map(|(_, all)| all)
        .collect()
}

fn lines(trainings: &[Trained]) -> BTreeMap<String, Vec<Line>> {
    let mut lines: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    for group in by_name(trainings) {
        for series in group[0].curves.series.keys() {
            let curves: Vec<&Vec<(f64, f64)>> =
                group.iter().filter_map(|one| one.curves.series.get(series)).collect();
            let mut line = Line { label: group[0].name.clone(), points: Vec::new(), band: Vec::new() };
            for &(step, _) in curves.first().copied().into_iter().flatten() {
                // Up to where all seeds have come, and where all have a value.
                let values = curves.iter().map(|points| value_at(points, step));
                let Some(values) = values.collect::<Option<Vec<f64>>>() else { continue };
                line.points.push((step, mean(&values).unwrap_or_default()));
                if values.len() > 1 {
                    let end = |start, of: fn(f64, f64) -> f64| values.iter().copied().fold(start, of);
                    line.band.push((end(f64::INFINITY, f64::min), end(f64::NEG_INFINITY, f64::max)));
                }
            }
            // A measurement is a point.
            if line.points.len() > 1 {
                lines.entry(series.clone()).or_default().push(line);
            }
        }
    }
    lines
}

fn curves(trainings: &[Trained]) -> Vec<Curve> {
    let groups = by_name(trainings);
    groups.iter().flat_map(|group| SERIES.iter().filter_map(|series| curve(group, series))).collect()
}

fn curve(group: &[&Trained], series: &str) -> Option<Curve> {
    let trained = group.first()?;
    let values: Vec<Vec<f64>> = group
        .iter()
        .filter_map(|one| Some(one.curves.series.get(series)?.iter().map(|point| point.1).collect()))
        .filter(|values: &Vec<f64>| !values.is_empty())
        .collect();
    let over = |of: fn(&[f64]) -> f64| mean(values.iter().map(|values| of(values)));
    let means: Vec<f64> = values.iter().filter_map(mean).collect();
    Some(Curve {
        training: trained.name.clone(),
        title: trained.title.clone(),
        series: series.to_owned(),
        seeds: values.len(),
        first: over(|values| values[0])?,
        mean: mean(&means)?,
        interval: Effect::repetitions(&means, Support::Unbounded).and_then(|effect| effect.interval()),
        peak: over(|values| values.iter().copied().fold(f64::NEG_INFINITY, f64::max))?,
        end: over(last_quarter)?,
        // What is published is of these two.
        paper: trained.paper.clone().filter(|_| ["f_tau", "kappa"].contains(&series)),
    })
}

/// The value of a curve at a step; not every figure has one at every step.
fn value_at(points: &[(f64, f64)], step: f64) -> Option<f64> {
    points.iter().find(|point| point.0 == step).map(|point| point.1)
}

fn last_quarter(values: &[f64]) -> f64 {
    mean(&values[values.len() - values.len().div_ceil(4)..]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_summed_up_over_its_seeds() {
        let trained = |name: &str, values: &[f64]| Trained {
            name: name.to_owned(),
            seed: 0,
            title: String::new(),
            paper: None,
            curves: Training {
                series: [("f_tau".to_owned(), (1..).map(f64::from).zip(values.iter().copied()).collect())]
                    .into(),
                about: None,
                ..Training::default()
            },
        };
        let trainings = [
            trained("rl", &[0.0, 0.4, 0.8, 0.8]),
            trained("grpo", &[1.0]),
            trained("rl", &[0.2, 0.4, 0.6, 0.4]),
        ];
        let found = curves(&trainings);
        assert_eq!(found.iter().map(|curve| curve.training.as_str()).collect::<Vec<_>>(), ["rl", "grpo"]);
        let Curve { first, mean, peak, end, seeds, interval, .. } = &found[0];
        assert_eq!(*seeds, 2);
        for (found, wanted) in [(first, 0.1), (mean, 0.45), (peak, 0.7), (end, 0.6)] {
            assert!((found - wanted).abs() < 1e-12, "{found} {wanted}");
        }
        // Two means, 0.5 and 0.4: t(0.975, 1) is 12.706.
        let (low, high) = interval.unwrap();
        assert!((high - low - 2.0 * 12.706_204_736 * 0.05).abs() < 1e-6);
        assert_eq!(found[1].interval, None);
        let lines = &super::lines(&trainings)["f_tau"];
        assert_eq!(lines[0].points.len(), 4);
        assert!((lines[0].points[2].1 - 0.7).abs() < 1e-12, "{lines:?}");
        assert_eq!(lines.len(), 1, "a single step is a point");
        // A step at which a seed has no value is left out, and the later ones stay in their places.
        let mut gap = trainings;
        gap[2].curves.series.get_mut("f_tau").unwrap().remove(1);
        let points = super::lines(&gap)["f_tau"][0].points.clone();
        assert_eq!(points.iter().map(|point| point.0).collect::<Vec<_>>(), [1.0, 3.0, 4.0]);
        assert!((points[1].1 - 0.7).abs() < 1e-12, "{points:?}");
    }
}
