//! From typed choices to a finished run directory; used by `run` and by recipes.

mod dry;
mod manifest;
mod progress;
mod select;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use paravt_suite::agent::Agent;
use paravt_suite::backend::Backend;
use paravt_suite::frames::CachedFrames;
use paravt_suite::journal::{self, Journal};
use paravt_suite::protocol::Protocol;
use paravt_suite::record::Record;
use paravt_suite::run::{Manifest, RunPlan};
use paravt_suite::runner::{self, Dispatch, Ended};
use paravt_suite::sample::Sample;
use paravt_suite::scoring::summary::{Summary, summarize};
use paravt_suite::task::{DataRoot, Task};
use tokio::sync::watch;

use crate::exit::Exit;
pub use select::Select;

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
    /// Row of the published table that the run is held against, if any.
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
    dry::print(launch, &samples, &common.frames)
}

/// Runs one split to its summary.
pub async fn run(
    launch: &Launch<'_>,
    common: &Common<'_>,
    backend: Arc<dyn Backend>,
) -> anyhow::Result<Exit> {
    let selected = select::samples(launch, common)?;
    let wanted = manifest::build(launch, &selected, backend.describe(), common)?;
    let (journal, mut manifest, records) = open(&launch.dir, wanted, common.resume)?;
    if records.is_empty() {
        let path = launch.dir.join(journal::PROTOCOL);
        journal::write_atomic(&path, &journal::to_pretty_json(&*launch.protocol))?;
    }
    let samples = runner::pending(&selected.samples, &records);
    let agent = Arc::new(Agent {
        backend,
        protocol: Arc::clone(&launch.protocol),
        protocol_hash: manifest.protocol_hash.clone(),
        plan: launch.plan.clone(),
        frames: Arc::clone(&common.frames) as Arc<_>,
    });
    let observer =
        progress::Progress::start(&manifest.task.name, selected.samples.len(), &records, samples.len());
    let dispatch = Dispatch { concurrency: common.concurrency };
    let run = runner::run(agent, samples, dispatch, journal, Box::new(observer), common.stop.clone());
    let (ended, journal) = match run.await {
        Ok(ended) => ended,
        // The journal is as it was before the write that failed: the run is incomplete, not lost.
        Err(error) => {
            eprintln!("error: {error}");
            return Ok(Exit::Incomplete);
        }
    };
    let exit = finish(&journal, &mut manifest, &selected.samples, ended, common.allow_partial)?;
    drop(journal);
    Ok(exit)
}

fn open(dir: &Path, wanted: Manifest, resume: bool) -> anyhow::Result<(Journal, Manifest, Vec<Record>)> {
    if resume && dir.join(journal::MANIFEST).exists() {
        let (journal, manifest, contents) = Journal::resume(dir, &wanted)?;
        if contents.torn_bytes > 0 {
            eprintln!(
                "{}: the last record was torn ({} bytes) and is redone",
                dir.display(),
                contents.torn_bytes
            );
        }
        return Ok((journal, manifest, contents.records));
    }
    Ok((Journal::create(dir, &wanted)?, wanted, Vec::new()))
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
    if records.len() == samples.len() && manifest.ended_at.is_none() {
        manifest.ended_at = Some(manifest::unix_seconds());
        journal.write_manifest(manifest)?;
    }
    let summary = summarize_run(manifest, &records)?;
    journal::write_atomic(&journal.dir().join(journal::SUMMARY), &journal::to_pretty_json(&summary))?;
    eprintln!("{}", progress::closing_line(&manifest.task.name, &summary, records.len(), samples.len()));
    let failed = records.iter().filter(|record| runner::is_error(record)).count();
    Ok(match ended {
        Ended::Interrupted => {
            eprintln!("stopped; go on with --resume");
            Exit::Interrupted
        }
        Ended::BackendDown => {
            eprintln!(
                "{} model calls failed in a row: stopped; mend the server and go on with --resume",
                runner::MAX_CONSECUTIVE_API_ERRORS
            );
            Exit::Incomplete
        }
        Ended::Finished if failed > 0 && !allow_partial => {
            eprintln!(
                "{failed} of {} samples failed: the run is incomplete; --resume tries failed model calls again",
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
        .context("the journal does not add up")
}
