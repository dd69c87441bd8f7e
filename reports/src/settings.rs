//! Whether a run measures what a published number measures: the published settings as data
//! (`data/settings.toml`) against a run's manifest and records.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use paravt_suite::profile::Profile;
use paravt_suite::protocol::file::FROM_FILE;
use paravt_suite::record::Record;
use paravt_suite::run::Manifest;
use paravt_suite::task::{NO_SUBTITLES, NOT_PUBLISHED};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::authors::{Authors, model_of};
use crate::decide::Lost;
use crate::models::Naming;
use crate::paper::PaperError;
use crate::training::Training;

/// Plan fields that only the tool loop reads.
const TOOL_FIELDS: [&str; 3] = ["max_turns", "max_parallel", "crop"];

/// Fields of a plan that are compared apart (the profile sets all switches) or move no score.
const APART: [&str; 2] = ["switches", "request.header_env"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    tool_modes: Vec<String>,
    plan: Map<String, Value>,
    backend: BTreeMap<String, Value>,
    splits: BTreeMap<String, Split>,
    rows: Vec<Row>,
    models: Vec<Model>,
    /// Rows with the numbers of the models' authors.
    #[serde(skip_deserializing)]
    authors: Authors,
}

/// The model of published rows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    /// On the hub; absent where it was not published.
    id: Option<String>,
    rows: Vec<String>,
    /// The model that it was trained from, where a row is of a training that can be repeated.
    trained_from: Option<String>,
}

/// One split as published.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Split {
    /// Rows that the published number stands on.
    pub rows: usize,
    /// Distinct videos of these rows.
    pub videos: usize,
    /// Rows without subtitles, of a split that shows them.
    without_subtitles: Option<usize>,
    #[serde(default)]
    plan: Map<String, Value>,
}

/// Rows of the published tables that were measured alike.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    names: Vec<String>,
    #[expect(dead_code, reason = "for readers of the file")]
    source: String,
    #[serde(default)]
    plan: Map<String, Value>,
    #[serde(default)]
    splits: BTreeMap<String, Map<String, Value>>,
    unpublished: Option<String>,
}

/// Data and losses of a run's records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DataFacts {
    pub recorded: usize,
    /// Distinct videos that they name.
    pub videos: usize,
    /// Rows of a file that is not the published one.
    pub unpublished: usize,
    /// Rows that were asked without subtitles in a split that shows them.
    pub without_subtitles: usize,
    /// Whether subtitles are part of any question.
    pub shows_subtitles: bool,
    /// Rows without a full answer.
    pub lost: Lost,
}

impl DataFacts {
    /// Counts a record; `videos` has those of the records before.
    pub(crate) fn add(&mut self, record: &Record, videos: &mut HashSet<PathBuf>) {
        let sample = &record.sample;
        let has_flag = |flag: &str| usize::from(sample.flags.iter().any(|has| has == flag));
        self.recorded += 1;
        if !videos.contains(&sample.video) {
            videos.insert(sample.video.clone());
            self.videos += 1;
        }
        self.unpublished += has_flag(NOT_PUBLISHED);
        self.without_subtitles += has_flag(NO_SUBTITLES);
        self.shows_subtitles |= sample.question.subtitles.is_some();
        self.lost.add(record);
    }
}

impl Settings {
    /// The settings of this build.
    pub(crate) fn embedded() -> Result<Self, PaperError> {
        let damaged = |error: toml::de::Error| PaperError::Damaged(error.to_string());
        let settings: Self = toml::from_str(include_str!("../data/settings.toml")).map_err(damaged)?;
        Ok(Self { authors: Authors::embedded().map_err(damaged)?, ..settings })
    }

    /// A published split; `None` for one of no published table.
    pub(crate) fn split(&self, name: &str) -> Option<&Split> {
        self.splits.get(name)
    }

    /// Why a run's score may not stand beside the published one of `row`; empty where it may.
    pub(crate) fn differences(
        &self,
        row: &str,
        manifest: &Manifest,
        facts: &DataFacts,
        training: &Training,
    ) -> Vec<String> {
        let task = &manifest.task.name;
        let model = self.model(row, manifest, training);
        let other = model.filter(|(naming, _)| *naming == Naming::Other).map(|(_, why)| why);
        if let (Some(split), Some(own)) = (self.split(task), self.authors.row(row)) {
            let mut why: Vec<String> = other.into_iter().collect();
            why.extend(own.differences(manifest));
            why.extend(data_differences(split, manifest, facts));
            why.extend(facts.lost.excess_over(&Lost::default()));
            return why;
        }
        let (Some(split), Some(published)) = (self.split(task), self.row(row)) else {
            return vec![format!("the settings of {row} on {task} are not declared")];
        };
        let mut why: Vec<String> = other.into_iter().collect();
        match &published.unpublished {
            Some(reason) => why.push(reason.clone()),
            None => {
                let plan = self.plan(published, task, split);
                let mode = plan.get("mode").and_then(Value::as_str);
                let tools = mode.is_none_or(|mode| self.is_tool_mode(mode));
                why.extend(plan_differences(&plan, tools, manifest));
                why.extend(self.backend_differences(manifest));
            }
        }
        why.extend(protocol_differences(manifest));
        why.extend(data_differences(split, manifest, facts));
        why.extend(facts.lost.excess_over(&Lost::default()));
        why
    }

