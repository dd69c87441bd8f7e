//! Code that a model writes over the video or the images of its sample, where the protocol has a tool for it
//! ([`CodeLoop`]).
//!
//! Running it, and reading a reply as its release does, is outside of this crate: a [`CodeTool`] begins an [`Episode`] for
//! each sample. Both block, and are called off the async threads.

use std::path::PathBuf;

use crate::message::Part;
use crate::protocol::{CodeLoop, FileInfo};
use crate::record::{EndReason, ToolOutcome};

/// Begins the episodes of a run.
pub trait CodeTool: Send + Sync {
    /// Starts the interpreter of an episode over a video or images, and does not wait until it is ready.
    fn begin(&self, code: &CodeLoop, files: &[PathBuf]) -> Result<Box<dyn Episode>, CodeError>;

    /// Versions of the interpreter and of the packages that answers depend on.
    fn versions(&self) -> &str;
}

/// One sample's interpreter, which keeps its variables over the turns. Dropping it ends it.
pub trait Episode: Send + Sync {
    /// What the first message has of the files.
    ///
    /// # Errors
    /// The interpreter cannot open a file, or cannot be started.
    fn open(&mut self) -> Result<FileInfo, CodeError>;

    /// Reads a reply, runs its code, and says what the model is answered with, or that the episode ends.
    ///
    /// # Errors
    /// The interpreter cannot be started again. What the code does is part of the step.
    fn step(&mut self, reply: &Reply<'_>) -> Result<Step, CodeError>;
}

/// A reply of the model.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    pub text: &'a str,
    /// Whether it ended at the limit of tokens.
    pub cut: bool,
    /// Tokens of the conversation before it and of the reply itself, where the server counts them.
    pub tokens: Option<(u64, u64)>,
}

/// Where a reply leads.
#[derive(Debug, Default)]
pub struct Step {
    /// The code of the reply, or null, and how it ended; absent for an answer.
    pub call: Option<(serde_json::Value, ToolOutcome)>,
    /// The next user turn; empty where the episode ends.
    pub observation: Vec<Part>,
    /// Why the episode ends, where it does.
    pub end: Option<EndReason>,
    /// Whether the context was full before the reply, which then does not count.
    pub discarded: bool,
    /// What the tool takes for the answer.
    pub answer: Option<String>,
    /// Tokens and tags of the chat format in the output that were made text.
    pub neutralised: usize,
    /// Whether a limit that the release does not have cut the output.
    pub limited: bool,
    /// Whether the interpreter was started again: the variables of earlier calls were lost.
    pub restarted: bool,
}

/// Why the interpreter does not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// It cannot open the video.
    #[error("the interpreter of the code tool cannot open it: {0}")]
    Video(String),
    /// It does not run.
    #[error("{0}")]
    Tool(String),
}
