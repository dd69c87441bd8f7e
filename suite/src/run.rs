//! A run directory: one split under one configuration.
//!
//! ```text
//! RUN/manifest.json   what was run: plan, protocol, data files, backend, host
//! RUN/journal.jsonl   one record per finished sample, append-only, completion order
//! RUN/protocol.json   the protocol's texts (shown in reports by hash)
//! RUN/summary.json    derived: can be rebuilt from the two above
//! ```

mod difference;
mod selection;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::backend::{BackendInfo, Memory};
use crate::frames::JPEG_QUALITY;
use crate::media::VideoRequest;
use crate::plan::RunPlan;
use crate::protocol::{Fidelity, Source, Tool};
use crate::task::{Doubtful, TaskSpec};

pub use difference::Difference;
pub use selection::{GroupSizes, Narrowing, Selection, Sizes};

/// Version of the format of manifest and summary; see [`format`](crate::format) for when it rises.
pub const RUN_VERSION: u32 = 1;

/// The manifest of a run directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`RUN_VERSION`].
    pub version: u32,
    /// What its records are known by, made up when the run begins; absent of runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Version and commit of the binary.
    pub binary: String,
    /// The command line from its parsed flags, of the start that made the selection; a value that may hold a path
    /// or a secret is `…`.
    pub command: Vec<String>,
    pub task: TaskSpec,
    pub plan: RunPlan,
    /// SHA-256 over the protocol's texts.
    pub protocol_hash: String,
    pub protocol: String,
    /// Origin of the protocol's texts.
    pub protocol_source: Source,
    /// How near an agent's own loop is to what its authors run; absent of other protocols.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fidelity: Option<Fidelity>,
    /// Whether the model has a tool in this mode.
    pub offers_tool: bool,
    /// Quirks of the benchmark that the profile keeps, by their names in its `benchmark.toml`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quirks: Vec<String>,
    /// Data files by name, with SHA-256.
    pub data: BTreeMap<String, String>,
    /// Revision of the hub snapshot, where the path shows one.
    pub data_revision: Option<String>,
    /// Inputs of the samples beside the data files.
    pub inputs: Inputs,
    /// Constants of the code that can change an answer and are in no plan; see [`constants`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub constants: BTreeMap<String, String>,
    pub backend: BackendInfo,
    /// Memory of a model in the process of the run, until the run's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Harness whose files the answers were read from, e.g. `lmms-eval`; the texts that it sent are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<String>,
    /// Name of the run in reports, where mode and model are not enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Items that others doubted when the run was begun.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubtful: Vec<Doubtful>,
    /// Row of the published table that the run is compared with, when a recipe names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper_row: Option<String>,
    /// Which samples belong to this run.
    pub selection: Selection,
    pub host: Host,
    /// Binaries other than the first that continued the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub continued_by: Vec<String>,
    /// Unix time of the first start, seconds.
    pub started_at: f64,
    /// Unix time at which the last expected sample was finished.
    pub ended_at: Option<f64>,
}

impl Manifest {
    /// Name of the run beside others of its split; a probe stands behind a label as well.
    pub fn display_name(&self) -> String {
        let name = || {
            let answering = self.backend.other_model().map(|model| format!(" (answered by {model})"));
            format!("{} · {}{}", self.plan.mode, self.backend.model, answering.unwrap_or_default())
        };
        let name = self.label.clone().unwrap_or_else(name);
        match self.plan.probe {
            Some(probe) => format!("{name} · probe {probe}"),
            None => name,
        }
    }

    /// Records that a finished run has: its samples, times their repetitions.
    pub fn expected_records(&self) -> usize {
        self.selection.sizes.expected * self.plan.repeat
    }

    /// The selection with every sample counted as often as it is asked.
    pub fn records_selected(&self) -> Selection {
        self.selection.repeated(self.plan.repeat)
    }

    /// Whether `probed` is this run with a probe: nothing else that can change an answer differs.
    pub fn has_probe(&self, probed: &Manifest) -> bool {
        let mut plain = probed.clone();
        plain.plan.probe = None;
        self.plan.probe.is_none()
            && probed.plan.probe.is_some()
            && self.compared(&plain, Self::measurement).is_empty()
    }