    /// Whether a run's model is that of a row, by their names: what it is not, or what is not known of it. A training that
    /// says from which model it started is the row's where that is the row's start. `None` where the models are one, and
    /// for a row whose model has no id.
    fn model(&self, row: &str, manifest: &Manifest, training: &Training) -> Option<(Naming, String)> {
        let row = model_of(row);
        let model = self.models.iter().find(|model| model.rows.iter().any(|known| known == row))?;
        if let Some((about, start)) = training.about.as_ref().zip(model.trained_from.as_ref()) {
            let why = format!("another model: trained from {} (published: from {start})", about.base_model);
            return Some((Naming::Other, why))
                .filter(|_| Naming::of(&about.base_model, start) == Naming::Other);
        }
        let name = &manifest.backend.model;
        let naming = |id: &String| Naming::of(name, id);
        let of_others = || self.models.iter().filter_map(|other| other.id.as_ref().map(naming));
        match model.id.as_ref().map_or(Naming::Unknown, naming) {
            Naming::Same => None,
            Naming::Unknown if !of_others().any(|naming| naming == Naming::Same) => {
                Some((Naming::Unknown, format!("model unknown: served as {name}")))
            }
            _ => {
                let published = model.id.as_deref().unwrap_or("no checkpoint");
                Some((Naming::Other, format!("another model: {name} (published: {published})")))
            }
        }
    }

    /// What is not known of the model of a run beside a row.
    pub(crate) fn unknown_model(
        &self,
        row: &str,
        manifest: &Manifest,
        training: &Training,
    ) -> Option<String> {
        let found = self.model(row, manifest, training);
        found.filter(|(naming, _)| *naming == Naming::Unknown).map(|(_, words)| words)
    }

    /// Whether a row has the number of the model's authors.
    pub(crate) fn is_of_authors(&self, row: &str) -> bool {
        self.authors.row(row).is_some()
    }

    fn is_tool_mode(&self, mode: &str) -> bool {
        self.tool_modes.iter().any(|known| known == mode)
    }

    fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.names.iter().any(|known| known == name))
    }

    /// The plan of one cell: common settings, then the split's, the row's and the cell's own.
    fn plan(&self, row: &Row, task: &str, split: &Split) -> Map<String, Value> {
        let mut plan = self.plan.clone();
        let own = row.splits.get(task).into_iter().flatten();
        for (name, value) in split.plan.iter().chain(&row.plan).chain(own) {
            plan.insert(name.clone(), value.clone());
        }
        plan
    }

    /// The engine that answered (of a replay the recorded one) and what it states about itself.
    fn backend_differences(&self, manifest: &Manifest) -> Vec<String> {
        let details = &manifest.backend.details;
        let name = details.get("recorded_with").unwrap_or(&manifest.backend.name);
        let stated = |field: &str| if field == "name" { Some(name) } else { details.get(field) };
        let differing = self.backend.iter().filter_map(|(field, wanted)| {
            let ours = stated(field)?;
            let shown = if field == "name" { "backend" } else { field };
            (!accepts(wanted, &Value::String(ours.clone()))).then(|| differs(shown, ours, wanted))
        });
        differing.collect()
    }
}

/// Every field of the run's plan against the published one. A field that the published settings do not
/// declare is a difference where the run sets it: it was added after them and may move a score.
fn plan_differences(published: &Map<String, Value>, tools: bool, manifest: &Manifest) -> Vec<String> {
    let mut why = Vec::new();
    let Ok(plan) = serde_json::to_value(&manifest.plan) else {
        return vec!["the plan of the run cannot be read".to_owned()];
    };
    let mut ours = BTreeMap::new();
    flatten("", &plan, &mut ours);
    for (field, value) in &ours {
        if !tools && TOOL_FIELDS.contains(&field.as_str()) {
            continue;
        }
        match published.get(field) {
            Some(wanted) if accepts(wanted, value) => {}
            Some(wanted) => why.push(differs(field, &value_text(value), wanted)),
            None if is_unset(value) => {}
            None => why.push(format!("{field} {} (published: not stated)", value_text(value))),
        }
    }
    if manifest.plan.profile() == Profile::Paper && *manifest.plan.switches() != Profile::Paper.switches() {
        why.push("switches other than those of the paper profile".to_owned());
    }
    why
}

/// Fields by path, e.g. `request.top_p`.
fn flatten(path: &str, value: &Value, fields: &mut BTreeMap<String, Value>) {
    match value {
        _ if APART.contains(&path) => {}
        Value::Object(inner) => {
            for (name, value) in inner {
                let dot = if path.is_empty() { "" } else { "." };
                flatten(&format!("{path}{dot}{name}"), value, fields);
            }
        }
        value => {
            fields.insert(path.to_owned(), value.clone());
        }
    }
}

