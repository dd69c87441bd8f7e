//! A run with what every format needs of it.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use paravt_reports::{Cell, Report, Run};
use paravt_suite::record::{Outcome, Record};
use paravt_suite::sample::Sample;
use paravt_suite::summary::{Summary, counts};
use serde_json::{Map, Value, json};

use super::ExportError;

/// A run and its numbers.
pub(super) struct Evaluation<'a> {
    pub(super) run: &'a Run,
    pub(super) cell: Cell,
    /// Name of the model in the files.
    pub(super) model: String,
}

/// Tokens of all calls of a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) input: u64,
    pub(super) output: u64,
    /// Thoughts among the output, where the backend counts them apart.
    pub(super) reasoning: Option<u64>,
}

impl<'a> Evaluation<'a> {
    pub(super) fn of(run: &'a Run, model: Option<&str>) -> Result<Self, ExportError> {
        let model = model.unwrap_or(&run.manifest.backend.model).to_owned();
        let cell = Report::build([run], None)?.cells.into_iter().next();
        let cell = cell.filter(|cell| cell.score().is_some());
        let cell = cell.ok_or_else(|| ExportError::Empty { run: name(run) })?;
        Ok(Self { run, cell, model })
    }

    /// Split and run, for messages.
    pub(super) fn name(&self) -> String {
        name(self.run)
    }

    /// The split.
    pub(super) fn task(&self) -> &str {
        &self.run.manifest.task.name
    }

    pub(super) fn summary(&self) -> &Summary {
        &self.cell.summary
    }

    /// Name of the mean over samples, e.g. `accuracy`.
    pub(super) fn metric(&self) -> &'static str {
        self.run.manifest.task.metric.name()
    }

    /// Records with an answer that counts in the score.
    pub(super) fn answered(&self) -> Vec<&'a Record> {
        let counted = |record: &&Record| counts(record, self.run.manifest.plan.switches());
        self.run.records.iter().filter(|record| has_answer(record)).filter(counted).collect()
    }

    /// Says how many records [`answered`](Self::answered) leaves out, and why; `None` where it has all.
    pub(super) fn left_out(&self) -> Option<String> {
        let failed = self.run.records.iter().filter(|record| !has_answer(record)).count();
        let apart = self.run.records.len() - failed - self.answered().len();
        let failed = (failed > 0).then(|| format!("{failed} without an answer"));
        let apart = (apart > 0).then(|| format!("{apart} that the score does not count"));
        let parts: Vec<String> = failed.into_iter().chain(apart).collect();
        let samples = self.run.records.len();
        (!parts.is_empty())
            .then(|| format!("{}: of {samples} samples left out: {}", self.name(), parts.join(", ")))
    }

    /// Says that samples are still to be run; `None` where none is.
    pub(super) fn unfinished(&self) -> Option<String> {
        let Summary { n_recorded, n_expected, .. } = *self.summary();
        (n_recorded < n_expected).then(|| format!("{n_recorded} of {n_expected} samples recorded"))
    }

    /// SHA-256 of the manifest: the same for every export of the run.
    pub(super) fn identity(&self) -> String {
        let manifest =
            serde_json::to_vec(&self.run.manifest).expect("plain structs with string keys serialise");
        paravt_files::sha256(manifest)
    }

    /// Time of the first start.
    pub(super) fn started(&self) -> DateTime<Utc> {
        time(self.run.manifest.started_at)
    }

    /// Time of the last sample.
    pub(super) fn ended(&self) -> DateTime<Utc> {
        let finished = self.run.records.iter().map(|record| record.measured.finished_at);
        time(
            self.run
                .manifest
                .ended_at
                .unwrap_or_else(|| finished.fold(self.run.manifest.started_at, f64::max)),
        )
    }

    /// What decides an answer, by name: plan, protocol, data. No endpoint, which is the machine's.
    pub(super) fn settings(&self) -> Map<String, Value> {
        let manifest = &self.run.manifest;
        let Value::Object(mut settings) = json!({
            "protocol": manifest.protocol,
            "protocol_hash": manifest.protocol_hash,
            "data": manifest.data,
            "data_verified": manifest.inputs.verified,
            "backend": manifest.backend.name,
            "backend_details": manifest.backend.identity(),
            "quirks": manifest.quirks,
            "run": manifest.display_name(),
        }) else {
            unreachable!("the macro makes an object of braces")
        };
        settings.extend(
            manifest.data_revision.iter().map(|revision| ("data_revision".to_owned(), json!(revision))),
        );
        settings.extend(self.plan());
        settings
    }

    pub(super) fn plan(&self) -> Map<String, Value> {
        match serde_json::to_value(&self.run.manifest.plan) {
            Ok(Value::Object(plan)) => plan,
            _ => unreachable!("a plan is a struct with string keys"),
        }
    }

    /// Counts of what was lost, by name.
    pub(super) fn losses(&self) -> BTreeMap<&'static str, usize> {
        let summary = self.summary();
        BTreeMap::from([
            ("samples_expected", summary.n_expected),
            ("samples_recorded", summary.n_recorded),
            ("samples_unparsed", summary.n_unparsed),
            ("samples_failed", summary.n_errors),
            ("samples_without_frames", summary.n_frame_loss),
            ("samples_truncated", summary.n_truncated),
            ("split_rows", self.run.manifest.selection.split_rows),
        ])
    }
}

/// Split and run.
fn name(run: &Run) -> String {
    format!("{} · {}", run.manifest.task.name, run.manifest.display_name())
}

/// Whether a record has a reply, understood or not.
pub(super) fn has_answer(record: &Record) -> bool {
    record.score.outcome != Outcome::Error
}

/// Why a record has no answer: class, step and message, without addresses of servers; `None` where it has one.
pub(super) fn failure(record: &Record) -> Option<String> {
    let error = record.error.as_ref()?;
    let shown = |word: &str| match word.contains("://") {
        true if word.ends_with(':') => "server:".to_owned(),
        true => "server".to_owned(),
        false => word.to_owned(),
    };
    let message: Vec<String> = error.message.split(' ').map(shown).collect();
    Some(format!("{} at {}: {}", error.class.as_str(), error.step, message.join(" ")))
}

/// Unix seconds as a time; 1970 for what no calendar has.
fn time(seconds: f64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros((seconds * 1e6) as i64).unwrap_or_default()
}

/// Tokens of all calls, sub-agents' too; `None` where the backend counts none.
pub(super) fn tokens(record: &Record) -> Option<Tokens> {
    let usage = record.transcript.calls.iter().filter_map(|call| call.usage);
    usage.fold(None, |sum: Option<Tokens>, usage| {
        let before = sum.unwrap_or_default();
        let thoughts = [before.reasoning, usage.reasoning_tokens].into_iter().flatten().reduce(|a, b| a + b);
        Some(Tokens {
            input: before.input + usage.prompt_tokens,
            output: before.output + usage.completion_tokens,
            reasoning: thoughts,
        })
    })
}

/// The question with its options, lettered, one line each.
pub(super) fn question(sample: &Sample) -> String {
    let letters = sample.question.letters.chars();
    let options =
        letters.zip(&sample.question.options).map(|(letter, option)| format!("\n{letter}. {option}"));
    sample.question.stem.clone() + &options.collect::<String>()
}

/// What the question is asked with: the texts of the first user message, or the bare question where no message was made.
pub(super) fn prompt(record: &Record) -> String {
    super::conversation::prompt(record).unwrap_or_else(|| question(&record.sample))
}
