//! Runs of this suite as files of other harnesses, one module per format.
//!
//! A sample without an answer is written where the format has a field for errors and left out elsewhere; its error never
//! becomes the text of an answer. Files are a function of the run: a second export writes the same bytes.

mod atif;
mod conversation;
mod eee;
mod evaluation;
mod folder;
mod frames;
mod harness;
mod inspect;
mod lm_eval;
mod lmms_eval;
mod vlmevalkit;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use paravt_reports::{ReportError, Run};

use evaluation::Evaluation;
use folder::Folder;

pub use frames::FrameImages;

/// Why a run could not be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A file cannot be written.
    #[error("{path}: cannot write: {source}", path = .path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// A frame that was made for the export cannot be read.
    #[error("{path}: cannot read: {source}", path = .path.display())]
    Frame { path: PathBuf, source: std::io::Error },
    /// Two runs whose files have the same name.
    #[error("{path}: two of the runs would be written to this file; export them to two folders", path = .path.display())]
    Twice { path: PathBuf },
    /// The records of a run do not belong together.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A run without a sample in its score.
    #[error("{run}: no sample with an answer is recorded, and nothing to export; continue it with --resume")]
    Empty { run: String },
    /// The format files a model under its organisation.
    #[error(
        "{run}: {format} files a model under its organisation, and `{model}` names none; name it with --model ORG/NAME"
    )]
    NoOrganisation { run: String, format: &'static str, model: String },
}

/// A format of another harness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Logs of inspect_ai: one `.json` per run.
    Inspect,
    /// The same as `.eval`, a zip file with one member per sample, which viewers load one by one.
    InspectEval,
    /// Results and samples as lmms-eval writes them.
    LmmsEval,
    /// Results and samples as lm-evaluation-harness writes them.
    LmEval,
    /// Every Eval Ever, schema 0.3.0: aggregate and samples.
    Eee,
    /// Agent Trajectory Interchange Format, a file per sample.
    Atif,
    /// Predictions as the evaluation of VLMEvalKit's data sets reads them.
    VlmEvalKit,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 7] = [
        Self::Inspect,
        Self::InspectEval,
        Self::LmmsEval,
        Self::LmEval,
        Self::Eee,
        Self::Atif,
        Self::VlmEvalKit,
    ];

    /// Name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inspect => "inspect",
            Self::InspectEval => "inspect-eval",
            Self::LmmsEval => "lmms-eval",
            Self::LmEval => "lm-eval",
            Self::Eee => "eee",
            Self::Atif => "atif",
            Self::VlmEvalKit => "vlmevalkit",
        }
    }

    /// Whether messages hold images.
    pub const fn has_images(self) -> bool {
        matches!(self, Self::Inspect | Self::InspectEval)
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || {
            let all = Self::ALL.map(Self::as_str).join(", ");
            format!("unknown format `{text}`: use one of {all}")
        };
        Self::ALL.into_iter().find(|format| format.as_str() == text).ok_or_else(unknown)
    }
}

/// How runs are exported.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    pub format: Format,
    /// Name of the model in the files, e.g. `ORG/NAME` as on the hub, where it is not that of the run.
    pub model: Option<&'a str>,
    /// Frames for messages with images; without them an image is a text with its time.
    pub frames: Option<&'a FrameImages>,
}

/// What an export wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exported {
    /// Files, in the order of writing.
    pub files: Vec<PathBuf>,
    /// What the files lack, one line each: samples left out, texts that the other tool misreads.
    pub notes: Vec<String>,
}

/// Writes runs into a folder.
///
/// # Errors
/// A run has no answer, the format does not take it, or a file cannot be written.
pub fn export(runs: &[Run], options: Options<'_>, dir: &Path) -> Result<Exported, ExportError> {
    let evaluations = runs.iter().map(|run| Evaluation::of(run, options.model));
    let evaluations: Vec<Evaluation<'_>> = evaluations.collect::<Result<_, _>>()?;
    let mut folder = Folder::new(dir);
    match options.format {
        Format::Inspect => inspect::write(&evaluations, options.frames, inspect::Form::Json, &mut folder),
        Format::InspectEval => inspect::write(&evaluations, options.frames, inspect::Form::Eval, &mut folder),
        Format::LmmsEval => harness::write(&evaluations, &lmms_eval::LMMS_EVAL, &mut folder),
        Format::LmEval => harness::write(&evaluations, &lm_eval::LM_EVAL, &mut folder),
        Format::Eee => eee::write(&evaluations, &mut folder),
        Format::Atif => atif::write(&evaluations, &mut folder),
        Format::VlmEvalKit => vlmevalkit::write(&evaluations, &mut folder),
    }?;
    Ok(folder.exported)
}
