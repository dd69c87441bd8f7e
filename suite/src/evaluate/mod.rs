//! The front door: evaluates one split of one benchmark with one model, from published rows to a
//! summary.
//!
//! [`evaluate`] does all of it. A caller that runs several splits on a model that is slow to load takes
//! the two steps apart: [`prepare`] does everything that needs no model (data, selection, directory,
//! resume check) for all of them, [`Prepared::run`] the rest. [`forecast()`] counts calls and tokens and
//! sends nothing, [`merge()`] joins the shards of one run. Nothing here prints: progress and notices reach
//! an [`Observer`].
//!
//! ```no_run
//! # async fn example(
//! #     task: &dyn paravt_suite::task::Task,
//! #     protocol: paravt_suite::agent::Bound,
//! #     backend: std::sync::Arc<dyn paravt_suite::backend::Backend>,
//! # ) -> Result<(), paravt_suite::evaluate::RunError> {
//! use std::sync::Arc;
//!
//! use paravt_suite::evaluate::{Evaluation, RunConfig, Workspace, evaluate};
//! use paravt_suite::data::DataRoot;
//!
//! let config = RunConfig { nframes: Some(32), limit: Some(100), ..RunConfig::default() };
//! let run = Evaluation::new(task, config, protocol, "runs/mlvu");
//! let workspace = Workspace::new(DataRoot::new("/data/huggingface"));
//! let outcome = evaluate(&run, &workspace, backend, Arc::new(())).await?;
//! println!("{:.1} %", 100.0 * outcome.summary.headline().value);
//! # Ok(())
//! # }
//! ```

mod config;
mod error;
mod forecast;
mod manifest;
mod merge;
mod of_agent;
mod prepared;
mod select;
#[cfg(test)]
mod tests;
mod texts;
mod whole;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;

use crate::agent::{Bound, Reference};
use crate::backend::Backend;
use crate::code::CodeTool;
use crate::data::DataRoot;
use crate::frames::{CachedFrames, FrameSource};
use crate::journal;
use crate::protocol::Protocol;
use crate::task::Task;

pub use crate::observer::{Event, Observer};
pub use config::{ConfigError, RunConfig, Shard};
pub use error::RunError;
pub use forecast::{Forecast, Range, forecast};
pub use merge::{MergeError, Merged, merge};
pub use prepared::{Prepared, RunOutcome, prepare};
pub use texts::{check_medium, check_texts};
pub use whole::WholeTime;

/// One split to evaluate.
pub struct Evaluation<'a> {
    pub task: &'a dyn Task,
    pub config: RunConfig,
    /// The texts around a sample.
    pub protocol: Arc<Protocol>,
    /// The release that the protocol belongs to: how tool calls are written, how a reply is scored.
    pub reference: Reference,
    /// The run directory; made where it does not exist.
    pub dir: PathBuf,
}

impl<'a> Evaluation<'a> {
    /// One split under a configuration and a protocol, written to `dir`.
    pub fn new(task: &'a dyn Task, config: RunConfig, bound: Bound, dir: impl Into<PathBuf>) -> Self {
        let Bound { protocol, reference } = bound;
        Self { task, config, protocol, reference, dir: dir.into() }
    }

    /// The configuration with what it leaves open: the token limit of the split, and the profile of the run that it
    /// continues, which may have begun under another default.
    fn effective_config(&self) -> RunConfig {
        let mut config = self.config.clone();
        if let Some(agent_loop) = &self.protocol.agent {
            let of_split = agent_loop.harness.max_tokens.get(&self.task.spec().name).copied();
            config.max_tokens = config.max_tokens.or(of_split);
        }
        if config.profile.is_some() || !config.resume {
            return config;
        }
        // Why a manifest cannot be read is said where the run is continued.
        let stored = journal::read_manifest(&self.dir).ok().map(|manifest| manifest.plan.profile());
        RunConfig { profile: stored, ..config }
    }
}

/// Resources of this machine and process for evaluations. None of it changes an answer.
pub struct Workspace {
    /// Folders of the published files.
    pub data: DataRoot,
    /// Frames of the videos; splits that share a workspace share its cache.
    pub frames: Arc<dyn FrameSource>,
    /// Runs code of the model; needed by protocols that have a tool for it.
    pub code: Option<Arc<dyn CodeTool>>,
    /// True ends runs: samples in flight are finished, no other is begun.
    pub stop: watch::Receiver<bool>,
    /// GPUs that the model runs on, for the GPU hours of reports; `None` where that is not known.
    pub gpus: Option<u32>,
    /// Version and commit of the program, for the manifest.
    pub binary: String,
    /// Command line of the program without secrets and paths, for the manifest.
    pub command: Vec<String>,
}

impl Workspace {
    /// A workspace of this library alone: nothing stops its runs.
    pub fn new(data: DataRoot) -> Self {
        Self {
            data,
            frames: Arc::new(CachedFrames::default()),
            code: None,
            stop: watch::channel(false).1,
            gpus: None,
            binary: concat!("paravt-suite ", env!("CARGO_PKG_VERSION")).to_owned(),
            command: Vec::new(),
        }
    }
}

/// Evaluates one split: [`prepare`], then [`Prepared::run`].
///
/// # Errors
/// Settings, data or directory that cannot be used, a backend that refuses the settings, a journal that
/// cannot be written. A model call or a video that fails is a failed sample, not an error of the run.
pub async fn evaluate(
    run: &Evaluation<'_>,
    workspace: &Workspace,
    backend: Arc<dyn Backend>,
    observer: Arc<dyn Observer>,
) -> Result<RunOutcome, RunError> {
    prepare(run, workspace)?.run(backend, observer).await
}
