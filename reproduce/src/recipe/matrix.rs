//! Stages of a recipe, and the matrix that repeats them.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Table, Value};

use super::file::merge;
use crate::needs::Estimate;

/// What a stage does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Method {
    /// Checks the machine.
    Preflight,
    /// Checks that the texts which evaluations are asked in are imported.
    CheckProtocol,
    /// Fetches rows, media and models.
    Fetch,
    /// Checks the rows of the splits.
    CheckData,
    /// Writes the training rows with the paths of this machine.
    Materialize,
    /// Makes the checkout of the release.
    Checkout,
    Environments,
    /// Cold-start SFT by the release's lmms-engine.
    LaunchSft,
    /// One model folder from the shards of SFT.
    Merge,
    /// Reinforcement learning by the release's AReaL and SGLang.
    LaunchRl,
    /// The model folder of the chosen checkpoint.
    Pick,
    Serve,
    Evaluate,
    Report,
    /// Unpacks the embedded checkpoint.
    Base,
    /// Generates the splits.
    World,
    /// Generates rows to train on.
    TrainingData,
    /// Makes a model of random weights.
    Fresh,
    /// SFT on the endless curriculum, in this process.
    Curriculum,
    /// Asks held-out rows of the curriculum.
    Exam,
    /// SFT in this process.
    Sft,
    /// Reinforcement learning in this process.
    Rl,
    /// Rollouts of a model with nothing forced.
    Measure,
}

impl Method {
    /// Whether its result is only of use to a later stage; without one it is left out.
    pub(super) fn is_for_others(self) -> bool {
        matches!(self, Self::Checkout | Self::Environments | Self::TrainingData)
            || matches!(self, Self::Sft | Self::LaunchSft | Self::Merge)
    }

    /// Whether a stage may have a setting; of most, what they are read into knows.
    pub(super) fn reads(self, setting: &str) -> bool {
        match self {
            Self::CheckProtocol | Self::CheckData | Self::Materialize | Self::Checkout => false,
            Self::Report | Self::Base => false,
            Self::Environments => setting == "install",
            Self::Fresh => setting == "seed",
            Self::Exam => ["model", "rows"].contains(&setting),
            _ => true,
        }
    }

    /// Name of the table with the settings of all stages that do the same.
    pub(super) fn table(self) -> Option<&'static str> {
        Some(match self {
            Self::Preflight => "preflight",
            Self::Fetch => "fetch",
            Self::Serve => "serve",
            Self::Evaluate => "evaluate",
            Self::World => "world",
            Self::TrainingData => "data",
            Self::Sft | Self::Curriculum | Self::LaunchSft | Self::Merge => "sft",
            Self::Rl | Self::LaunchRl | Self::Pick => "rl",
            Self::Measure => "measure",
            _ => return None,
        })
    }

    /// Whether it trains in another program.
    pub(super) fn is_launched(self) -> bool {
        matches!(self, Self::LaunchSft | Self::Merge | Self::LaunchRl | Self::Pick)
    }
}

/// A stage of a recipe.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Stage {
    pub(super) name: String,
    /// Absent in a recipe that changes a stage of the one which it extends.
    pub(super) does: Option<Method>,
    /// Names of the stages that it builds on, beside those whose results its settings name.
    #[serde(default)]
    pub(super) inputs: Vec<String>,
    /// Axes of the matrix that it is repeated over, the outermost first.
    #[serde(default)]
    pub(super) matrix: Vec<String>,
    /// Made with `--full` only.
    #[serde(default)]
    pub(super) full: bool,
    pub(super) title: Option<String>,
    /// What the paper says of it.
    pub(super) paper: Option<String>,
    /// What it does otherwise than the published code, beside what all stages of its kind do.
    #[serde(default)]
    pub(super) deviates: Vec<String>,
    #[serde(default)]
    pub(super) estimate: Estimate,
    /// Settings over those of all stages that do the same.
    #[serde(flatten)]
    pub(super) settings: Table,
    #[serde(skip)]
    pub(super) place: BTreeMap<String, String>,
    #[serde(skip)]
    pub(super) seed: Option<u64>,
}

/// The axis of the command's seeds.
const SEED: &str = "seed";
/// Axes whose values are names, not settings.
const NAMES: [&str; 2] = ["run", "split"];

/// The axes that stages are repeated over, beside [`SEED`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct Matrix {
    /// Places that are left out, each by some of its values.
    #[serde(default)]
    exclude: Vec<BTreeMap<String, Value>>,
    /// Values: a name or number, or a table of settings with a `name`.
    #[serde(flatten)]
    pub(super) axes: BTreeMap<String, Vec<Value>>,
}

/// The name of a value of an axis.
fn label(value: &Value) -> String {
    match value {
        Value::String(name) => name.clone(),
        Value::Table(table) => table.get("name").map(label).unwrap_or_default(),
        Value::Integer(number) => number.to_string(),
        _ => String::new(),
    }
}

