#![forbid(unsafe_code)]
//! The training stages of the release, run by its own programs and watched from here: cold-start SFT by lmms-engine, the
//! merge of its shards, reinforcement learning by AReaL with SGLang, and the choice of a checkpoint.
//!
//! This crate is the launcher. The programs come from a checkout of ParaVT at the pinned commit, the interpreters from
//! environments that were made before; two small Python entry files, embedded here, write every step as a line of JSON.
//! Each stage works in a folder of its own and resumes after a kill at any moment.
//!
//! ```
//! use paravt_engines::{rl, sft};
//!
//! // The defaults are those of the release: the checkpoint of SFT at step 500, then 55 steps of PARA-GRPO.
//! assert_eq!(sft::Settings::default().target(), 500);
//! assert!(rl::Settings::default() != rl::Settings::vanilla());
//! ```

mod command;
pub mod entry;
mod error;
mod files;
mod materialized;
pub mod merge;
mod paths;
pub mod pick;
pub mod record;
pub mod rl;
pub mod sft;
#[cfg(test)]
#[path = "../tests/standin/model.rs"]
mod standin;
mod steps;
mod watch;
mod weights;

use std::path::{Path, PathBuf};

use serde_json::Value;

pub use command::PrintedCommand;
pub use error::{Error, Result};
pub use paths::Paths;
pub use steps::{CURVES, Step};
pub use watch::Watch;
pub use weights::{SUMS, Weights, verify};

/// A training stage.
#[derive(Debug, Clone, PartialEq)]
pub enum Job {
    /// Cold-start SFT.
    Sft(sft::Job),
    /// One model folder from the shards of SFT.
    Merge(merge::Job),
    /// Reinforcement learning.
    Rl(Box<rl::Job>),
    /// The model folder of one checkpoint of reinforcement learning.
    Pick(pick::Job),
}

/// Folder of a stage, and the callbacks of its caller.
pub struct JobContext<'a> {
    pub folder: &'a Path,
    /// Whether the user wants it to stop.
    pub stopped: &'a dyn Fn() -> bool,
    /// Called with each step and note.
    pub observer: &'a mut dyn FnMut(Update<'_>),
}

/// Progress of a stage.
#[derive(Debug)]
pub enum Update<'a> {
    /// A finished step, and the number of steps in all.
    Step(&'a Step, usize),
    /// A line for the user.
    Note(&'a str),
}

/// How a stage, or a recipe, ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Everything is done.
    Complete,
    /// Samples are missing or failed.
    Incomplete,
    /// The server or the disk failed: further evaluations would fail as well.
    Down,
    /// Stopped by the user; running it again resumes it.
    Interrupted,
}

impl Outcome {
    /// In a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Incomplete | Self::Down => "incomplete",
            Self::Interrupted => "interrupted",
        }
    }
}

impl Job {
    /// Runs the stage; resumes where an earlier start stopped.
    ///
    /// # Errors
    /// A missing input, a program that fails or stalls, a result that does not pass its verification.
    pub fn run(&self, context: &mut JobContext<'_>) -> Result<Outcome> {
        match self {
            Self::Sft(job) => job.run(context),
            Self::Merge(job) => job.run(context),
            Self::Rl(job) => job.run(context),
            Self::Pick(job) => job.run(context),
        }
    }

    /// The same job with folders in the place of models that are named by their ids on the hub, as far as `find` knows
    /// them.
    pub fn with_models(&self, find: &mut dyn FnMut(&str) -> Option<PathBuf>) -> Self {
        let mut job = self.clone();
        let models: Vec<&mut PathBuf> = match &mut job {
            Self::Sft(job) => vec![&mut job.paths.base],
            Self::Merge(job) => vec![&mut job.paths.base],
            Self::Rl(job) => vec![&mut job.paths.base, &mut job.model],
            Self::Pick(job) => vec![&mut job.base],
        };
        for model in models.into_iter().filter(|model| !model.is_dir()) {
            if let Some(folder) = model.to_str().and_then(&mut *find) {
                *model = folder;
            }
        }
        job
    }

    /// What its result is kept under, beside the stages that it builds on: no path of the machine.
    pub fn settings(&self) -> Value {
        match self {
            Self::Sft(job) => serde_json::to_value(job.settings.key()),
            Self::Merge(_) => Ok(Value::Null),
            Self::Rl(job) => serde_json::to_value(job.settings.key()),
            Self::Pick(job) => Ok(job.step.into()),
        }
        .expect("settings have text keys and finite numbers, or are written as null")
    }

    /// One line about it.
    pub fn title(&self) -> String {
        match self {
            Self::Sft(job) => job.title(),
            Self::Merge(_) => {
                "one model folder from the shards of SFT, compared with the base model".to_owned()
            }
            Self::Rl(job) => job.title(),
            Self::Pick(job) => format!("the checkpoint of step {}", job.step),
        }
    }

    /// Its commands with their environments, for a folder that the stage would work in.
    pub fn print_commands(&self, folder: &Path) -> Vec<PrintedCommand> {
        match self {
            Self::Sft(job) => job.print_commands(folder),
            Self::Merge(job) => job.print_commands(folder),
            Self::Rl(job) => job.print_commands(folder),
            Self::Pick(_) => Vec::new(),
        }
    }

    /// What it does otherwise than the release.
    pub fn deviations(&self) -> Vec<String> {
        match self {
            Self::Sft(job) => job.settings.deviations(),
            Self::Merge(_) => merge::deviations(),
            Self::Rl(job) => job.settings.deviations(),
            Self::Pick(_) => Vec::new(),
        }
    }

    /// GPUs that it uses.
    pub fn gpus(&self) -> usize {
        match self {
            Self::Sft(job) => job.settings.processes,
            Self::Rl(job) => job.settings.trainers + 1,
            Self::Merge(_) | Self::Pick(_) => 0,
        }
    }

    /// Names of files and folders in the stage's folder that are no part of its result.
    pub fn scratch() -> &'static [&'static str] {
        &["scratch"]
    }
}
