//! Finds and reads run directories.

mod check;
mod labels;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use paravt_suite::journal::{self, JournalError};
use paravt_suite::printable::printable_line;
use paravt_suite::record::Record;
use paravt_suite::run::Manifest;
use paravt_suite::summary::{Summary, SummaryError, summarize};
use rayon::prelude::*;

use crate::paper::PaperError;
use crate::rows::Rows;
use crate::settings::Facts;
use crate::training::{TRAINING, Training};

pub(crate) use check::check_record;
pub use labels::tell_apart;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A run directory cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// There is no run in a folder.
    #[error("{path}: {}", if .0.exists() { "no run in this folder or below it (a run directory has a manifest.json)" } else { "no such folder" }, path = .0.display())]
    NoRun(PathBuf),
    /// A file of a run directory is a pipe, a device or a folder.
    #[error("{path}: not a regular file; a run directory holds regular files only", path = .0.display())]
    NotAFile(PathBuf),
    /// A record holds what no run of this manifest can have written.
    #[error(
        "{path}: sample `{uid}`: {message}; the run cannot be reported: take the record out of \
         journal.jsonl and run the sample again with --resume",
        path = .path.display()
    )]
    Record {
        /// The run.
        path: PathBuf,
        /// The sample.
        uid: String,
        /// The fault.
        message: String,
    },
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
    #[error("A and B have no samples in common; compare runs of the same task")]
    NothingInCommon,
    /// Two runs of different profiles.
    #[error("{task}: A has profile {a}, B has {b}; compare runs of the same profile")]
    Profiles {
        /// Split.
        task: String,
        /// Profile of A.
        a: String,
        /// Profile of B.
        b: String,
    },
    /// Two runs of one split on one side of a comparison.
    #[error(
        "{side} has two runs of {task}, {} and {}: name one of them",
        .first.display(),
        .second.display()
    )]
    Ambiguous {
        /// Side of the comparison.
        side: &'static str,
        /// Split.
        task: String,
        /// One run.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// A table could not be filled.
    #[error("cannot make the tables of the report: {0}")]
    Tables(#[from] arrow_schema::ArrowError),
}

/// One run and its records.
#[derive(Debug)]
pub struct Run {
    /// The run directory.
    pub path: PathBuf,
    /// Manifest.
    pub manifest: Manifest,
    /// The last record of each sample, by row.
    pub records: Vec<Record>,
    /// Bytes of a torn last line that were left out.
    pub torn_bytes: u64,
    /// Training curves, where the run trained.
    pub training: Training,
}

/// A run counted up: what a report needs of it once its records are gone.
#[derive(Debug)]
pub struct Counted {
    /// The run directory.
    pub path: PathBuf,
    /// Manifest.
    pub manifest: Manifest,
    /// All numbers.
    pub summary: Summary,
    /// Bytes of a torn last line that were left out.
    pub torn_bytes: u64,
    /// Training curves.
    pub training: Training,
    /// Its rows.
    pub rows: Rows,
    /// Data and losses of the records.
    pub facts: Facts,
}

impl Run {
    /// All numbers of the run.
    ///
    /// # Errors
    /// The records do not belong together.
    pub fn summary(&self) -> Result<Summary, ReportError> {
        let manifest = &self.manifest;
        summarize(&manifest.task, &manifest.plan.switches, &manifest.selection, &self.records)
            .map_err(|source| ReportError::Summary { path: self.path.clone(), source })
    }

    /// Counts the records up.
    ///
    /// # Errors
    /// They do not belong together.
    pub fn count(&self) -> Result<Counted, ReportError> {
        let (task, switches) = (&self.manifest.task, &self.manifest.plan.switches);
        let summary = self.summary()?;
        Ok(Counted {
            path: self.path.clone(),
            manifest: self.manifest.clone(),
            summary,
            torn_bytes: self.torn_bytes,
            training: self.training.clone(),
            rows: Rows::of(&task.breakdowns, switches, &self.records),
            facts: Facts::of(&self.records),
        })
    }

    /// Reads a run directory.
    ///
    /// # Errors
    /// There is no run, it is damaged, or a record does not belong to it.
    pub fn read(path: PathBuf) -> Result<Self, ReportError> {
        for name in [journal::MANIFEST, journal::JOURNAL, TRAINING] {
            // Opening a named pipe would block until there is a writer.
            let file = path.join(name);
            if std::fs::metadata(&file).is_ok_and(|metadata| !metadata.is_file()) {
                return Err(ReportError::NotAFile(file));
            }
        }
        let mut manifest = journal::read_manifest(&path)?;
        for name in [&mut manifest.task.name, &mut manifest.task.title, &mut manifest.backend.model] {
            *name = printable_line(name).into_owned();
        }
        manifest.label = manifest.label.map(|label| printable_line(&label).into_owned());
        let contents = journal::read(&path)?;
        check::records(&path, &manifest, &contents.records)?;
        let training = Training::read(&path)?;
        Ok(Self { path, manifest, records: contents.records, torn_bytes: contents.torn_bytes, training })
    }
}

/// The run directories among these folders, or directly below them; one that is named twice counts
/// once.
///
/// # Errors
/// A folder without a run.
pub(crate) fn run_directories(paths: &[PathBuf]) -> Result<Vec<PathBuf>, ReportError> {
    let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
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
        found.retain(|path| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
        all.append(&mut found);
    }
    Ok(all)
}

/// The runs in these folders, or in the folders directly below them. Runs of one split that would be
/// called the same get their folders' names after their label.
///
/// # Errors
/// A folder without a run, or a damaged one.
pub fn find_runs(paths: &[PathBuf]) -> Result<Vec<Run>, ReportError> {
    let mut runs: Vec<Run> =
        run_directories(paths)?.into_par_iter().map(Run::read).collect::<Result<_, _>>()?;
    tell_apart(runs.iter_mut().map(|run| (run.path.clone(), &mut run.manifest)));
    Ok(runs)
}

fn is_run(path: &Path) -> bool {
    path.join(journal::MANIFEST).is_file()
}
