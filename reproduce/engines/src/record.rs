//! `launch.json` in the folder of a stage: commands, environment, deviations from the release, and every start.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::files;

/// File of the record in the folder of a stage.
pub const RECORD: &str = "launch.json";

/// One start of a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Steps that earlier starts had made.
    pub resumed: usize,
    /// What was moved aside or thrown away before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// How it ended; `None` while it runs, or where this process was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// `launch.json` of a stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Commands, without paths of the machine.
    pub commands: Vec<String>,
    /// Variables that were set for them.
    pub environment: Vec<String>,
    /// What is done otherwise than by the release.
    pub deviations: Vec<String>,
    /// Starts, oldest first.
    pub starts: Vec<Start>,
}

impl Record {
    /// The record so far; empty where there is none or it cannot be read.
    pub(crate) fn open(folder: &Path) -> Self {
        let bytes = std::fs::read(folder.join(RECORD)).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(RECORD);
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::file("cannot write", &path, error.into()))?;
        files::write(&path, format!("{text}\n").as_bytes())
    }

    /// Notes how the last start ended.
    pub(crate) fn end(&mut self, how: impl Into<String>, folder: &Path) -> Result<()> {
        if let Some(start) = self.starts.last_mut() {
            start.ended = Some(how.into());
        }
        self.write(folder)
    }
}

/// A deviation for each field of `settings` whose value is not that of the release; `section` is its table in a recipe.
pub(crate) fn differences<T: Serialize>(section: &str, settings: &T, release: &T) -> Vec<String> {
    let value = |of: &T| serde_json::to_value(of).unwrap_or_default();
    let (Value::Object(ours), Value::Object(theirs)) = (value(settings), value(release)) else {
        return Vec::new();
    };
    let other = ours.iter().filter(|(name, value)| theirs.get(*name) != Some(value));
    other
        .map(|(name, value)| {
            let release = theirs.get(name).unwrap_or(&Value::Null);
            format!("{section}.{name} = {value}; the release's recipe: {release}")
        })
        .collect()
}
