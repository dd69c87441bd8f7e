//! What a stage did, in its folder: commands, environment, deviations, starts.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::files;

/// File of the record in the folder of a stage.
pub const RECORD: &str = "launch.json";

/// One start of a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Steps that were behind it.
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
