//! Errors of the gate.

use std::path::PathBuf;

use crate::runs::ReportError;

/// Why a gate cannot judge, or cannot make a baseline.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// A file cannot be read or written.
    #[error("{path}: {source}{}", if .source.kind() == std::io::ErrorKind::NotFound { "; a baseline is made with --write" } else { "" }, path = .path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// A file is not what it should be.
    #[error("{path}: {message}", path = .path.display())]
    Damaged { path: PathBuf, message: String },
    /// The rule of a baseline makes no sense.
    #[error("{0}")]
    Rule(String),
    /// A run that cannot be a baseline.
    #[error("{run}: cannot be a baseline: {why}")]
    Unfit { run: String, why: String },
    /// The records of a run do not belong together.
    #[error(transparent)]
    Run(#[from] ReportError),
}
