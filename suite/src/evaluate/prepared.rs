//! From an evaluation to a finished run directory, in two steps: without a model and with one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;

use super::manifest::{self, unix_seconds};
use super::select::{self, Selected};
use super::whole::{Times, WholeTime};
use super::{Evaluation, Event, Observer, RunError, Workspace, check_medium, check_texts};
use crate::agent::{Agent, Reference};
use crate::backend::{Backend, BackendInfo, Memory};
use crate::code::CodeTool;
use crate::frames::FrameSource;
use crate::journal::{self, Contents, Journal, JournalError, RunDir, Stored};
use crate::plan::RunPlan;
use crate::probe::ProbedFrames;
use crate::protocol::Protocol;
use crate::record::Record;
use crate::run::{Manifest, Selection};
use crate::runner::{self, Ended, Retry};
use crate::summary::{Summary, SummaryError, Summing, summarize};
use crate::text::to_pretty_json;

/// Outcome of a run.
#[derive(Debug, Clone)]
pub struct RunOutcome {
    pub ended: Ended,
    /// Summary of the records; also written to the run directory.
    pub summary: Summary,
    /// Records that the run must have: its samples, times their repetitions.
    pub expected: usize,
    pub records: usize,
    pub failed: usize,
    /// The failed sample with the highest row.
    pub last_failed: Option<Record>,
    /// After `--limit`: what the whole split would take.
    pub whole: Option<WholeTime>,
}

/// A split that is ready to run: data read, directory locked, nothing written and no model loaded.
pub struct Prepared {
    dir: RunDir,
    path: PathBuf,
    protocol: Arc<Protocol>,
    reference: Reference,
    selected: Selected,
    wanted: Manifest,
    stored: Option<(Manifest, Contents)>,
    retry: Retry,
    concurrency: usize,
    frames: Arc<dyn FrameSource>,
    code: Option<Arc<dyn CodeTool>>,
    stop: watch::Receiver<bool>,
}

/// Does everything that needs no model: reads the data, selects the samples, takes the directory, and,
/// when resuming, checks that the run there is this one.
///
/// # Errors
/// Settings, data, directory or run that cannot be used.
pub fn prepare(run: &Evaluation<'_>, workspace: &Workspace) -> Result<Prepared, RunError> {
    let plan = run.effective_config().plan(&run.protocol)?;
    let selected = select::samples(run.task, plan.profile(), &run.config, &workspace.data)?;
    check_medium(&run.protocol, &plan, (&run.task.spec().name, run.task.is_about_images()))?;
    check_texts(&run.protocol, &plan, &selected.samples)?;
    if run.protocol.code().is_some() && workspace.code.is_none() {
        return Err(RunError::NoCodeTool { protocol: run.protocol.name.clone() });
    }
    let mut wanted = manifest::build(run, plan, &selected, workspace)?;
    let dir = RunDir::lock(&run.dir)?;
    let mut retry = run.config.retry();
    let mut stored = None;
    if dir.has_run()? {
        if !run.config.resume {
            return Err(JournalError::NotResumed { dir: run.dir.clone() }.into());
        }
        let (manifest, contents) = dir.stored()?;
        wanted.backend.clone_from(&manifest.backend);
        journal::same_run(&run.dir, &manifest, &wanted)?;
        retry.changed_videos = changed_videos(&run.dir, &manifest, &wanted, &contents.records)?;
        stored = Some((manifest, contents));
    }
    Ok(Prepared {
        dir,
        path: run.dir.clone(),
        protocol: Arc::clone(&run.protocol),
        // A benchmark may have been published with a scorer of its own.
        reference: match (run.task.scorer(), &run.protocol.agent) {
            (Some(scorer), None) => Reference { scorer, ..run.reference },
            _ => run.reference,
        },
        selected,
        wanted,
        stored,
        retry,
        concurrency: run.config.concurrency(),
        frames: Arc::clone(&workspace.frames),
        code: workspace.code.clone().filter(|_| run.protocol.code().is_some()),
        stop: workspace.stop.clone(),
    })
}

