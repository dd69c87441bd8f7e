//! Finds and reads run directories.

use std::path::{Path, PathBuf};

use paravt_suite::journal::{self, JournalError};
use paravt_suite::record::Record;
use paravt_suite::run::Manifest;
use paravt_suite::scoring::summary::SummaryError;

use crate::paper::PaperError;
use crate::training::Training;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A run directory cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// There is no run in a folder.
    #[error("{path}: there is no run here or in the folders below", path = .0.display())]
    NoRun(PathBuf),
    /// The records of a run do not belong together.
    #[error("{path}: {source}", path = .path.display())]
    Summary {
        /// The run.
        path: PathBuf,
        /// Why.
        source: SummaryError,
    },
    /// The published numbers.
    #[error(transparent)]
    Paper(#[from] PaperError),
    /// Two runs without a sample in common.
    #[error("the two have no split with a sample in common")]
    NothingInCommon,
    /// Two runs of different profiles.
    #[error("{task}: A is of profile {a}, B of {b}; profiles are never mixed")]
    Profiles {
        /// Split.
        task: String,
        /// Profile of A.
        a: String,
        /// Profile of B.
        b: String,
    },
    /// The records could not be counted up.
    #[error("the records could not be counted up: {0}")]
    Frames(#[from] polars::prelude::PolarsError),
}

/// One run and its records.
#[derive(Debug)]
pub struct Run {
    /// The run directory.
    pub path: PathBuf,
    /// What was run.
    pub manifest: Manifest,
    /// The last record of each sample, by row.
    pub records: Vec<Record>,
    /// Bytes of a torn last line that were left out.
    pub torn_bytes: u64,
    /// Training curves, where the run trained.
    pub training: Training,
}

impl Run {
    /// Reads a run directory.
    ///
    /// # Errors
    /// There is no run, or it is damaged.
    pub fn read(path: PathBuf) -> Result<Self, ReportError> {
        let manifest = journal::read_manifest(&path)?;
        let contents = journal::read(&path)?;
        let training = Training::read(&path)?;
        Ok(Self { path, manifest, records: contents.records, torn_bytes: contents.torn_bytes, training })
    }
}

/// The runs in these folders, or in the folders directly below them.
///
/// # Errors
/// A folder without a run, or a damaged one.
pub fn find_runs(paths: &[PathBuf]) -> Result<Vec<Run>, ReportError> {
    let mut runs = Vec::new();
    for path in paths {
        let mut found: Vec<PathBuf> = Vec::new();
        if is_run(path) {
            found.push(path.clone());
        } else if let Ok(entries) = std::fs::read_dir(path) {
            found.extend(entries.flatten().map(|entry| entry.path()).filter(|path| is_run(path)));
            found.sort();
        }
        if found.is_empty() {
            return Err(ReportError::NoRun(path.clone()));
        }
        for path in found {
            runs.push(Run::read(path)?);
        }
    }
    Ok(runs)
}

fn is_run(path: &Path) -> bool {
    path.join(journal::MANIFEST).is_file()
}
