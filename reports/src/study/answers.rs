//! Answers to the questions of a study.

use serde::Serialize;

use super::{Answer, Arm, Finding, Question};
use crate::contrast::{Paired, PairedEffect, effects};
use crate::decide::{Effect, Margin, Verdict, decide};
use crate::frame::Frame;
use crate::pairs::Pairs;
use crate::runs::Run;
use crate::statistics::mean;

/// Cost per answer: means over samples, splits and seeds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Effort {
    /// Turns of the main agent.
    pub turns: f64,
    pub calls: f64,
    /// Tokens read and written, sub-agents included.
    pub tokens: f64,
    pub seconds: f64,
}

/// `None` where no seed has both arms.
pub(super) fn answer(question: &Question, arms: &[Arm]) -> Option<Answer> {
    let mut paired = Vec::new();
    let (mut seeds, mut efforts) = (Vec::new(), [Vec::new(), Vec::new()]);
    for first in arms.iter().filter(|arm| arm.name == question.a) {
        let Some(second) = arms.iter().find(|arm| arm.name == question.b && arm.seed == first.seed) else {
            continue;
        };
        seeds.push(first.seed);
        for a in &first.runs {
            let task = &a.manifest.task.name;
            let Some(b) = second.runs.iter().find(|run| run.manifest.task.name == *task) else { continue };
            let [a, b] = [a, b].map(Run::samples);
            let pairs = Pairs::join(&a, &b);
            if pairs.is_empty() {
                continue;
            }
            let means = pairs.means();
            let differences = pairs.differences();
            let (split, seed) = (task.clone(), first.seed);
            paired.push(Paired { split, seed, pairs: pairs.len(), a: means.a, b: means.b, differences });
            efforts[0].push(effort(&a));
            efforts[1].push(effort(&b));
        }
    }
    let effects = effects(&paired);
    let finding =
        effects.first().zip(question.at_least).map(|(effect, points)| judge(effect, points / 100.0));
    let effort = efforts.map(|efforts| average(&efforts));
    let found = !effects.is_empty();
    found.then(|| Answer { question: question.clone(), seeds, effects, effort, finding })
}

/// An expectation holds where both intervals, over other videos and over other trainings, lie beyond it;
/// it fails where both lie below. With one seed only the videos are judged.
fn judge(effect: &PairedEffect, at_least: f64) -> Finding {
    let [by_video, by_seed] = effect.estimates;
    let verdict = |estimate: Option<Effect>| {
        decide(estimate.map(|estimate| estimate.less(at_least)).as_ref(), Margin::NONE)
    };
    let by_video = verdict(by_video);
    let agrees = effect.of_seeds.len() < 2 || verdict(by_seed) == by_video;
    match by_video {
        Verdict::Better if agrees => Finding::Holds,
        Verdict::Worse if agrees => Finding::Fails,
        _ => Finding::Open,
    }
}

/// Means over the counted samples.
fn effort(samples: &Frame) -> Effort {
    let samples = samples.filter("counted");
    let counts = |name| mean(samples.counts(name).flatten().map(|count| count as f64)).unwrap_or_default();
    Effort {
        turns: counts("turns"),
        calls: counts("calls"),
        tokens: counts("prompt_tokens") + counts("completion_tokens"),
        seconds: mean(samples.reals("seconds").flatten()).unwrap_or_default(),
    }
}

fn average(efforts: &[Effort]) -> Effort {
    let over = |value: fn(&Effort) -> f64| mean(efforts.iter().map(value)).unwrap_or_default();
    Effort {
        turns: over(|one| one.turns),
        calls: over(|one| one.calls),
        tokens: over(|one| one.tokens),
        seconds: over(|one| one.seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::Support;
    use crate::statistics::ClusteredMean;

    /// An effect with a standard error by video and, with `seeds`, one by seed.
    fn effect(difference: f64, error: f64, seeds: Option<f64>) -> PairedEffect {
        let estimate = |error, clusters: usize| {
            let (degrees_of_freedom, weight) = (clusters as f64 - 1.0, 1.0 / clusters as f64);
            let (mean, standard_error, rows) = (difference, error, 100);
            let found = ClusteredMean { mean, standard_error, clusters, degrees_of_freedom, weight, rows };
            Effect::of_mean(found, Support::Unbounded)
        };
        let estimates = [estimate(error, 100), seeds.and_then(|error| estimate(error, 3))];
        PairedEffect {
            split: None,
            pairs: 10,
            a: 0.0,
            b: difference,
            difference,
            by_video: estimates[0].and_then(|estimate| estimate.interval()),
            by_seed: estimates[1].and_then(|estimate| estimate.interval()),
            estimates,
            of_seeds: vec![difference; if seeds.is_some() { 3 } else { 1 }],
        }
    }

    #[test]
    fn an_expectation_holds_only_with_its_whole_interval() {
        assert_eq!(judge(&effect(0.3, 0.05, None), 0.15), Finding::Holds);
        assert_eq!(judge(&effect(0.2, 0.05, None), 0.15), Finding::Open, "0.10 to 0.30 reaches below 0.15");
        assert_eq!(judge(&effect(0.1, 0.05, None), 0.15), Finding::Open, "perhaps as large");
        assert_eq!(judge(&effect(0.02, 0.05, None), 0.15), Finding::Fails);
        assert_eq!(judge(&effect(0.3, 0.05, Some(0.1)), 0.15), Finding::Open, "trainings differ");
        assert_eq!(judge(&effect(0.3, 0.05, Some(0.01)), 0.15), Finding::Holds);
        let one_video = PairedEffect { estimates: [None, None], by_video: None, ..effect(0.3, 0.05, None) };
        assert_eq!(judge(&one_video, 0.15), Finding::Open);
    }
}
