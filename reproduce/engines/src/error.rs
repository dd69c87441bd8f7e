use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a training in another program cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{action} {path}", path = .path.display())]
    File { action: &'static str, path: PathBuf, source: std::io::Error },
    /// An input that does not exist.
    #[error("{what} is missing: {path}; {remedy}", path = .path.display())]
    Missing { what: &'static str, path: PathBuf, remedy: String },
    /// A setting of the recipe that cannot be used.
    #[error("[{section}] {message}")]
    Setting { section: &'static str, message: String },
    /// A program that could not be started.
    #[error(transparent)]
    Supervise(#[from] paravt_supervise::Error),
    /// A program failed, or was stopped because of what it did.
    #[error("{name}: {why}; last lines of {log}:\n{tail}", log = .log.display())]
    Failed { name: &'static str, why: String, log: PathBuf, tail: String },
    /// The weights of a model folder cannot be read.
    #[error(transparent)]
    Checkpoint(#[from] paravt_hub::checkpoint::Error),
    /// A model folder that does not pass its verification.
    #[error("{path}: {message}", path = .path.display())]
    Weights { path: PathBuf, message: String },
}

impl Error {
    pub(crate) fn file(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::File { action, path: path.to_owned(), source }
    }

    pub(crate) fn weights(path: &Path, message: impl Into<String>) -> Self {
        Self::Weights { path: path.to_owned(), message: message.into() }
    }

    /// Whether the machine lacks something, rather than that the recipe is wrong.
    pub fn is_precondition(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Supervise(_))
    }
}
