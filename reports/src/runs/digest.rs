//! A run counted up: none of its records is in memory for longer than it is counted.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use paravt_suite::journal::Stored;
use paravt_suite::record::Record;
use paravt_suite::run::{Manifest, Selection};
use paravt_suite::summary::{Summary, Summing};

use super::{ReportError, Run, check, manifest};
use crate::frame::Frame;
use crate::rows::{Digest, Sums, samples};
use crate::settings::DataFacts;
use crate::training::Training;

/// Columns of the samples that comparisons need.
const COMPARED: [&str; 11] = [
    "sample", "video", "gold", "gold_text", "chosen", "score", "own_score", "counted", "prompt_tokens",
    "completion_tokens", "seconds",
];

/// What a report needs of a run once its records are gone.
#[derive(Debug)]
pub struct RunDigest {
    pub path: PathBuf,
    pub manifest: Manifest,
    pub summary: Summary,
    /// Bytes of a torn last line that were left out.
    pub torn_bytes: u64,
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
        let (stored, training) = (Stored::find(&path)?, Training::read(&path)?);
        let selection = manifest.records_selected();
        let mut counting = Counting::new(&manifest, &selection);
        let prepare = |records: &[Record]| {
            check::records(&path, &manifest, records)?;
            Ok::<_, ReportError>(samples(manifest.plan.switches(), records).frame)
        };
        stored.each_prepared(prepare, |records, samples| counting.add(&records, samples))?;
        Ok(Self { torn_bytes: stored.torn_bytes, training, ..counting.finish(&path) })
    }

    /// Refuses more records than the run can have.
    pub(crate) fn check(&self) -> Result<(), ReportError> {
        let error = |source| ReportError::Summary { path: self.path.clone(), source };
        self.summary.within_expected().map_err(error)
    }
}

impl Run {
    /// The records counted up, whether they belong together or not.
    pub(crate) fn digest(&self) -> RunDigest {
        let selection = self.manifest.records_selected();
        let mut counting = Counting::new(&self.manifest, &selection);
        counting.add(&self.records, self.samples());
        let (torn_bytes, training) = (self.torn_bytes, self.training.clone());
        RunDigest { torn_bytes, training, ..counting.finish(&self.path) }
    }
}

/// A run that is being counted up.
struct Counting<'a> {
    manifest: &'a Manifest,
    selection: &'a Selection,
    summing: Summing<'a>,
    sums: Sums<'a>,
    facts: DataFacts,
    videos: HashSet<PathBuf>,
    samples: Frame,
}

impl<'a> Counting<'a> {
    fn new(manifest: &'a Manifest, selection: &'a Selection) -> Self {
        let (spec, switches) = (&manifest.task, manifest.plan.switches());
        Self {
            manifest,
            selection,
            summing: Summing::new(spec, switches, selection),
            sums: Sums::new(spec, switches),
            facts: DataFacts::default(),
            videos: HashSet::new(),
            samples: samples(switches, &[]).frame,
        }
    }

    /// Counts further records, by row; `samples` is their frame.
    fn add(&mut self, records: &[Record], samples: Frame) {
        for record in records {
            self.summing.add(record);
            self.sums.add(record);
            self.facts.add(record, &mut self.videos);
        }
        self.samples.append(samples);
    }

    fn finish(self, path: &Path) -> RunDigest {
        let samples = self.samples.in_one_piece();
        RunDigest {
            path: path.to_owned(),
            manifest: self.manifest.clone(),
            summary: self.summing.finish(),
            torn_bytes: 0,
            training: Training::default(),
            position: 0,
            digest: Arc::new(Digest::of(&samples, self.sums, self.selection)),
            samples: samples.select(&COMPARED),
            facts: self.facts,
        }
    }
}
