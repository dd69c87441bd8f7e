//! Errors of training.

use std::path::{Path, PathBuf};

/// Why training cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file is missing or wrong.
    #[error("{}: {message}", path.display())]
    File { path: PathBuf, message: String },
    /// A row of the data is wrong.
    #[error("{}, row {row}: {message}", path.display())]
    Row { path: PathBuf, row: usize, message: String },
    /// A setting that no training can have.
    #[error("`{field}` {message}")]
    Setting {
        /// Its name, e.g. `rollout.group_size`.
        field: String,
        /// What is wrong, e.g. `is 0; it must be at least 1`.
        message: String,
    },
    /// The data cannot be learned from.
    #[error("{0}")]
    Data(String),
    /// The rows of a step have no token to learn.
    #[error("no token of the step's rows is learned: the conversations have no answers, or empty ones")]
    NothingLearned,
    /// A figure of a step is NaN or infinite.
    #[error("step {step}: {name} is {value}; lower the learning rate or check the data")]
    Diverged {
        step: usize,
        /// The figure, e.g. `loss`.
        name: String,
        value: f64,
    },
    /// A trained weight is NaN or infinite.
    #[error("weight `{0}` is NaN or infinite; lower the learning rate or check the data")]
    DivergedWeight(String),
    /// The agent could not finish a rollout.
    #[error("rollout of {sample}: {message}")]
    Rollout { sample: String, message: String },
    /// A protocol names a reference implementation that is not here.
    #[error(transparent)]
    Protocol(#[from] paravt_agents::ReferenceError),
    /// Rewards or log-probabilities that give no advantages.
    #[error(transparent)]
    Advantages(#[from] crate::objective::Error),
    /// Too few rollouts survive the filters of a strategy.
    #[error(transparent)]
    TooFewRollouts(#[from] crate::objective::strategy::Short),
    /// The state of the optimiser in a checkpoint does not fit the weights.
    #[error("the optimiser's state {0}")]
    OptimizerState(String),
    /// The tokenizer fails, or is not that of a chat model.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// Threads cannot be started.
    #[error("cannot start threads: {0}")]
    Threads(String),
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
