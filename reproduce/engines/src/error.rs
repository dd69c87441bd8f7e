use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a training in another program cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder.
    #[error("{action} {path}", path = .path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// An input that does not exist.
    #[error("{what} is missing: {path}; {remedy}", path = .path.display())]
    Missing {
        /// What.
        what: &'static str,
        /// Where it was looked for.
        path: PathBuf,
        /// How it is made.
        remedy: String,
    },
    /// A setting of the recipe that cannot be used.
    #[error("[{section}] {message}")]
    Setting {
        /// Table of the recipe.
        section: &'static str,
        /// Which and why.
        message: String,
    },
    /// A program that could not be started.
    #[error(transparent)]
    Supervise(#[from] paravt_supervise::Error),
    /// A program failed, or was stopped because of what it did.
    #[error("{name}: {why}; last lines of {log}:\n{tail}", log = .log.display())]
    Failed {
        /// Which.
        name: &'static str,
        /// What was seen.
        why: String,
        /// File of its output.
        log: PathBuf,
        /// Its last lines.
        tail: String,
    },
    /// The weights of a model folder cannot be read.
    #[error(transparent)]
    Checkpoint(#[from] paravt_checkpoint::Error),
    /// A model folder that does not pass its verification.
    #[error("{path}: {message}", path = .path.display())]
    Weights {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
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
