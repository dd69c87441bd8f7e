//! inspect_ai: one log per run, version 2, read by inspect_ai 0.3.285.
//!
//! The `.json` form is one document; `.eval` is a zip file with a member per sample (inspect_ai 0.3.285
//! `inspect_ai/log/_recorders/eval.py`). Field names are those of `inspect_ai/log/_log.py` there.

mod log;
mod sample;
mod zip_file;

use std::io::Write;

use serde_json::{Value, json};

use super::ExportError;
use super::evaluation::{Evaluation, Tokens};
use super::folder::{Failure, Folder};
use super::frames::FrameImages;
use crate::names::file_name;

/// Form of a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Eval,
}

pub(super) fn write(
    evaluations: &[Evaluation<'_>],
    frames: Option<&FrameImages>,
    form: Form,
    folder: &mut Folder,
) -> Result<(), ExportError> {
    for evaluation in evaluations {
        // One sample at a time: with frames each is some 100 kB.
        let samples = evaluation.run.records.iter().map(|record| sample::of(evaluation, record, frames));
        let (header, started) =
            (log::header(evaluation), evaluation.started().format("%Y-%m-%dT%H-%M-%S+00-00"));
        let task = file_name(evaluation.task()).replace('_', "-");
        let name = format!("{started}_{task}_{}", log::id(evaluation));
        match form {
            Form::Json => folder.put_by(&format!("{name}.json"), |out| document(out, &header, samples))?,
            Form::Eval => {
                folder.put_by(&format!("{name}.eval"), |out| zip_file::write(out, &header, samples))?;
            }
        }
    }
    Ok(())
}

/// Writes the whole log as one JSON object.
fn document(
    out: &mut impl Write,
    header: &Value,
    samples: impl Iterator<Item = Result<Value, ExportError>>,
) -> Result<(), Failure> {
    // Without the brace that closes the object.
    let header = header.to_string();
    write!(out, "{},\"samples\":[", header.strip_suffix('}').unwrap_or(&header))?;
    for (number, sample) in samples.enumerate() {
        let comma = if number > 0 { "," } else { "" };
        write!(out, "{comma}{}", sample?)?;
    }
    Ok(out.write_all(b"]}\n")?)
}

/// Usage as inspect_ai has it.
fn usage(tokens: Tokens) -> Value {
    let Tokens { input, output, reasoning } = tokens;
    let mut usage = json!({ "input_tokens": input, "output_tokens": output, "total_tokens": input + output });
    if let Some(reasoning) = reasoning {
        usage["reasoning_tokens"] = reasoning.into();
    }
    usage
}
