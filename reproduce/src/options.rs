//! Options of the command line: those that change a graph, and those for running it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use paravt_suite::frames::FrameSource;
use paravt_train::Compute;
use serde_json::Value;

use crate::servers::Engine;

/// Options for [`Recipe::graph`](crate::Recipe::graph).
#[derive(Debug, Clone, PartialEq)]
pub struct GraphOptions {
    /// Folder for everything that is made.
    pub out: PathBuf,
    /// Name of the folder of the stages' results below it.
    pub stages: String,
    /// Seeds of data and training.
    pub seeds: Vec<u64>,
    /// All comparisons of the recipe.
    pub full: bool,
    /// Flags that the answers of a served model depend on, such as the protocol.
    pub selection: Value,
    /// Of a recipe of several rows these, in this order; empty for all.
    pub rows: Vec<String>,
    /// Samples of each split that are asked at most; more continue what was made with fewer.
    pub limit: Option<usize>,
    /// Protocol in the place of the reference's, by its name or its file's.
    pub protocol: Option<String>,
    /// Flags that name a backend of the user; without them a served recipe starts servers itself.
    pub backend: Option<String>,
    /// Model in the place of the recipe's.
    pub model: Option<String>,
    /// GPUs as `CUDA_VISIBLE_DEVICES` names them.
    pub gpus: Vec<String>,
    /// Serve with the engine on PATH, and not with one of the release's environments.
    pub own_engine: bool,
    /// What serves the model, in the place of the recipe's engine and command.
    pub engine: Option<Engine>,
    /// Variables for the servers, beside the recipe's.
    pub environment: BTreeMap<String, String>,
    /// Reinforcement learning starts from the published SFT model.
    pub skip_sft: bool,
    /// Training continues without the rows whose media are missing.
    pub allow_missing: bool,
    /// Archives are deleted once they are unpacked.
    pub delete_archives: bool,
}

impl GraphOptions {
    /// The recipe without changes, with its results below a folder.
    pub fn new(out: impl Into<PathBuf>) -> Self {
        Self {
            out: out.into(),
            stages: "stages".to_owned(),
            seeds: vec![0],
            full: false,
            selection: Value::Null,
            rows: Vec::new(),
            limit: None,
            protocol: None,
            backend: None,
            model: None,
            gpus: Vec::new(),
            own_engine: false,
            engine: None,
            environment: BTreeMap::new(),
            skip_sft: false,
            allow_missing: false,
            delete_archives: false,
        }
    }
}

/// Which stages of a graph run, and with what.
pub struct Options {
    /// Build on results that another version of the code, another model or another engine made.
    pub any_code: bool,
    /// Do this stage again, and what builds on it (`--from`).
    pub from: Option<String>,
    /// Do these stages again, or the evaluations of these splits, and what builds on them (`--redo`).
    pub redo: Vec<String>,
    /// Do hours of work again without asking.
    pub yes: bool,
    /// Stop after this stage.
    pub until: Option<String>,
    /// Of the stages whose results are kept, run these alone; empty for all.
    pub only: Vec<String>,
    /// Frames of the videos that are trained on.
    pub frames: Arc<dyn FrameSource>,
    /// Where and in what to train.
    pub compute: Compute,
    /// The command, for who asks later how it was run; without secrets and paths.
    pub command: Vec<String>,
}
