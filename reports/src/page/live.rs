//! Runs while they run: one page that reloads itself, without a script.

use minijinja::{Value, context};
use paravt_suite::record::{Outcome, Record};

use super::visible::visible;
use crate::pairs::RIGHT;
use crate::progress::Progress;
use crate::runs::Run;
use crate::terminal::percent;

/// Transcripts that are shown of each run, and characters of each text.
const LATEST: usize = 5;
const CHARACTERS: usize = 600;

/// Progress, rate, remaining time and errors by class of each run, and the latest transcripts of those that are not
/// finished, which come first; `now` is Unix time in seconds.
pub(super) fn runs(runs: &[Run], now: f64) -> Vec<Value> {
    let runs: Vec<(&Run, Progress)> = runs.iter().map(|run| (run, Progress::of(run, now))).collect();
    let (finished, running): (Vec<_>, Vec<_>) = runs.iter().partition(|(_, progress)| progress.rest() == 0);
    running.into_iter().chain(finished).map(|(run, progress)| one(run, progress)).collect()
}

fn one(run: &Run, progress: &Progress) -> Value {
    let mut latest: Vec<&Record> = run.records.iter().collect();
    latest.sort_by(|a, b| b.measured.finished_at.total_cmp(&a.measured.finished_at));
    context! {
        title => visible(&progress.title),
        recorded => progress.recorded,
        expected => progress.expected,
        share => percent(progress.recorded as f64 / progress.expected.max(1) as f64),
        pace => progress.pace(),
        score => progress.score(),
        unparsed => progress.unparsed,
        errors => progress.failed(),
        latest => latest.into_iter().take(if progress.rest() > 0 { LATEST } else { 0 }).map(transcript).collect::<Vec<_>>(),
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