impl Matrix {
    /// The first name that none of these stages has as an axis.
    pub(super) fn stray<'a>(&'a self, stages: &[Stage]) -> Option<&'a str> {
        let all = self.axes.keys().chain(self.exclude.iter().flat_map(BTreeMap::keys));
        let mut strays = all.filter(|name| !stages.iter().any(|stage| stage.matrix.contains(name)));
        strays.next().map(String::as_str)
    }

    /// What is wrong with its values, or with the order of a stage's axes.
    pub(super) fn check(&self, stages: &[Stage]) -> Result<(), String> {
        if self.axes.contains_key(SEED) || self.exclude.iter().any(|place| place.contains_key(SEED)) {
            return Err("[matrix] seeds are those of --seed and --seeds; leave `seed` out".to_owned());
        }
        if let Some(stage) = stages.iter().find(|stage| stage.matrix.iter().skip(1).any(|axis| axis == SEED))
        {
            return Err(format!("stage `{}`: `seed` must be the first axis of its matrix", stage.name));
        }
        let known = |axis: &str, value: &Value| {
            let values = self.axes.get(axis).into_iter().flatten();
            let name = label(value);
            match !name.is_empty() && values.into_iter().any(|known| label(known) == name) {
                true => Ok(()),
                false => Err(format!("`{axis}` has no value {}", serde_json::json!(value))),
            }
        };
        for (axis, values) in &self.axes {
            if values.is_empty() {
                return Err(format!("[matrix] `{axis}` has no values"));
            }
            for value in values {
                let name = label(value);
                if name.is_empty() {
                    return Err(format!(
                        "[matrix] `{axis}`: a value needs a text or a whole number as its `name`"
                    ));
                }
                for (field, value) in value.as_table().into_iter().flatten() {
                    if field == "enabled" {
                        return Err(format!(
                            "[matrix] `{axis}` {name}: leave the value out in the place of `enabled`"
                        ));
                    }
                    let others = value.as_array().filter(|_| self.axes.contains_key(field));
                    for other in others.into_iter().flatten() {
                        known(field, other)
                            .map_err(|message| format!("[matrix] `{axis}` {name}: {message}"))?;
                    }
                }
            }
        }
        for place in &self.exclude {
            if place.is_empty() {
                return Err("[matrix] exclude: a place without values excludes everything".to_owned());
            }
            for (axis, value) in place {
                known(axis, value).map_err(|message| format!("[matrix] exclude: {message}"))?;
            }
        }
        Ok(())
    }

    /// Settings of all values of a stage's axes.
    pub(super) fn settings_of<'a>(&'a self, stage: &'a Stage) -> impl Iterator<Item = &'a Value> {
        let values = stage.matrix.iter().filter_map(|axis| self.axes.get(axis)).flatten();
        values.filter_map(Value::as_table).flat_map(Table::values)
    }

    /// Changes a setting at all values of an axis. A value that is the setting itself keeps its name.
    pub(super) fn change(&mut self, axis: &str, field: &str, change: impl Fn(&mut Value)) {
        for value in self.axes.get_mut(axis).into_iter().flatten() {
            if axis == field && !value.is_table() {
                let settings = [("name", label(value).into()), (field, value.clone())];
                *value = Value::Table(
                    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
                );
            }
            if let Some(setting) = value.get_mut(field) {
                change(setting);
            }
        }
    }

    /// The stages at all places; those of one seed before those of the next.
    ///
    /// # Errors
    /// An axis that the matrix does not have.
    pub(super) fn expand(&self, stages: &[Stage], seeds: &[u64]) -> Result<Vec<Stage>, String> {
        let mut all = Vec::new();
        for block in stages.chunk_by(|a, b| a.is_seeded() && b.is_seeded()) {
            let Some(axis) = block[0].matrix.first() else {
                all.extend_from_slice(block);
                continue;
            };
            if block[0].is_seeded() {
                for &seed in seeds {
                    let of_seed = block.iter().map(|stage| Stage { seed: Some(seed), ..stage.inner() });
                    all.extend(self.expand(&of_seed.collect::<Vec<_>>(), seeds)?);
                }
                continue;
            }
            let missing = || format!("stage `{}`: the matrix has no axis `{axis}`", block[0].name);
            for value in self.axes.get(axis).ok_or_else(missing)? {
                all.extend(self.expand(&[self.at(&block[0], axis, value)], seeds)?);
            }
        }
        all.retain(|stage| self.has(&stage.place));
        Ok(all)
    }

    /// Whether a place is not excluded, and each of its values goes with those of the other axes.
    fn has(&self, place: &BTreeMap<String, String>) -> bool {
        let is_at = |axis: &String, value: &Value| place.get(axis).is_some_and(|at| *at == label(value));
        let tables = place.iter().filter_map(|(axis, at)| {
            self.axes.get(axis)?.iter().find(|value| label(value) == *at)?.as_table()
        });
        let goes_with = |axis: &String, values: &Value| match values {
            Value::Array(values) if place.contains_key(axis) => values.iter().any(|value| is_at(axis, value)),
            _ => true,
        };
        tables.flatten().all(|(axis, values)| goes_with(axis, values))
            && !self.exclude.iter().any(|excluded| excluded.iter().all(|(axis, value)| is_at(axis, value)))
    }

    /// A stage at a value of its first axis.
    fn at(&self, stage: &Stage, axis: &str, value: &Value) -> Stage {
        let mut stage = stage.inner();
        let name = label(value);
        for text in [&mut stage.name].into_iter().chain(&mut stage.inputs) {
            *text = text.replace(&format!("{{{axis}}}"), &name);
        }
        match value {
            Value::Table(settings) => {
                let is_axis = |name: &String, value: &Value| value.is_array() && self.axes.contains_key(name);
                let settings =
                    settings.iter().filter(|(name, value)| *name != "name" && !is_axis(name, value));
                let settings = settings.map(|(name, value)| (name.clone(), value.clone()));
                merge(&mut stage.settings, settings.collect());
            }
            _ if NAMES.contains(&axis) => {}
            value => drop(stage.settings.insert(axis.to_owned(), value.clone())),
        }
        stage.place.insert(axis.to_owned(), name);
        stage
    }
}

impl Stage {
    pub(super) fn is_seeded(&self) -> bool {
        self.matrix.first().is_some_and(|axis| axis == SEED)
    }

    /// The stage without its first axis.
    fn inner(&self) -> Self {
        Self { matrix: self.matrix[1..].to_vec(), ..self.clone() }
    }
}
