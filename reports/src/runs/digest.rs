//! A run counted up: none of its records is in memory for longer than it is counted.

use std::collections::HashSet;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use paravt_suite::journal::Stored;
use paravt_suite::record::Record;
use paravt_suite::run::Manifest;
use paravt_suite::summary::{Summary, Summing};

use super::{ReportError, Run, check, manifest};
use crate::frame::Frame;
use crate::rows::{Digest, Sums, samples};
use crate::settings::DataFacts;
use crate::training::Training;

/// Columns of the samples that comparisons need.
const COMPARED: [&str; 11] = [
    "sample",
    "video",
    "gold",
    "gold_text",
    "chosen",
    "score",
    "own_score",
    "counted",
    "prompt_tokens",
    "completion_tokens",
    "seconds",
];

/// What a report needs of a run once its records are gone.
#[derive(Debug)]
pub struct RunDigest {
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
    /// Position in the list of runs that the report is built from.
    pub position: usize,
    /// Its samples, for pairs with those of other runs.
    pub samples: Frame,
    /// Sums over its frames.
    pub digest: Arc<Digest>,
    /// Data and losses of the records.
    pub facts: DataFacts,
}

impl RunDigest {
    /// Reads a run directory and counts its records up, a part of them at a time.
    ///
    /// # Errors
    /// There is no run, it is damaged, or a record does not belong to it.
    pub fn read(path: PathBuf) -> Result<Self, ReportError> {
        let manifest = manifest(&path)?;
        let stored = Stored::find(&path)?;
        let torn_bytes = stored.torn_bytes;
        let counted = Self::of(&path, &manifest, |count| {
            stored.each(|records| {
                check::records(&path, &manifest, &records)?;
                count(&records);
                Ok::<_, ReportError>(())
            })
        })?;
        Ok(Self { torn_bytes, training: Training::read(&path)?, ..counted })
    }

    /// Counts up the records that `each` hands out, by row.
    fn of<E>(
        path: &Path,
        manifest: &Manifest,
        each: impl FnOnce(&mut dyn FnMut(&[Record])) -> Result<(), E>,
    ) -> Result<Self, E> {
        let (spec, switches, selection) =
            (&manifest.task, &manifest.plan.switches, manifest.records_selected());
        let (mut summing, mut sums) = (Summing::new(spec, switches, &selection), Sums::new(spec, switches));
        let (mut facts, mut videos) = (DataFacts::default(), HashSet::new());
        let mut frame = samples(switches, &[]).frame;
        each(&mut |records| {
            for record in records {
                summing.add(record);
                sums.add(record);
                facts.add(record, &mut videos);
            }
            frame.append(samples(switches, records).frame);
        })?;
        let frame = frame.in_one_piece();
        Ok(Self {
            path: path.to_owned(),
            manifest: manifest.clone(),
            summary: summing.finish(),
            torn_bytes: 0,
            training: Training::default(),
            position: 0,
            digest: Arc::new(Digest::of(&frame, sums, &selection)),
            samples: frame.select(&COMPARED),
            facts,
        })
    }

    /// Refuses more records than the run can have.
    ///
    /// # Errors
    /// As it says.
    pub(crate) fn check(&self) -> Result<(), ReportError> {
        let error = |source| ReportError::Summary { path: self.path.clone(), source };
        self.summary.within_expected().map_err(error)
    }
}

impl Run {
    /// The records counted up, whether they belong together or not.
    pub(crate) fn digest(&self) -> RunDigest {
        let Ok(counted) = RunDigest::of(&self.path, &self.manifest, |count| {
            count(&self.records);
            Ok::<_, Infallible>(())
        });
        RunDigest { torn_bytes: self.torn_bytes, training: self.training.clone(), ..counted }
    }
}
