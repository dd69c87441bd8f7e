//! Checkpoints: a model folder that the backends load, beside what training needs to go on.
//!
//! ```text
//! DIR/step-000100/model.safetensors …   the model, as published
//! DIR/step-000100/optimizer.safetensors moments and step count
//! DIR/step-000100/progress.json         where in the data the next step begins
//! ```

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::learner::Learner;
use crate::optimizer::AdamW;

const OPTIMIZER: &str = "optimizer.safetensors";
const PROGRESS: &str = "progress.json";
/// Checkpoints that are kept.
const KEPT: usize = 2;

/// Where a run is, and under which settings.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved<S, P> {
    settings: S,
    progress: P,
}

/// The checkpoints of one run.
pub struct Checkpoints {
    folder: PathBuf,
}

impl Checkpoints {
    /// Checkpoints below a folder.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The folder of the last whole one.
    pub fn latest(&self) -> Option<PathBuf> {
        self.all().pop()
    }

    /// Whole ones, oldest first: a folder has its name only once everything is in it.
    fn all(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let named =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("step-"));
        let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(named).collect();
        found.sort();
        found
    }

    /// Writes one; older ones than the last two go.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn save<S: Serialize, P: Serialize>(
        &self,
        step: usize,
        learner: &Learner,
        optimizer: &AdamW,
        settings: &S,
        progress: &P,
    ) -> Result<()> {
        let (part, whole) = (self.folder.join("part"), self.folder.join(format!("step-{step:06}")));
        let _ = std::fs::remove_dir_all(&part);
        learner.save(&part)?;
        let path = part.join(OPTIMIZER);
        candle_core::safetensors::save(&optimizer.state()?, &path)
            .map_err(|error| Error::file(&path, error))?;
        let text = serde_json::to_string_pretty(&Saved { settings, progress }).unwrap_or_default();
        let path = part.join(PROGRESS);
        std::fs::write(&path, text).map_err(|error| Error::file(&path, error))?;
        let _ = std::fs::remove_dir_all(&whole);
        std::fs::rename(&part, &whole).map_err(|error| Error::file(&whole, error))?;
        let all = self.all();
        for old in &all[..all.len().saturating_sub(KEPT)] {
            let _ = std::fs::remove_dir_all(old);
        }
        Ok(())
    }

    /// Gives the optimiser its state back and says where to go on; the model is loaded from the folder.
    ///
    /// # Errors
    /// A damaged checkpoint, or one of other settings: the message names what differs.
    pub fn restore<S, P>(folder: &Path, optimizer: &mut AdamW, settings: &S) -> Result<P>
    where
        S: Serialize + DeserializeOwned + PartialEq,
        P: DeserializeOwned,
    {
        let path = folder.join(PROGRESS);
        let text = std::fs::read_to_string(&path).map_err(|error| Error::file(&path, error))?;
        let saved: Saved<S, P> = serde_json::from_str(&text).map_err(|error| Error::file(&path, error))?;
        if saved.settings != *settings {
            let differences = differences(&saved.settings, settings);
            let message = format!("the run was started differently and cannot go on: {differences}");
            return Err(Error::file(&path, message));
        }
        let path = folder.join(OPTIMIZER);
        let state = candle_core::safetensors::load(&path, &candle_core::Device::Cpu);
        optimizer.restore(state.map_err(|error| Error::file(&path, error))?)?;
        Ok(saved.progress)
    }
}

/// Names of top-level settings that differ, with both values.
fn differences<S: Serialize>(was: &S, is: &S) -> String {
    let value = |settings: &S| serde_json::to_value(settings).unwrap_or_default();
    let (was, is) = (value(was), value(is));
    let fields = was.as_object().into_iter().flatten();
    let differing = fields.filter(|(name, value)| is[name.as_str()] != **value);
    let told = differing.map(|(name, value)| format!("{name} was {value}, is {}", is[name.as_str()]));
    told.collect::<Vec<_>>().join("; ")
}