    /// Differences that keep `wanted` from continuing this run, in words; empty without any. As
    /// [`differences`](Self::differences), but the selection may grow (see [`Narrowing::extends`]), and the
    /// number of repetitions.
    pub(crate) fn obstacles(&self, wanted: &Manifest) -> Vec<String> {
        let mut grown = self.clone();
        grown.plan.repeat = self.plan.repeat.max(wanted.plan.repeat);
        let mut found = words(grown.compared(wanted, Self::measurement));
        let (before, now) = (self.selection.narrowing(), wanted.selection.narrowing());
        if !now.extends(before) {
            found
                .push(format!("the selection was {before}, now {now}: a run can gain samples, not lose any"));
        }
        found
    }

    /// Differences that make `wanted` another measurement, in words; empty without any.
    ///
    /// Host, times, command line, label and what [`BackendInfo::identity`] leaves out may differ: a run
    /// may move to another machine or endpoint. Everything that can change an answer may not.
    pub fn differences(&self, wanted: &Manifest) -> Vec<String> {
        words(self.differing(wanted))
    }

    /// [`differences`](Self::differences), field by field.
    pub fn differing(&self, wanted: &Manifest) -> Vec<Difference> {
        self.compared(wanted, Self::identity)
    }

    fn compared(
        &self,
        wanted: &Manifest,
        fields: fn(&Manifest) -> BTreeMap<String, String>,
    ) -> Vec<Difference> {
        let (ours, theirs) = (fields(self), fields(wanted));
        let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
        names
            .into_iter()
            .filter(|name| ours.get(*name) != theirs.get(*name))
            .filter(|name| {
                let is_stated = ours.contains_key(*name) && theirs.contains_key(*name);
                is_stated || !BackendInfo::PROVENANCE.contains(&name.as_str())
            })
            .map(|name| {
                let values = [&ours, &theirs].map(|fields| fields.get(name).cloned());
                let called = (name == PROTOCOL).then(|| [self, wanted].map(|run| run.protocol.as_str()));
                Difference::new(name, values, called)
            })
            .collect()
    }

    /// Everything that can change a score, by name.
    fn identity(&self) -> BTreeMap<String, String> {
        let mut fields = self.measurement();
        flatten("selection", &json(&self.selection), &mut fields);
        fields
    }

    /// Everything that can change an answer, by name.
    fn measurement(&self) -> BTreeMap<String, String> {
        let mut fields = BTreeMap::new();
        let mut put = |name: &str, value: &dyn std::fmt::Display| {
            fields.insert(name.to_owned(), value.to_string());
        };
        put("task", &self.task.name);
        put(PROTOCOL, &self.protocol_hash);
        put("backend", &self.backend.name);
        put("model", &self.backend.model);
        put("samples", &self.inputs.samples);
        self.imported.iter().for_each(|tool| put("imported from", tool));
        // An imported run has its answers in these files.
        if self.imported.is_none() {
            flatten("data", &json(&self.data), &mut fields);
        }
        flatten("", &json(&self.backend.identity()), &mut fields);
        flatten("constants", &json(&self.constants), &mut fields);
        flatten("", &json(&self.plan), &mut fields);
        fields
    }

    /// Takes over what a continuation may change: label, GPUs, endpoints, the binary, and a selection or a number of
    /// repetitions that has grown, with the command that says so; the run is then unfinished.
    pub fn continue_with(&mut self, wanted: &Manifest) {
        if (&wanted.selection, wanted.plan.repeat) != (&self.selection, self.plan.repeat) {
            self.selection.clone_from(&wanted.selection);
            self.plan.repeat = wanted.plan.repeat;
            self.command.clone_from(&wanted.command);
            self.ended_at = None;
        }
        for (ours, theirs) in [(&mut self.label, &wanted.label), (&mut self.paper_row, &wanted.paper_row)] {
            if theirs.is_some() {
                ours.clone_from(theirs);
            }
        }
        self.host.gpus = wanted.host.gpus.or(self.host.gpus);
        if wanted.binary != self.binary && !self.continued_by.contains(&wanted.binary) {
            self.continued_by.push(wanted.binary.clone());
        }
        self.backend.join_endpoints(&wanted.backend);
        self.inputs.record_video_sizes(&wanted.inputs.videos);
    }
}

