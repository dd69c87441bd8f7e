//! inspect_ai: one log per run, version 2, read by inspect_ai 0.3.285.
//!
//! The `.json` form is one document; `.eval` is a zip file with a member per sample (inspect_ai 0.3.285
//! `inspect_ai/log/_recorders/eval.py`). Field names are those of `inspect_ai/log/_log.py` there.

mod log;
mod sample;
mod zip_file;

use serde_json::{Value, json};

use super::ExportError;
use super::evaluation::Evaluation;
use super::folder::{Folder, file_name};
use super::frames::Frames;

/// Form of a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Eval,
}

pub(super) fn write(
    evaluations: &[Evaluation<'_>],
    frames: Option<&Frames>,
    form: Form,
    folder: &mut Folder,
) -> Result<(), ExportError> {
    for evaluation in evaluations {
        let records = &evaluation.run.records;
        let samples = records.iter().map(|record| sample::of(evaluation, record, frames));
        let samples: Vec<Value> = samples.collect::<Result<_, _>>()?;
        let mut log = log::header(evaluation);
        let started = evaluation.started().format("%Y-%m-%dT%H-%M-%S+00-00");
        let task = file_name(evaluation.task()).replace('_', "-");
        let name = format!("{started}_{task}_{}", log::id(evaluation));
        match form {
            Form::Json => {
                log["samples"] = Value::Array(samples);
                folder.put(&format!("{name}.json"), format!("{log}\n").as_bytes())?;
            }
            Form::Eval => {
                let name = format!("{name}.eval");
                let content = zip_file::of(&log, &samples)
                    .map_err(|source| ExportError::Io { path: folder.path(&name), source })?;
                folder.put(&name, &content)?;
            }
        }
    }
    Ok(())
}

/// Usage as inspect_ai has it.
fn usage(input: u64, output: u64) -> Value {
    json!({ "input_tokens": input, "output_tokens": output, "total_tokens": input + output })
}
