//! How far a run is: for the page of running runs, and for a terminal.

use std::collections::BTreeMap;

use paravt_suite::record::Outcome;
use serde::Serialize;

use crate::runs::Run;
use crate::statistics::mean;
use crate::terminal::{Text, Tone, percent};

/// Seconds over which the rate is taken.
const RECENT: f64 = 600.0;

/// How far a run is.
#[derive(Debug, Serialize)]
pub struct Progress {
    /// Its split and name.
    pub title: String,
    /// Samples with a record.
    pub recorded: usize,
    /// Samples that it selects.
    pub expected: usize,
    /// Mean of the samples with an answer or without one that was found; `None` without any.
    pub mean: Option<f64>,
    /// Samples of that mean.
    pub scored: usize,
    /// Samples in whose reply no answer was found.
    pub unparsed: usize,
    /// Failed samples by class of error.
    pub errors: BTreeMap<String, usize>,
    /// Samples a second over the last ten minutes; `None` where none has ended in them.
    pub rate: Option<f64>,
}

impl Progress {
    /// Of a run; `now` is Unix time in seconds.
    pub fn of(run: &Run, now: f64) -> Self {
        let (manifest, records) = (&run.manifest, &run.records);
        let mut errors: BTreeMap<String, usize> = BTreeMap::new();
        for error in records.iter().filter_map(|record| record.error.as_ref()) {
            *errors.entry(error.class.as_str().to_owned()).or_default() += 1;
        }
        let scored = records.iter().filter(|record| record.score.outcome != Outcome::Error);
        let values: Vec<f64> = scored.map(|record| record.score.value).collect();
        let since = (now - RECENT).max(manifest.started_at);
        let recent = records.iter().filter(|record| record.measured.finished_at > since).count();
        Self {
            title: format!("{} · {}", manifest.task.title, manifest.display_name()),
            recorded: records.len(),
            expected: manifest.selection.sizes.expected,
            mean: mean(&values),
            scored: values.len(),
            unparsed: records.iter().filter(|record| record.score.outcome == Outcome::Unparsed).count(),
            errors,
            rate: (recent > 0).then(|| recent as f64 / (now - since).max(1.0)),
        }
    }

    /// Samples that have no record yet.
    pub fn rest(&self) -> usize {
        self.expected.saturating_sub(self.recorded)
    }

    /// Rate over the last minutes and the time that the rest takes at that rate.
    pub fn pace(&self) -> String {
        match (self.rest(), self.recorded, self.rate) {
            (0, ..) => "finished".to_owned(),
            (_, 0, _) => "no sample finished yet".to_owned(),
            (_, _, None) => "no sample finished in the last 10 minutes".to_owned(),
            (rest, _, Some(rate)) => {
                let left = duration(rest as f64 / rate);
                format!("{}, {left} to go at that rate", speed(rate))
            }
        }
    }

    /// The mean so far, and of how many samples it is.
    pub fn score(&self) -> Option<String> {
        self.mean.map(|mean| format!("{} over {}", percent(mean), self.scored))
    }

    /// Failed samples by class, in words.
    pub fn failed(&self) -> String {
        self.errors.iter().map(|(class, count)| format!("{class} {count}")).collect::<Vec<_>>().join(", ")
    }

    /// Two lines at most.
    pub fn show(&self, text: &mut Text) {
        let tone = if self.rest() == 0 { Tone::Good } else { Tone::Open };
        let count = format!("{}/{}", self.recorded, self.expected);
        text.toned(&format!("{}: ", self.title), &count, tone, &format!(", {}", self.pace()));
        let mean = self.score().map(|score| format!("mean so far {score}"));
        let unparsed = (self.unparsed > 0).then(|| format!("{} unparsed", self.unparsed));
        let failed = (!self.errors.is_empty()).then(|| format!("failed: {}", self.failed()));
        let parts: Vec<String> = [mean, unparsed, failed].into_iter().flatten().collect();
        if !parts.is_empty() {
            text.line(format!("  {}", parts.join(", ")));
        }
    }
}

/// A rate in the unit in which it is read best.
fn speed(rate: f64) -> String {
    match rate {
        1.0.. => format!("{rate:.1} samples a second"),
        _ if rate * 60.0 >= 10.0 => format!("{:.0} samples a minute", 60.0 * rate),
        _ => format!("{} a sample", duration(1.0 / rate)),
    }
}

/// A time in the largest unit that it fills, and the next.
fn duration(seconds: f64) -> String {
    let whole = seconds.ceil() as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::{duration, speed};

    #[test]
    fn durations_have_two_units_and_rates_the_one_that_is_read() {
        assert_eq!([0.4, 59.0, 61.0, 7320.0].map(duration), ["1 s", "59 s", "1 min 1 s", "2 h 2 min"]);
        assert_eq!(
            [2.5, 0.5, 0.02].map(speed),
            ["2.5 samples a second", "30 samples a minute", "50 s a sample"]
        );
    }
}
