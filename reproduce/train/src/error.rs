//! Errors of training.

use std::path::{Path, PathBuf};

/// Why training cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file is missing or wrong.
    #[error("{}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The fault.
        message: String,
    },
    /// A row of the data is wrong.
    #[error("{}, row {row}: {message}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// Counted from 0.
        row: usize,
        /// The fault.
        message: String,
    },
    /// A setting that no training can have.
    #[error("`{field}` {message}")]
    Setting {
        /// Its name, e.g. `rollout.group_size`.
        field: String,
        /// What is wrong, e.g. `is 0; it must be at least 1`.
        message: String,
    },
    /// Data and settings do not fit together.
    #[error("{0}")]
    Settings(String),
    /// The rows of a step have no token to learn.
    #[error("no token of the step's rows is learned: the conversations have no answers, or empty ones")]
    NothingLearned,
    /// A model file, a prompt or tensor arithmetic.
    #[error(transparent)]
    Model(#[from] paravt_qwen_vl::Error),
    /// Tensor arithmetic of the trainer.
    #[error("candle: {0}")]
    Compute(#[from] candle_core::Error),
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn file(path: &Path, message: impl ToString) -> Self {
        Self::File { path: path.to_owned(), message: message.to_string() }
    }
}
