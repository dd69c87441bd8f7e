//! From typed choices to a finished run directory; used by `run` and by recipes.

mod command_line;
mod dry;
mod manifest;
mod progress;
mod select;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use paravt_suite::agent::Agent;
use paravt_suite::backend::Backend;
use paravt_suite::frames::CachedFrames;
use paravt_suite::journal::{self, Contents, Journal, JournalError, RunDir};
use paravt_suite::protocol::Protocol;
use paravt_suite::record::{Record, SampleErrorClass};
use paravt_suite::run::{Manifest, RunPlan};
use paravt_suite::runner::{self, Dispatch, Ended, Retry};
use paravt_suite::sample::Sample;
use paravt_suite::scoring::summary::{Summary, summarize};
use paravt_suite::task::{DataRoot, Task};
use tokio::sync::watch;

use crate::exit::Exit;
pub use select::Select;
use select::Selected;

/// One split to run.
pub struct Launch<'a> {
    /// The split.
    pub task: &'a dyn Task,
    /// Its run directory.
    pub dir: PathBuf,
    /// How samples are put to the model.
    pub plan: RunPlan,
    /// The texts.
    pub protocol: Arc<Protocol>,
    /// What reports call the run.
    pub label: Option<String>,
    /// Row of the published table that the run is compared with, if any.
    pub paper_row: Option<String>,
}

/// What is the same for all splits of one command.
pub struct Common<'a> {
    /// Where data lies.
    pub root: &'a DataRoot,
    /// Which samples.
    pub select: &'a Select,
    /// GPUs that the model runs on, where that is known.
    pub gpus: Option<u32>,
    /// Samples in flight.
    pub concurrency: usize,
    /// Continue what is there.
    pub resume: bool,
    /// When resuming, redo failed samples of these classes instead of the retryable ones.
    pub retry: Option<Vec<SampleErrorClass>>,
    /// Failed samples do not make the command fail.
    pub allow_partial: bool,
    /// Turns true on Ctrl-C.
    pub stop: watch::Receiver<bool>,
    /// Frames, shared by all splits.
    pub frames: Arc<CachedFrames>,
}

/// Prints what would be sent.
pub fn dry_run(launch: &Launch<'_>, common: &Common<'_>) -> anyhow::Result<()> {
    let samples = select::samples(launch, common)?.samples;
    dry::print(launch, &samples)
}

/// A split that is ready to run: data read, directory locked, nothing written and no model loaded yet.
pub struct Prepared<'a> {
    launch: &'a Launch<'a>,
    selected: Selected,
    wanted: Manifest,
    dir: RunDir,
    stored: Option<(Manifest, Contents)>,
    retry: Retry,
}

