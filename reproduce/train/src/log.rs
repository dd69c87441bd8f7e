//! The training log: one JSON object per step, on disk when the step is done.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// `training.jsonl` of a run; reports draw its numbers as curves.
pub struct Log {
    path: PathBuf,
}

impl Log {
    /// A log that goes on after `step` steps: what a killed run wrote beyond its checkpoint goes.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn open(path: &Path, step: usize) -> Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Error::file(path, error)),
        };
        let within = |line: &&str| {
            let fields: Option<Map<String, Value>> = serde_json::from_str(line).ok();
            fields.and_then(|fields| fields.get("step")?.as_u64()).is_some_and(|found| found <= step as u64)
        };
        let kept: String = text.split_inclusive('\n').filter(within).collect();
        if kept != text {
            let part = path.with_extension("part");
            std::fs::write(&part, kept).map_err(|error| Error::file(&part, error))?;
            std::fs::rename(&part, path).map_err(|error| Error::file(path, error))?;
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Adds a step's figures.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&self, step: usize, figures: &[(&str, f64)]) -> Result<()> {
        let mut fields = Map::new();
        fields.insert("step".to_owned(), step.into());
        fields.extend(figures.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))));
        let mut line = Value::from(fields).to_string();
        line.push('\n');
        let file = OpenOptions::new().create(true).append(true).open(&self.path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .map_err(|error| Error::file(&self.path, error))
    }
}
