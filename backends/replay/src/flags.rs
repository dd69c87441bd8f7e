//! Flags of the backend `replay`.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::{ArgMatches, FromArgMatches as _};
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use paravt_backend::{Factory, FlagSets, Job, Kind};
use paravt_suite::backend::Backend;

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
        let run = Some(from.join(task)).filter(|run| run.is_dir()).unwrap_or_else(|| from.clone());
        Ok(Arc::new(Replay::open(&run)?))
    }
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