/// Does everything that needs no model: reads the data, takes the directory, and, when resuming, checks
/// that the run there is this one.
///
/// # Errors
/// Data, directory or run that cannot be used.
pub fn prepare<'a>(launch: &'a Launch<'a>, common: &Common<'_>) -> anyhow::Result<Prepared<'a>> {
    let selected = select::samples(launch, common)?;
    let mut wanted = manifest::build(launch, &selected, common)?;
    let dir = RunDir::lock(&launch.dir)?;
    let mut retry = Retry::default();
    if let Some(classes) = &common.retry {
        retry.classes = classes.iter().copied().collect();
    }
    let mut stored = None;
    if dir.has_run() {
        if !common.resume {
            return Err(JournalError::Exists { dir: launch.dir.clone() }.into());
        }
        let (manifest, contents) = dir.stored()?;
        wanted.backend.clone_from(&manifest.backend);
        journal::same_run(&launch.dir, &manifest, &wanted)?;
        retry.changed_videos = changed_videos(&launch.dir, &manifest, &wanted, &contents.records)?;
        stored = Some((manifest, contents));
    }
    Ok(Prepared { launch, selected, wanted, dir, stored, retry })
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
    let (Some(before), Some(now)) = (&stored.inputs, &wanted.inputs) else { return Ok(BTreeSet::new()) };
    let mut changed = BTreeSet::new();
    for (name, bytes) in &now.videos {
        if before.replaced.contains_key(name) {
            changed.insert(PathBuf::from(name));
        }
        let Some(then) = before.bytes(name).filter(|then| then != bytes) else { continue };
        let name = Path::new(name);
        let seen = |record: &&Record| {
            record.sample.video == name && record.error.is_none() && record.transcript.frame_loss.is_none()
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

/// Runs one split to its summary. The second value says why it ended; where that is the server or the
/// disk, the next split would fare no better.
///
/// # Errors
/// The run in the directory has another backend; files that cannot be read or written.
pub async fn run(
    prepared: Prepared<'_>,
    common: &Common<'_>,
    backend: Arc<dyn Backend>,
) -> anyhow::Result<(Exit, Ended)> {
    let Prepared { launch, selected, mut wanted, dir, stored, retry } = prepared;
    wanted.backend = manifest::described(backend.describe());
    let (journal, mut manifest, records) = match stored {
        Some((manifest, contents)) => resume(launch, dir, manifest, contents, &wanted)?,
        None => (dir.create(&wanted)?, wanted, Vec::new()),
    };
    let protocol = launch.dir.join(journal::PROTOCOL);
    if !protocol.exists() {
        journal::write_atomic(&protocol, &journal::to_pretty_json(&*launch.protocol))?;
    }
    let samples = runner::pending(&selected.samples, &records, &retry);
    let agent = Arc::new(Agent {
        backend,
        protocol: Arc::clone(&launch.protocol),
        protocol_hash: manifest.protocol_hash.clone(),
        reference: paravt_upstream::reference(&launch.protocol)?,
        plan: launch.plan.clone(),
        frames: Arc::clone(&common.frames) as Arc<_>,
    });
    let observer =
        progress::Progress::start(&manifest.task.name, selected.samples.len(), &records, samples.len());
    let dispatch = Dispatch { concurrency: common.concurrency, videos: selected.videos.clone() };
    let run = runner::run(agent, samples, dispatch, journal, Box::new(observer), common.stop.clone());
    let (ended, journal) = match run.await {
        Ok(ended) => ended,
        // The journal is as it was before the write that failed: the run is incomplete, not lost.
        Err(error) => {
            eprintln!("error: {error}");
            return Ok((Exit::Incomplete, Ended::Interrupted));
        }
    };
    let exit = finish(&journal, &mut manifest, &selected.samples, ended, common.allow_partial)?;
    drop(journal);
    Ok((exit, ended))
}

/// Goes on with the run that is stored, now that the backend is known.
fn resume(
    launch: &Launch<'_>,
    dir: RunDir,
    mut manifest: Manifest,
    contents: Contents,
    wanted: &Manifest,
) -> anyhow::Result<(Journal, Manifest, Vec<Record>)> {
    let shown = launch.dir.display();
    journal::same_run(&launch.dir, &manifest, wanted)?;
    let journal = dir.resume(&contents)?;
    if contents.torn_bytes > 0 {
        eprintln!("{shown}: the last record was torn ({} bytes) and is redone", contents.torn_bytes);
    }
    if manifest.binary != wanted.binary {
        eprintln!(
            "warning: {shown} was begun by {} and goes on with {}: answers differ where the code does",
            manifest.binary, wanted.binary
        );
    }
    let before = manifest.clone();
    manifest.continue_with(wanted);
    if manifest != before {
        journal.write_manifest(&manifest)?;
    }
    Ok((journal, manifest, contents.records))
}

/// Writes the derived summary and says how the run stands.
fn finish(
    journal: &Journal,
    manifest: &mut Manifest,
    samples: &[Sample],
    ended: Ended,
    allow_partial: bool,
) -> anyhow::Result<Exit> {
    let records = journal::read(journal.dir())?.records;
    let before = manifest.clone();
    if records.len() == samples.len() && manifest.ended_at.is_none() {
        manifest.ended_at = Some(manifest::unix_seconds());
    }
    if let Some(inputs) = manifest.inputs.as_mut().filter(|_| ended == Ended::Finished) {
        inputs.settle();
    }
    if *manifest != before {
        journal.write_manifest(manifest)?;
    }
    let summary = summarize_run(manifest, &records)?;
    journal::write_summary(journal.dir(), &summary)?;
    eprintln!("{}", progress::closing_line(&manifest.task.name, &summary, records.len(), samples.len()));
    let failed = records.iter().filter(|record| runner::is_error(record)).count();
    Ok(match ended {
        Ended::Interrupted => {
            eprintln!("stopped; go on with --resume");
            Exit::Interrupted
        }
        Ended::BackendDown => {
            eprintln!(
                "the server failed {} samples in a row: stopped, calls in flight were dropped; mend the server and go on with --resume",
                runner::MAX_CONSECUTIVE_API_ERRORS
            );
            Exit::Incomplete
        }
        Ended::Unreadable => {
            let reason = records.iter().rev().find_map(|record| record.error.as_ref());
            eprintln!(
                "none of the first {} replies can be read: stopped; change the server or the flags as said here and start again in \
                 another folder, or go on with --resume\n  {}",
                runner::FIRST_REPLIES,
                reason.map_or("", |error| error.message.as_str())
            );
            Exit::Incomplete
        }
        Ended::Finished if failed > 0 && !allow_partial => {
            eprintln!(
                "{failed} of {} samples failed: the run is incomplete; --resume redoes those whose cause may be gone (failed model calls, missing videos, lost frames), with --retry-errors all of them",
                samples.len()
            );
            Exit::Incomplete
        }
        Ended::Finished => Exit::Ok,
    })
}

/// The summary of a run's records.
pub fn summarize_run(manifest: &Manifest, records: &[Record]) -> anyhow::Result<Summary> {
    summarize(&manifest.task, &manifest.plan.switches, &manifest.selection, records)
        .context("records in the journal are inconsistent")
}
