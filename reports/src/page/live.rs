//! Runs while they run: one page that reloads itself, without a script.

use std::collections::BTreeMap;

use minijinja::{Value, context};
use paravt_suite::record::{Outcome, Record};

use super::visible::visible;
use crate::pairs::RIGHT;
use crate::runs::Run;
use crate::statistics::mean;
use crate::terminal::percent;

/// Seconds over which the rate is taken.
const RECENT: f64 = 600.0;
/// Transcripts that are shown of each run, and characters of each text.
const LATEST: usize = 5;
const CHARACTERS: usize = 600;

/// Progress, rate, remaining time and errors by class of each run, and the latest transcripts of those that are not
/// finished, which come first; `now` is Unix time in seconds.
pub(super) fn runs(runs: &[Run], now: f64) -> Vec<Value> {
    let (finished, running): (Vec<&Run>, Vec<&Run>) = runs.iter().partition(|run| rest(run) == 0);
    running.into_iter().chain(finished).map(|run| one(run, now)).collect()
}

/// Samples that have no record yet.
fn rest(run: &Run) -> usize {
    run.manifest.selection.sizes.expected.saturating_sub(run.records.len())
}

fn one(run: &Run, now: f64) -> Value {
    let (manifest, records) = (&run.manifest, &run.records);
    let (recorded, expected) = (records.len(), manifest.selection.sizes.expected);
    let mut errors: BTreeMap<&str, usize> = BTreeMap::new();
    for error in records.iter().filter_map(|record| record.error.as_ref()) {
        *errors.entry(error.class.as_str()).or_default() += 1;
    }
    let answered: Vec<f64> = records
        .iter()
        .filter(|record| record.score.outcome != Outcome::Error)
        .map(|record| record.score.value)
        .collect();
    let mut latest: Vec<&Record> = records.iter().collect();
    latest.sort_by(|a, b| b.measured.finished_at.total_cmp(&a.measured.finished_at));
    context! {
        title => visible(&format!("{} · {}", manifest.task.title, manifest.display_name())),
        recorded, expected,
        share => percent(recorded as f64 / expected.max(1) as f64),
        pace => pace(run, now),
        score => mean(&answered).map(|mean| format!("{} over {}", percent(mean), answered.len())),
        unparsed => records.iter().filter(|record| record.score.outcome == Outcome::Unparsed).count(),
        errors => errors.iter().map(|(class, count)| format!("{class} {count}")).collect::<Vec<_>>().join(", "),
        latest => latest.into_iter().take(if rest(run) > 0 { LATEST } else { 0 }).map(transcript).collect::<Vec<_>>(),
    }
}

/// Rate over the last minutes and the time that the rest takes at that rate.
fn pace(run: &Run, now: f64) -> String {
    let rest = rest(run);
    if rest == 0 {
        return "finished".to_owned();
    }
    if run.records.is_empty() {
        return "no sample finished yet".to_owned();
    }
    let since = (now - RECENT).max(run.manifest.started_at);
    let recent = run.records.iter().filter(|record| record.measured.finished_at > since).count();
    if recent == 0 {
        return "no sample finished in the last 10 minutes".to_owned();
    }
    let rate = recent as f64 / (now - since).max(1.0);
    format!("{:.1} samples a minute, {} to go at that rate", 60.0 * rate, duration(rest as f64 / rate))
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

fn transcript(record: &Record) -> Value {
    let result = match record.score.outcome {
        Outcome::Scored if record.score.value >= RIGHT => "right",
        Outcome::Scored => "wrong",
        Outcome::Unparsed => "unparsed",
        Outcome::Error => "error",
    };
    let cut = |text: &str| visible(&text.chars().take(CHARACTERS).collect::<String>());
    context! {
        uid => visible(&record.sample.uid),
        result,
        question => cut(&record.sample.question.stem),
        answer => cut(record.score.prediction.as_deref().unwrap_or("none found")),
        gold => cut(&record.sample.gold.to_string()),
        text => cut(record.error.as_ref().map_or(&record.transcript.final_text, |error| &error.message)),
        calls => record.transcript.tool_calls.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_have_two_units() {
        assert_eq!([0.4, 59.0, 61.0, 7320.0].map(duration), ["1 s", "59 s", "1 min 1 s", "2 h 2 min"]);
    }
}
