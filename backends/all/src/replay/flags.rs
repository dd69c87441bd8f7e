//! Flags of the backend `replay`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use paravt_suite::journal::{MANIFEST, read_manifest};
use paravt_suite::plan::RunPlan;

use super::Replay;

/// Which recorded run answers.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Backend")]
pub struct ReplayFlags {
    /// Run directory, or folder of runs, whose answers `replay` returns [default: none; replay needs one].
    #[arg(long, value_name = "RUN", display_order = 30)]
    pub from: Option<PathBuf>,
}

impl ReplayFlags {
    /// The recorded run of a split.
    ///
    /// # Errors
    /// `--from` is not given or holds no run of the split.
    pub fn open(&self, task: &str) -> anyhow::Result<Replay> {
        Ok(Replay::open(&self.run_of(task)?)?)
    }

    /// The plan of the recorded run of a split.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn plan(&self, task: &str) -> anyhow::Result<RunPlan> {
        Ok(read_manifest(&self.run_of(task)?)?.plan)
    }

    fn run_of(&self, task: &str) -> anyhow::Result<PathBuf> {
        let from = self.from.as_ref().context("--backend replay needs --from RUN")?;
        let run = from.join(task);
        if run.is_dir() {
            return Ok(run);
        }
        let splits = splits(from);
        ensure!(
            splits.is_empty(),
            "--from {}: no run of {task} in this folder; it has runs of {}",
            from.display(),
            splits.join(", ")
        );
        Ok(from.clone())
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