fn protocol_differences(manifest: &Manifest) -> Option<String> {
    if let Some(fidelity) = manifest.fidelity {
        return Some(format!("the agent's own protocol {} ({})", manifest.protocol, fidelity.as_str()));
    }
    match manifest.protocol_source.repository.as_str() {
        "paravt-bench" => Some("native protocol".to_owned()),
        FROM_FILE => Some(format!("protocol {} of a file", manifest.protocol)),
        _ => (!manifest.protocol_source.pinned).then(|| "unpinned protocol".to_owned()),
    }
}

fn data_differences(split: &Split, manifest: &Manifest, facts: &DataFacts) -> Vec<String> {
    let mut why = Vec::new();
    let (expected, recorded) = (manifest.expected_records(), facts.recorded);
    if expected != split.rows {
        why.push(format!("{expected} of {} rows", split.rows));
    }
    if recorded != expected {
        why.push(format!("unfinished run: {recorded} of {expected} rows recorded"));
    } else if facts.videos != split.videos {
        why.push(format!("{} distinct videos, published {}", facts.videos, split.videos));
    }
    if facts.unpublished > 0 {
        why.push("not the published data: the rows differ from the published ones".to_owned());
    }
    // Of a part of the rows, only more than all of them have is known to be too many.
    let (without, whole) = (facts.without_subtitles, recorded == split.rows);
    why.extend(
        split
            .without_subtitles
            .filter(|published| without > *published || whole && without < *published)
            .map(|published| format!("no subtitles for {without} rows (published: {published})")),
    );
    why
}

fn differs(field: &str, ours: &str, wanted: &Value) -> String {
    let wanted = match wanted {
        Value::Array(values) => values.iter().map(value_text).collect::<Vec<_>>().join(" or "),
        value => value_text(value),
    };
    format!("{field} {ours} (published: {wanted})")
}

/// Whether a declared value accepts a run's: one of a list, equal numbers, `"none"` for an unset field.
fn accepts(wanted: &Value, ours: &Value) -> bool {
    match (wanted, ours) {
        (Value::Array(values), _) => values.iter().any(|wanted| accepts(wanted, ours)),
        (Value::Number(wanted), Value::Number(ours)) => wanted.as_f64() == ours.as_f64(),
        (Value::String(wanted), _) if wanted == "none" => is_unset(ours),
        _ => wanted == ours,
    }
}

fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.is_empty(),
        _ => false,
    }
}

fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::{PaperNumbers, SPLITS};

    #[test]
    fn every_published_row_and_split_is_declared() {
        let (settings, paper) = (Settings::embedded().unwrap(), PaperNumbers::embedded().unwrap());
        for row in paper.rows_of_all_tables() {
            assert!(settings.row(&row).is_some() || settings.authors.row(&row).is_some(), "{row}");
            let model = model_of(&row);
            let is_known = settings.models.iter().any(|known| known.rows.iter().any(|row| row == model));
            let is_unpublished = settings.row(&row).is_some_and(|row| row.unpublished.is_some());
            assert!(is_known || is_unpublished, "{row}: no model");
        }
        for (split, _) in SPLITS {
            assert!(settings.split(split).is_some(), "{split}");
        }
    }

    #[test]
    fn charades_is_declared_with_its_own_channel_and_mode() {
        let settings = Settings::embedded().unwrap();
        let plan = |row: &str, split: &str| {
            settings.plan(settings.row(row).unwrap(), split, settings.split(split).unwrap())
        };
        assert_eq!(plan("ParaVT-8B", "charades")["mode"], "agentic_minimal");
        assert_eq!(plan("ParaVT-8B", "charades")["channel"], "video");
        assert_eq!(plan("ParaVT-8B", "mmvu")["mode"], "agentic_general");
        assert_eq!(plan("Conan-7B", "charades")["mode"], "agentic_general");
        assert_eq!(plan("Qwen2.5-VL-7B", "charades")["mode"], "direct");
        assert_eq!(plan("C: Sequential tool calling (same checkpoint)", "mlvu")["max_parallel"], 1);
    }

    #[test]
    fn values_are_compared_as_values() {
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert!(accepts(&json("0.0"), &json("0")));
        assert!(!accepts(&json("0.0"), &json("0.9")));
        assert!(accepts(&json("\"none\""), &Value::Null));
        assert!(!accepts(&json("\"none\""), &json("3")));
        assert!(accepts(&json("[\"text\", \"auto\"]"), &json("\"auto\"")));
        let mut fields = BTreeMap::new();
        let plan = r#"{"mode": "direct", "switches": {"a": true}, "request": {"top_p": 0.9, "header_env": {"x": "Y"}}}"#;
        flatten("", &json(plan), &mut fields);
        assert_eq!(fields.keys().collect::<Vec<_>>(), ["mode", "request.top_p"]);
    }
}