impl Prepared {
    /// Name of the split.
    pub fn task(&self) -> &str {
        &self.wanted.task.name
    }

    /// The run directory.
    pub fn dir(&self) -> &Path {
        &self.path
    }

    /// What a user should know of data and settings before the run.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.selected.warning.clone().into_iter().chain(self.plan().warnings())
    }

    /// Settings of the run.
    pub fn plan(&self) -> &RunPlan {
        &self.wanted.plan
    }

    /// The texts around its samples.
    pub fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    /// The samples that are asked.
    pub fn selection(&self) -> &Selection {
        &self.wanted.selection
    }

    /// Files of the rows.
    pub fn files(&self) -> &[PathBuf] {
        &self.selected.files
    }

    /// Runs the samples that have no record yet, and writes the summary.
    ///
    /// # Errors
    /// A backend that refuses the plan or is not the one of the resumed run; files that cannot be read or
    /// written.
    pub async fn run(
        self,
        backend: Arc<dyn Backend>,
        observer: Arc<dyn Observer>,
    ) -> Result<RunOutcome, RunError> {
        backend.accepts(self.plan()).map_err(RunError::Refused)?;
        let Prepared { dir, path, protocol, selected, mut wanted, stored, retry, .. } = self;
        wanted.backend = manifest::described(backend.describe());
        let wanted_binary = wanted.binary.clone();
        let (journal, mut manifest, records) = match stored {
            Some((manifest, contents)) => resume(&path, dir, manifest, contents, &wanted, &*observer)?,
            None => (dir.create(&wanted)?, wanted, Vec::new()),
        };
        journal::write_file(&path.join(journal::PROTOCOL), &to_pretty_json(&*protocol))?;
        let plan = &manifest.plan;
        let jobs = runner::pending(&selected.samples, plan.repeat, &selected.videos, &records, &retry);
        let frames = match plan.probe {
            Some(probe) => Arc::new(ProbedFrames { source: self.frames, probe, nframes: plan.nframes }),
            None => self.frames,
        };
        let agent = Arc::new(Agent {
            backend: Arc::clone(&backend),
            protocol,
            protocol_hash: manifest.protocol_hash.clone(),
            reference: self.reference,
            plan: manifest.plan.clone(),
            frames,
            code: self.code,
            videos: selected.videos,
        });
        let expected = manifest.expected_records();
        tracing::info!(
            task = manifest.task.name,
            samples = expected,
            pending = jobs.len(),
            concurrency = self.concurrency,
            protocol = manifest.protocol,
            mode = %manifest.plan.mode,
            profile = %manifest.plan.profile(),
            backend = manifest.backend.name,
            binary = wanted_binary,
            "run started"
        );
        observer.observe(Event::Started {
            task: &manifest.task.name,
            total: expected,
            pending: jobs.len(),
            records: &records,
        });
        let answered_by = records.iter().find_map(Record::answered_by).map(str::to_owned);
        drop(records);
        let run = runner::run(agent, jobs, self.concurrency, journal, observer, answered_by, self.stop);
        // The journal is as it was before a write that failed: the run is incomplete, not lost.
        let (ended, journal) = run.await.map_err(RunError::NotWritten)?;
        finish(&journal, &mut manifest, self.concurrency, ended, backend.memory()).map_err(
            |error| match error {
                RunError::Journal(error @ (JournalError::Io { .. } | JournalError::Moved { .. })) => {
                    RunError::NotWritten(error)
                }
                error => error,
            },
        )
    }
}

