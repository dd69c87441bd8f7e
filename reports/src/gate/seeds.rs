//! Trainings from several seeds as one reference: what another seed may score.
//!
//! A training that is started from another seed, or rounds differently on another machine, ends in another
//! model. One baseline run says nothing about how much that moves a score; the scores of several seeds do.
//! A training passes when its mean over the splits is not below the one-sided 97.5 % prediction bound of
//! one more seed: `mean - t(k - 1) * s * sqrt(1 + 1/k)`.

use std::collections::{BTreeMap, BTreeSet};

use paravt_suite::run::Manifest;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF as _, StudentsT};

use super::{Check, GateError, Rule, Score, Status, Verdict, measurement, preliminary};
use crate::runs::{ReportError, Run};
use crate::statistics::mean;

/// Fewest seeds for an estimate of their spread.
const FEWEST: usize = 3;
/// One-sided probability that another seed lies above the bound.
const ABOVE: f64 = 0.975;

/// Scores of several trainings of one recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seeds {
    /// Settings and losses, one per split.
    pub splits: Vec<SeedSplit>,
    pub trainings: Vec<SeedScores>,
}

/// One split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeedSplit {
    /// Settings; the model is that of the first training.
    pub manifest: Manifest,
    pub n: usize,
    /// Largest number of failed samples over the trainings.
    pub errors: usize,
    /// Largest number of samples without their frames.
    pub lost: usize,
}

/// One training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeedScores {
    pub name: String,
    /// Score by split, a share between 0 and 1.
    pub scores: BTreeMap<String, f64>,
}

/// Identity of the trained model: the hash of its weights where the backend states it, else its name.
/// Trainings of one recipe end in folders of one name.
fn model(manifest: &Manifest) -> &str {
    manifest.backend.details.get("weights_sha256").unwrap_or(&manifest.backend.model)
}

impl SeedScores {
    fn mean(&self) -> f64 {
        mean(self.scores.values()).unwrap_or_default()
    }
}

impl Seeds {
    /// The reference that these runs make: those of one model are one training.
    ///
    /// # Errors
    /// Too few trainings, or trainings that were not measured alike.
    pub fn of(runs: &[Run]) -> Result<Self, GateError> {
        let rule = Rule { any_model: true, ..Rule::default() };
        let refuse = |message: String| Err(GateError::Rule(message));
        let mut splits: Vec<SeedSplit> = Vec::new();
        let mut by_model: BTreeMap<&str, SeedScores> = BTreeMap::new();
        for run in runs {
            let (manifest, summary) = (&run.manifest, run.summary()?);
            let task = &manifest.task.name;
            let lost = summary.n_frame_loss;
            match splits.iter_mut().find(|split| split.manifest.task.name == *task) {
                Some(split) => {
                    let differences = measurement::differences(&split.manifest, manifest, &rule);
                    if !differences.is_empty() {
                        return refuse(format!("{task}: the trainings differ: {}", differences.join("; ")));
                    }
                    split.errors = split.errors.max(summary.n_errors);
                    split.lost = split.lost.max(lost);
                }
                None => splits.push(SeedSplit {
                    manifest: measurement::kept(manifest),
                    n: run.records.len(),
                    errors: summary.n_errors,
                    lost,
                }),
            }
            let training = by_model
                .entry(model(manifest))
                .or_insert_with(|| SeedScores { name: manifest.display_name(), scores: BTreeMap::new() });
            if training.scores.insert(task.clone(), summary.over_samples().value).is_some() {
                return refuse(format!("{task}: two runs of the model {}", manifest.backend.model));
            }
        }
        let trainings: Vec<SeedScores> = by_model.into_values().collect();
        let seeds = Self { splits, trainings };
        seeds.verify().map_err(GateError::Rule)?;
        Ok(seeds)
    }

    /// Checks the values.
    ///
    /// # Errors
    /// The fault, as a sentence.
    pub fn verify(&self) -> Result<(), String> {
        if self.trainings.len() < FEWEST {
            return Err(format!(
                "{} trainings; a spread over seeds needs {FEWEST} at least",
                self.trainings.len()
            ));
        }
        let splits = self.names();
        for training in &self.trainings {
            let of: BTreeSet<&str> = training.scores.keys().map(String::as_str).collect();
            if of != splits {
                return Err(format!("training {} was not run on every split", training.name));
            }
            if let Some(score) = training.scores.values().find(|score| !(0.0..=1.0).contains(*score)) {
                return Err(format!("training {}: score {score} is not between 0 and 1", training.name));
            }
        }
        let counts = |split: &SeedSplit| {
            split.n == split.manifest.expected_records() && split.errors.max(split.lost) <= split.n
        };
        match self.splits.len() == splits.len() && self.splits.iter().all(counts) {
            true => Ok(()),
            false => Err("the counts of the splits do not belong together".to_owned()),
        }
    }

