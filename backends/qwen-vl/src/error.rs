//! Errors from a model folder to an answer.

use std::path::{Path, PathBuf};

/// Why a model cannot be loaded or a conversation not be answered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the model folder is missing or wrong.
    #[error("{}: {message}", path.display())]
    File { path: PathBuf, message: String },
    /// The weights' files or their index are missing or wrong.
    #[error(transparent)]
    Checkpoint(paravt_hub::checkpoint::Error),
    /// A weight is missing or has another shape than the configuration asks for.
    #[error("tensor `{name}` in {}: {message}", path.display())]
    Weight {
        name: String,
        /// The file, or the folder when no file has it.
        path: PathBuf,
        message: String,
    },
    /// The conversation cannot be made into a prompt.
    #[error("{0}")]
    Prompt(String),
    /// Prompt and answer do not fit the model's context.
    #[error("{prompt} prompt tokens and {new} new ones are more than the context of {context}")]
    ContextLength {
        prompt: usize,
        new: usize,
        /// Maximum number of positions of the model.
        context: usize,
    },
    /// The text alone is longer than any the context's tokens can stand for.
    #[error("a prompt of {bytes} bytes is more than the context of {context} tokens can hold")]
    TextLength {
        bytes: usize,
        /// Maximum number of positions of the model.
        context: usize,
    },
    /// The request does not fit into memory.
    #[error("{0}")]
    Memory(String),
    /// Tensor arithmetic failed; the message holds shapes.
    #[error("{0}")]
    Compute(String),
}

impl Error {
    /// An engine's own message about arithmetic that failed; the memory's where it says that there is none left.
    pub fn compute(message: String) -> Self {
        let lower = message.to_lowercase();
        let memory = ["out of memory", "out_of_memory"].iter().any(|words| lower.contains(words));
        if memory { Error::Memory(message) } else { Error::Compute(message) }
    }

    pub(crate) fn file(path: &Path, message: impl ToString) -> Self {
        Error::File { path: path.to_owned(), message: message.to_string() }
    }
}