/// Videos that are other files than when samples lost their frames to them.
///
/// # Errors
/// An answer was given to frames of one of them.
fn changed_videos(
    dir: &Path,
    stored: &Manifest,
    wanted: &Manifest,
    records: &[Record],
) -> Result<BTreeSet<PathBuf>, JournalError> {
    let (before, now) = (&stored.inputs, &wanted.inputs);
    let mut changed = BTreeSet::new();
    for (name, bytes) in &now.videos {
        if before.replaced.contains_key(name) {
            changed.insert(PathBuf::from(name));
        }
        let Some(then) = before.bytes(name).filter(|then| then != bytes) else { continue };
        let name = Path::new(name);
        let seen = |record: &&Record| {
            record.sample.media().iter().any(|file| file == name)
                && record.error.is_none()
                && record.transcript.frame_loss.is_none()
        };
        if let Some(record) = records.iter().find(seen) {
            let differences = format!(
                "video {} had {then} bytes when sample {} was answered, now {bytes}",
                name.display(),
                record.sample.uid
            );
            return Err(JournalError::Differs { dir: dir.to_owned(), differences });
        }
        changed.insert(name.to_owned());
    }
    Ok(changed)
}

/// Continues the stored run, now that the backend is known.
fn resume(
    path: &Path,
    dir: RunDir,
    mut manifest: Manifest,
    contents: Contents,
    wanted: &Manifest,
    observer: &dyn Observer,
) -> Result<(Journal, Manifest, Vec<Record>), RunError> {
    journal::same_run(path, &manifest, wanted)?;
    let journal = dir.resume(&manifest, &contents)?;
    tracing::info!(records = contents.records.len(), torn_bytes = contents.torn_bytes, "run resumed");
    if contents.torn_bytes > 0 {
        observer.observe(Event::TornRecord { dir: path, bytes: contents.torn_bytes });
    }
    if manifest.binary != wanted.binary {
        observer.observe(Event::OtherBinary { dir: path, first: &manifest.binary, now: &wanted.binary });
    }
    let before = manifest.clone();
    manifest.continue_with(wanted);
    if manifest.selection != before.selection {
        // The summary on disk may call the smaller selection complete.
        journal::write_summary(path, &summary_of(&manifest, &contents.records)?)?;
    }
    if manifest != before {
        journal.write_manifest(&manifest)?;
    }
    Ok((journal, manifest, contents.records))
}

/// Writes the derived summary.
fn finish(
    journal: &Journal,
    manifest: &mut Manifest,
    concurrency: usize,
    ended: Ended,
    memory: Option<Memory>,
) -> Result<RunOutcome, RunError> {
    journal.check_in_place()?;
    let selection = manifest.records_selected();
    let mut summing = Summing::new(&manifest.task, manifest.plan.switches(), &selection);
    let expected = manifest.expected_records();
    let (mut failed, mut last_failed, mut answered_by, mut times) = (0, None, None, Times::default());
    Stored::find(journal.dir())?.each(|records| {
        for record in records {
            summing.add(&record);
            times.add(&record);
            if answered_by.is_none() {
                answered_by = record.answered_by().map(str::to_owned);
            }
            failed += usize::from(runner::is_error(&record));
            if record.error.is_some() {
                last_failed = Some(record);
            }
        }
    })?;
    let summary = summing.finish();
    let records = summary.n_recorded;
    let before = manifest.clone();
    if records == expected && manifest.ended_at.is_none() {
        manifest.ended_at = Some(unix_seconds());
    }
    if let Some(model) = answered_by {
        manifest.backend.details.insert(BackendInfo::ANSWERED_BY.to_owned(), model);
    }
    if ended == Ended::Finished {
        manifest.inputs.accept_replacements();
    }
    manifest.memory = manifest.memory.into_iter().chain(memory).reduce(Memory::max);
    if *manifest != before {
        journal.write_manifest(manifest)?;
    }
    summary.within_expected()?;
    journal::write_summary(journal.dir(), &summary)?;
    tracing::info!(?ended, records, failed, score = summary.headline().value, "run ended");
    let is_part = ended == Ended::Finished && manifest.selection.limit.is_some();
    let answers = manifest.selection.split_rows * manifest.plan.repeat;
    let whole = times.whole(answers, concurrency).filter(|_| is_part);
    Ok(RunOutcome { ended, summary, expected, records, failed, last_failed, whole })
}

/// The summary of a run's records.
pub(super) fn summary_of(manifest: &Manifest, records: &[Record]) -> Result<Summary, SummaryError> {
    summarize(&manifest.task, manifest.plan.switches(), &manifest.records_selected(), records)
}
