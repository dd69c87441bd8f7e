//! A baseline: what a run measured, sample by sample, and the rule that later runs are held to.

use std::path::{Path, PathBuf};

use paravt_suite::record::Record;
use paravt_suite::run::Manifest;
use serde::{Deserialize, Serialize};

use super::benches::Estimate;
use crate::runs::Run;
use crate::training::Training;

/// Version of the file.
const VERSION: u32 = 1;

/// Why a gate cannot judge.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// A file cannot be read or written.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not what it should be.
    #[error("{path}: {message}", path = .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
}

/// What counts as a regression.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// Points that a score may drop.
    pub drop_points: f64,
    /// Ratio of seconds that is still no slowdown; `None` does not look at speed.
    pub slower: Option<f64>,
    /// Errors that a run may have beyond the baseline's.
    pub more_errors: usize,
}

impl Default for Rule {
    fn default() -> Self {
        Self { drop_points: 1.0, slower: Some(1.5), more_errors: 0 }
    }
}

/// The file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    version: u32,
    /// The rule.
    pub rule: Rule,
    /// One entry per split.
    pub splits: Vec<Split>,
    /// Criterion's estimates.
    #[serde(default)]
    pub benches: Vec<Estimate>,
}

/// One split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// What was run; without the command line, whose paths are the machine's business.
    pub manifest: Manifest,
    /// Samples with an error.
    pub errors: usize,
    /// Every sample with what the checks need: the transcript is left out.
    pub records: Vec<Record>,
}

impl Baseline {
    /// The baseline that runs make.
    pub fn of(runs: &[Run], rule: Rule, benches: Vec<Estimate>) -> Self {
        let splits = runs.iter().map(Split::of).collect();
        Self { version: VERSION, rule, splits, benches }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// It is not there, of another version, or damaged.
    pub fn read(path: &Path) -> Result<Self, GateError> {
        let bytes = std::fs::read(path).map_err(|source| GateError::Io { path: path.to_owned(), source })?;
        let damaged = |message: String| GateError::Damaged { path: path.to_owned(), message };
        let baseline: Self = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if baseline.version != VERSION {
            return Err(damaged(format!("version {}, this build reads {VERSION}", baseline.version)));
        }
        Ok(baseline)
    }

    /// Writes the file, one sample a line, so that a change of it can be read.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), GateError> {
        // Plain structs with string keys: serialising them cannot fail.
        let text = serde_json::to_string(self).unwrap_or_default();
        let text = text.replace("{\"version\":1,\"profile\"", "\n{\"version\":1,\"profile\"") + "\n";
        std::fs::write(path, text).map_err(|source| GateError::Io { path: path.to_owned(), source })
    }
}

impl Split {
    fn of(run: &Run) -> Self {
        let mut manifest = run.manifest.clone();
        manifest.command = Vec::new();
        manifest.backend.details.clear();
        let bare = |record: &Record| {
            let mut record = record.clone();
            record.transcript = paravt_suite::record::Transcript::default();
            record.sample.question = paravt_suite::sample::Question::default();
            record.sample.tags.clear();
            record.sample.video = record.sample.video.file_name().map(PathBuf::from).unwrap_or_default();
            record.measured.call_seconds.clear();
            record.measured.call_retries.clear();
            record
        };
        Self {
            manifest,
            errors: run.records.iter().filter(|record| record.error.is_some()).count(),
            records: run.records.iter().map(bare).collect(),
        }
    }

    /// As a run, for pairing.
    pub(super) fn run(&self) -> Run {
        Run {
            path: PathBuf::new(),
            manifest: self.manifest.clone(),
            records: self.records.clone(),
            torn_bytes: 0,
            training: Training::default(),
        }
    }

    /// What keeps a run from being held against this one.
    pub(super) fn differences(&self, run: &Manifest) -> Vec<String> {
        let mut ours = self.manifest.clone();
        // The same answers recorded and replayed are one measurement.
        ours.backend.name.clone_from(&run.backend.name);
        ours.differences(run)
    }

    /// Whether times can be compared.
    pub(super) fn same_machine(&self, run: &Manifest) -> bool {
        self.manifest.host == run.host && self.manifest.backend.name == run.backend.name
    }
}
