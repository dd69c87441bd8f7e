//! Flags of the backend `replay`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use clap::{ArgMatches, FromArgMatches as _};
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use paravt_backend::{Factory, FlagSets, Job, Kind};
use paravt_suite::backend::Backend;
use paravt_suite::journal::MANIFEST;

use crate::Replay;

/// Which recorded run answers.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Backend")]
pub struct ReplayFlags {
    /// Run directory, or folder of runs, whose answers `replay` returns [default: none; replay needs one].
    #[arg(long, value_name = "RUN", display_order = 30)]
    from: Option<PathBuf>,
}

impl ReplayFlags {
    fn open(&self, task: &str) -> anyhow::Result<Arc<dyn Backend>> {
        let from = self.from.as_ref().context("--backend replay needs --from RUN")?;
        let run = from.join(task);
        if run.is_dir() {
            return Ok(Arc::new(Replay::open(&run)?));
        }
        let splits = splits(from);
        ensure!(
            splits.is_empty(),
            "--from {}: no run of {task} in this folder; it has runs of {}",
            from.display(),
            splits.join(", ")
        );
        Ok(Arc::new(Replay::open(from)?))
    }
}

/// Names of the run directories in a folder of runs; none where it is a run itself or not there.
fn splits(folder: &Path) -> Vec<String> {
    let is_run = |path: &Path| path.join(MANIFEST).is_file();
    if is_run(folder) {
        return Vec::new();
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let runs = entries.filter(|entry| is_run(&entry.path()));
    let mut names: Vec<String> = runs.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

impl Kind for ReplayFlags {
    const NAME: &'static str = "replay";
    const ABOUT: &'static str = "Answers from a recorded run";

    fn flags(sets: FlagSets) -> FlagSets {
        sets.with::<Self>()
    }

    fn read(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Self::from_arg_matches(matches)
    }

    fn doctor() -> String {
        "needs a recorded run (--from)".to_owned()
    }
}

impl Factory for ReplayFlags {
    fn start<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, anyhow::Result<Arc<dyn Backend>>> {
        ready(self.open(job.task)).boxed()
    }

    fn gpus(&self) -> Option<u32> {
        Some(0)
    }
}
