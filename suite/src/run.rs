//! A run directory: one split under one configuration.
//!
//! ```text
//! RUN/manifest.json   what was run: plan, protocol, data files, backend, host
//! RUN/journal.jsonl   one record per finished sample, append-only, completion order
//! RUN/protocol.json   the protocol's texts (shown in reports by hash)
//! RUN/summary.json    derived: can be rebuilt from the two above
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::backend::BackendInfo;
use crate::profile::{Profile, Switches};
use crate::protocol::{PromptMode, Source};
use crate::settings::{RequestSettings, ToolDialect};
use crate::task::TaskSpec;

/// Version of the run directory's format.
pub const RUN_VERSION: u32 = 1;

/// How samples are put to the model. Two runs are comparable where this and the data agree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunPlan {
    /// Profile.
    pub profile: Profile,
    /// The switches that the profile set.
    pub switches: Switches,
    /// Prompt mode.
    pub mode: PromptMode,
    /// How the overview travels.
    pub channel: Channel,
    /// Overview frames on the image channel.
    pub nframes: usize,
    /// Tool turns before the forced answer (agentic modes).
    pub max_turns: usize,
    /// Most calls that are run per turn; 0 is no cap.
    pub max_parallel: usize,
    /// What a crop returns.
    pub crop: CropMode,
    /// Token limit of a turn.
    pub max_tokens: u32,
    /// Sampling temperature; 0 is greedy.
    pub temperature: f64,
    /// Seed sent to the backend, if any.
    pub seed: Option<u64>,
    /// How tool calls travel.
    #[serde(default)]
    pub dialect: ToolDialect,
    /// Sampling and server settings of every request.
    #[serde(default)]
    pub request: RequestSettings,
}

/// How the overview of a video travels to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// Frames sampled here, sent as JPEG images.
    Image,
    /// The file by reference; the server samples.
    Video,
}

/// What a crop returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CropMode {
    /// Raw frames (the released driver).
    Frames,
    /// The text summary of a sub-agent that shares the model's weights (the paper's architecture).
    Subagent,
}

/// What a run directory is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`RUN_VERSION`].
    pub version: u32,
    /// Version and commit of the binary.
    pub binary: String,
    /// The command line, secrets removed.
    pub command: Vec<String>,
    /// The split.
    pub task: TaskSpec,
    /// How samples are put to the model.
    pub plan: RunPlan,
    /// SHA-256 over the protocol's texts.
    pub protocol_hash: String,
    /// Name of the protocol.
    pub protocol: String,
    /// Where the protocol's texts come from.
    pub protocol_source: Source,
    /// Data files by name, with SHA-256.
    pub data: BTreeMap<String, String>,
    /// Revision of the hub snapshot, where the path shows one.
    pub data_revision: Option<String>,
    /// Who answered.
    pub backend: BackendInfo,
    /// What reports call the run, where its mode and model do not tell it from others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Row of the published table that the run is held against, when a recipe names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper_row: Option<String>,
    /// Which samples belong to this run.
    pub selection: Selection,
    /// Machine.
    pub host: Host,
    /// Unix time of the first start, seconds.
    pub started_at: f64,
    /// Unix time at which the last expected sample was finished.
    pub ended_at: Option<f64>,
}

impl Manifest {
    /// What to call the run beside others of its split.
    pub fn called(&self) -> String {
        self.label.clone().unwrap_or_else(|| format!("{} · {}", self.plan.mode, self.backend.model))
    }

    /// What keeps `wanted` from continuing this run, in words; empty when nothing does.
    ///
    /// Host, times, command line and the backend's details may differ: a run may move to another
    /// machine or endpoint. Everything that can change an answer may not.
    pub fn differences(&self, wanted: &Manifest) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |name: &str, ours: String, theirs: String| {
            if ours != theirs {
                found.push(format!("{name} was {ours}, now {theirs}"));
            }
        };
        compare("format", self.version.to_string(), wanted.version.to_string());
        compare("task", self.task.name.clone(), wanted.task.name.clone());
        compare("protocol", self.protocol_hash.clone(), wanted.protocol_hash.clone());
        compare("data", json(&self.data), json(&wanted.data));
        compare("backend", self.backend.name.clone(), wanted.backend.name.clone());
        compare("model", self.backend.model.clone(), wanted.backend.model.clone());
        compare("selection", json(&self.selection), json(&wanted.selection));
        let (ours, theirs) = (plan_fields(&self.plan), plan_fields(&wanted.plan));
        for (name, value) in &ours {
            let other = theirs.get(name).cloned().unwrap_or_default();
            compare(name, value.clone(), other);
        }
        found
    }
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn plan_fields(plan: &RunPlan) -> BTreeMap<String, String> {
    match serde_json::to_value(plan) {
        Ok(serde_json::Value::Object(fields)) => {
            fields.into_iter().map(|(k, v)| (k, v.to_string())).collect()
        }
        _ => BTreeMap::new(),
    }
}

/// Which samples belong to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// Rows of the split under this profile.
    pub split_rows: usize,
    /// Samples that this run must finish: all rows, less what limit, ids and shard leave out.
    pub expected: usize,
    /// `--limit`.
    pub limit: Option<usize>,
    /// `--ids`.
    pub ids: Option<Vec<String>>,
    /// `--shard i/n`, zero-based.
    pub shard: Option<(usize, usize)>,
    /// Of the expected samples, the open-ended ones, which are never part of the headline.
    #[serde(default)]
    pub open_ended: usize,
    /// Expected samples by breakdown tag and label, open-ended ones left out.
    #[serde(default)]
    pub groups: GroupSizes,
}

/// Samples by breakdown tag and label.
pub type GroupSizes = BTreeMap<String, BTreeMap<String, usize>>;

/// The machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Operating system and architecture.
    pub platform: String,
    /// Logical cores.
    pub cores: usize,
    /// GPUs that the model runs on, wherever they are; `None` where nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// FFmpeg version.
    pub ffmpeg: String,
}