/// The field with the hash of the protocol's texts, which is shown by the protocol's name.
const PROTOCOL: &str = "protocol";

fn words(differences: Vec<Difference>) -> Vec<String> {
    differences.iter().map(Difference::to_string).collect()
}

/// JSON of our own types, which have string keys and no failing serialisers.
fn json<T: Serialize>(value: &T) -> serde_json::Value {
    serde_json::to_value(value).expect("plain structs with string keys serialise")
}

/// The leaves of nested objects by their dotted names.
fn flatten(prefix: &str, value: &serde_json::Value, fields: &mut BTreeMap<String, String>) {
    match value {
        serde_json::Value::Object(inner) => {
            for (name, value) in inner {
                let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                flatten(&name, value, fields);
            }
        }
        // A field that is left out and one that is null say the same.
        serde_json::Value::Null => {}
        serde_json::Value::String(text) => {
            fields.insert(prefix.to_owned(), text.clone());
        }
        other => {
            fields.insert(prefix.to_owned(), other.to_string());
        }
    }
}

/// Inputs of a run's samples beside the data files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inputs {
    /// SHA-256 over all samples of the split as loaded: questions, gold answers, subtitles, tags.
    pub samples: String,
    /// The rows are the published ones, as the benchmark's description knows them by SHA-256. Not said of a split
    /// with subtitles, of which no hash is known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub verified: bool,
    /// Bytes of each video file of the selection that was there, by its name in records.
    pub videos: BTreeMap<String, u64>,
    /// Of these, the files that were replaced since, with their new bytes: samples that lost their frames
    /// to the old file are still to be redone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replaced: BTreeMap<String, u64>,
}

impl Inputs {
    /// Bytes of a video as it was last seen.
    pub fn bytes(&self, video: &str) -> Option<u64> {
        self.replaced.get(video).or_else(|| self.videos.get(video)).copied()
    }

    /// Takes the videos that are there now into account.
    fn record_video_sizes(&mut self, now: &BTreeMap<String, u64>) {
        for (name, bytes) in now {
            match self.bytes(name) {
                None => self.videos.insert(name.clone(), *bytes),
                Some(known) if known != *bytes => self.replaced.insert(name.clone(), *bytes),
                Some(_) => None,
            };
        }
    }

    /// Every sample was redone: the replaced files are the videos of the run.
    pub fn accept_replacements(&mut self) {
        self.videos.append(&mut self.replaced);
    }
}

/// The constants of this build that can change an answer and are in no plan, and what the tool shows of a
/// window.
pub fn constants(tool: &Tool) -> BTreeMap<String, String> {
    let crop = VideoRequest::crop(0.0, 1.0, tool.max_frames);
    let pixels = |bound: Option<u64>| bound.map_or_else(|| "default".to_owned(), |pixels| pixels.to_string());
    // The bounds of an overview are rules, not numbers: the size that they give a frame stands for them.
    let overview = VideoRequest::overview(64).frame_size(64, 1920, 1080);
    let overview = overview.map_or_else(|error| error, |(width, height)| format!("{width}x{height}"));
    [
        ("jpeg_quality", JPEG_QUALITY.to_string()),
        ("crop_sampling", format!("{:?}", crop.sampling)),
        ("crop_min_pixels", pixels(crop.min_pixels)),
        ("crop_max_pixels", pixels(crop.max_pixels)),
        ("overview_of_1080p", overview),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// The machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Operating system and architecture.
    pub platform: String,
    /// Kind of processor as the system names it; `None` where it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Logical cores.
    pub cores: usize,
    /// GPUs that the model runs on, wherever they are; `None` where nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// FFmpeg version.
    pub ffmpeg: String,
}
