//! Claims about training curves: only a training of the same recipe, base model and size can tell.

use std::ops::RangeInclusive;

use paravt_suite::run::Manifest;
use serde::Deserialize;

use super::Statistic;
use super::measured::Measured;
use crate::decide::{Effect, Support, Verdict};
use crate::order::distinct;
use crate::statistics::mean;
use crate::training::Training;

/// The training that a published curve is of.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claimed {
    pub recipe: String,
    pub base_model: String,
    /// Least and largest number of its parameters.
    pub parameters: (u64, u64),
    /// What its released code does otherwise than its paper says.
    pub defects: String,
}

/// A statistic of a curve over all trainings that recorded it; `None` where none did. Trainings of the
/// claim's recipe with different seeds are repetitions; two with the same seed are ambiguous.
/// The order of the runs decides nothing.
pub(super) fn measure(
    claimed: &Claimed,
    trainings: &[(&Manifest, &Training)],
    series: &str,
    statistic: Statistic,
) -> Option<Measured> {
    let mut candidates: Vec<(&Manifest, &Training)> = Vec::new();
    for &(manifest, training) in trainings {
        // Several runs of one checkpoint show the same training.
        let known = candidates.iter().any(|(_, other)| *other == training);
        if !known && training.series.get(series).is_some_and(|points| !points.is_empty()) {
            candidates.push((manifest, training));
        }
    }
    if candidates.is_empty() {
        return None;
    }
    let (comparable, apart): (Vec<_>, Vec<_>) = candidates
        .iter()
        .partition(|(manifest, training)| claimed.differences(manifest, training).is_empty());
    let judged = if comparable.is_empty() { &apart } else { &comparable };
    let values: Vec<f64> = judged.iter().filter_map(|(_, one)| value(one, series, statistic)).collect();
    let mut why = Vec::new();
    if comparable.is_empty() {
        why = distinct(apart.iter().flat_map(|(manifest, training)| claimed.differences(manifest, training)));
    } else {
        why.extend(ambiguous(&comparable, series));
    }
    let effect = Effect::repetitions(&values, Support::Unbounded).filter(|_| why.is_empty());
    let measured = Measured::of(mean(values), effect);
    Some(if why.is_empty() {
        measured
    } else {
        Measured { verdict: Verdict::NotComparable(why), ..measured }
    })
}

impl Claimed {
    /// Why a run's training is not the one that the claim is about; empty where it is.
    fn differences(&self, manifest: &Manifest, training: &Training) -> Vec<String> {
        let mut why = Vec::new();
        if manifest.protocol_source.repository == "paravt-bench" {
            why.push("native protocol".to_owned());
        }
        let Some(about) = &training.about else {
            why.push(format!(
                "the run does not state what was trained (claim: {} of {})",
                self.recipe, self.base_model
            ));
            return why;
        };
        if about.recipe != self.recipe {
            why.push(format!("recipe {} (claim: {})", about.recipe, self.recipe));
        }
        if about.base_model != self.base_model {
            why.push(format!("base model {} (claim: {})", about.base_model, self.base_model));
        }
        let (least, largest) = self.parameters;
        if !RangeInclusive::new(least, largest).contains(&about.parameters) {
            why.push(format!("{} parameters (claim: {})", size(about.parameters), size(largest)));
        }
        why
    }
}

fn ambiguous(comparable: &[(&Manifest, &Training)], series: &str) -> Option<String> {
    let mut seeds: Vec<Option<u64>> =
        comparable.iter().map(|(_, one)| one.about.as_ref().and_then(|about| about.seed)).collect();
    seeds.sort_unstable();
    let clash =
        comparable.len() > 1 && (seeds.contains(&None) || seeds.windows(2).any(|two| two[0] == two[1]));
    clash.then(|| {
        let mut names: Vec<String> = comparable.iter().map(|(manifest, _)| manifest.display_name()).collect();
        names.sort();
        format!(
            "{} trainings recorded {series} and their seeds do not tell them apart: {}",
            names.len(),
            names.join(", ")
        )
    })
}

fn value(training: &Training, series: &str, statistic: Statistic) -> Option<f64> {
    let points = training.series.get(series)?;
    let values = || points.iter().map(|(_, value)| *value);
    match statistic {
        Statistic::First => values().next(),
        Statistic::Peak => values().reduce(f64::max),
        Statistic::Mean => mean(values()),
    }
}

/// A number of parameters, e.g. `1.2 M`.
fn size(parameters: u64) -> String {
    match parameters as f64 {
        billions if billions >= 1e9 => format!("{:.1} B", billions / 1e9),
        millions if millions >= 1e6 => format!("{:.1} M", millions / 1e6),
        few => few.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size(1_234_567), "1.2 M");
        assert_eq!(size(8_767_123_696), "8.8 B");
        assert_eq!(size(12), "12");
    }
}