    fn names(&self) -> BTreeSet<&str> {
        self.splits.iter().map(|split| split.manifest.task.name.as_str()).collect()
    }

    /// The score below which another seed is not expected, and the mean; shares.
    fn bound(&self) -> (f64, f64) {
        let means: Vec<f64> = self.trainings.iter().map(SeedScores::mean).collect();
        bound(&means, self.splits.iter().map(|split| split.n).sum())
    }

    /// Judges every training among the runs.
    ///
    /// # Errors
    /// The records of a run do not belong together.
    pub(super) fn check(&self, runs: &[Run], rule: &Rule, verdict: &mut Verdict) -> Result<(), ReportError> {
        let checks = &mut verdict.checks;
        let mut by_model: BTreeMap<&str, SeedScores> = BTreeMap::new();
        for run in runs {
            let (task, name) = (&run.manifest.task.name, run.manifest.display_name());
            let group = format!("{task} ({name})");
            let training = by_model
                .entry(model(&run.manifest))
                .or_insert_with(|| SeedScores { name, scores: BTreeMap::new() });
            let Some(split) = self.splits.iter().find(|split| split.manifest.task.name == *task) else {
                checks.push(Check::new(
                    &group,
                    "same measurement",
                    Status::Undecided,
                    super::NOT_IN_BASELINE,
                ));
                continue;
            };
            let before = (split.errors, split.lost);
            if preliminary(&group, &split.manifest, before, run, rule, checks) {
                training.scores.insert(task.clone(), run.summary()?.over_samples().value);
            }
        }
        let (low, mean) = self.bound();
        for training in by_model.into_values() {
            let judged: BTreeSet<&str> = training.scores.keys().map(String::as_str).collect();
            let missing: Vec<&str> = self.names().difference(&judged).copied().collect();
            let (status, message) = if missing.is_empty() {
                let score = training.mean();
                let points = |share: f64| 100.0 * (share - mean);
                verdict.scores.push(Score {
                    task: "all splits".to_owned(),
                    score: 100.0 * score,
                    difference: points(score),
                    interval: (points(low), -points(low)),
                });
                let status = if score < low { Status::Fail } else { Status::Pass };
                let message = format!(
                    "mean {:.1} %; {} seeds scored {:.1} %, another one {:.1} % at least (one-sided 97.5 %)",
                    100.0 * score,
                    self.trainings.len(),
                    100.0 * mean,
                    100.0 * low
                );
                (status, message)
            } else {
                (Status::Undecided, format!("not judged on {}", missing.join(", ")))
            };
            checks.push(Check::new("all splits", &training.name, status, &message));
        }
        if runs.is_empty() {
            checks.push(Check::new("all splits", "same measurement", Status::Undecided, super::NOT_RUN));
        }
        Ok(())
    }
}

/// Prediction bound and mean of scores over as many samples.
fn bound(means: &[f64], samples: usize) -> (f64, f64) {
    let k = means.len() as f64;
    let mean = mean(means).unwrap_or_default();
    let variance = means.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (k - 1.0);
    // Seeds that happen to agree do not make a single answer a regression.
    let deviation = variance.sqrt().max(1.0 / samples.max(1) as f64);
    let t = StudentsT::new(0.0, 1.0, k - 1.0).map_or(f64::INFINITY, |t| t.inverse_cdf(ABOVE));
    (mean - t * deviation * (1.0 + 1.0 / k).sqrt(), mean)
}

#[cfg(test)]
mod tests {
    use rand::{Rng as _, SeedableRng as _};

    use super::*;

    #[test]
    fn another_seed_lies_above_the_bound_as_often_as_it_says() {
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        // A sum of twelve uniform draws is normal but for its far ends.
        let mut seed = || 0.5 + 0.03 * ((0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0);
        for k in [FEWEST, 8] {
            let above = (0..10_000).filter(|_| {
                let (low, _) = bound(&(0..k).map(|_| seed()).collect::<Vec<_>>(), 100_000);
                seed() >= low
            });
            let share = above.count() as f64 / 1e4;
            assert!((share - ABOVE).abs() < 0.005, "{k} seeds: {share}");
        }
    }
}
