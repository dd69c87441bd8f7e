//! Why a split cannot be evaluated.

use super::ConfigError;
use crate::data::DataError;
use crate::journal::JournalError;
use crate::probe::Probe;
use crate::protocol::render::RenderError;
use crate::summary::SummaryError;

/// Why a run cannot begin or continue.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration contradicts itself or the protocol.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The published files are not there or damaged.
    #[error(transparent)]
    Data(#[from] DataError),
    /// `ids` names a sample that the split does not have.
    #[error("--ids: {task} has no sample with the uid or id `{id}`")]
    UnknownId { task: String, id: String },
    /// The rows give no sample, or limit, ids and shard leave none.
    #[error("{task}: no sample is selected; {reason}")]
    NoSamples { task: String, reason: String },
    /// Two samples of the selection have one uid.
    #[error("{task}: two rows have the uid `{uid}`; the data file is damaged")]
    SameUid { task: String, uid: String },
    /// The probe does not know how to change a sample of the split.
    #[error("--probe {probe}: {task}: {message}")]
    Probe { probe: Probe, task: String, message: String },
    /// The protocol runs code of the model, without an interpreter for it.
    #[error(
        "protocol {protocol} runs Python that the model writes, in a jail: name an interpreter with decord, matplotlib, numpy \
         and pillow by --code-python PATH; `paravt-bench doctor --code-python PATH` checks it"
    )]
    NoCodeTool { protocol: String },
    /// The protocol has no text for a sample of the split.
    #[error(transparent)]
    Prompt(#[from] RenderError),
    /// The protocol asks about videos and the split about images, or the other way round.
    #[error("{0}")]
    Medium(String),
    /// The backend cannot honour the settings.
    #[error("{0}")]
    Refused(String),
    /// The run directory cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Records could not be written in the middle of a run; those before are safe, and `resume` continues.
    // No source: the message says all of it.
    #[error("{0}")]
    NotWritten(JournalError),
    /// The records do not belong to one run.
    #[error("the records in the journal do not belong together")]
    Summary(#[from] SummaryError),
}
