//! Checkpoints: a model folder that the backends load, and the state that a training resumes from.
//!
//! ```text
//! DIR/step-000100/model.safetensors …   the model, as published
//! DIR/step-000100/optimizer.safetensors moments and steps of each weight
//! DIR/step-000100/progress.json         where in the data the next step begins; size and SHA-256 of the files
//! ```
//!
//! A folder has its name only once everything in it is on disk, and an older checkpoint goes only after that.
//! One that was damaged later is passed over for the one before it.

use std::path::{Path, PathBuf};

use paravt_files::Listing;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::compute::Compute;
use crate::error::{Error, Result};
use crate::learner::Learner;
use crate::log::{self, Log};
use crate::optimizer::{AdamW, AdamWConfig};

/// Folder of the finished model.
pub const FINAL: &str = "final";
const OPTIMIZER: &str = "optimizer.safetensors";
const PROGRESS: &str = "progress.json";
const PREFIX: &str = "step-";
/// Checkpoints that are kept.
const KEPT: usize = 2;
/// Changes when what is saved does.
const FORMAT: u32 = 2;

/// Where a run is, and under which settings.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved<S, P> {
    format: u32,
    settings: S,
    /// Device and precision.
    compute: String,
    progress: P,
    files: Listing,
}

/// The checkpoints of one run.
pub struct Checkpoints {
    folder: PathBuf,
}

/// What a training starts or resumes from.
pub struct Start<P> {
    pub learner: Learner,
    pub optimizer: AdamW,
    /// Where in the data the next step begins.
    pub progress: P,
    /// Its log, up to that step.
    pub log: Log,
}

impl Checkpoints {
    /// Checkpoints below a folder.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Steps of the checkpoints, oldest first.
    fn all(&self) -> Result<Vec<(usize, PathBuf)>> {
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::file(&self.folder, error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| Error::file(&self.folder, error))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if let Some(step) = name.strip_prefix(PREFIX).and_then(|step| step.parse().ok()) {
                found.push((step, path));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Writes one; older ones than the last two go.
    ///
    /// # Errors
    /// A file cannot be written; a weight is NaN or infinite.
    pub fn save<S: Serialize, P: Serialize>(
        &self,
        step: usize,
        learner: &Learner,
        optimizer: &AdamW,
        settings: &S,
        progress: &P,
    ) -> Result<()> {
        let (part, whole) = (self.folder.join("part"), self.folder.join(format!("{PREFIX}{step:06}")));
        paravt_files::remove(&part).map_err(|error| Error::file(&part, error))?;
        learner.write_into(&part)?;
        let path = part.join(OPTIMIZER);
        candle_core::safetensors::save(&optimizer.state()?, &path)
            .map_err(|error| Error::file(&path, error))?;
        let files = Listing::of(&part, |_| false).map_err(|error| Error::file(&part, error))?;
        let compute = learner.compute().to_string();
        let path = part.join(PROGRESS);
        let text =
            serde_json::to_string_pretty(&Saved { format: FORMAT, settings, compute, progress, files });
        let text = text.map_err(|error| Error::file(&path, error))?;
        std::fs::write(&path, text).map_err(|error| Error::file(&path, error))?;
        paravt_files::replace_dir(&part, &whole).map_err(|error| Error::file(&whole, error))?;
        let all = self.all()?;
        for (_, old) in &all[..all.len().saturating_sub(KEPT)] {
            paravt_files::remove(old).map_err(|error| Error::file(old, error))?;
        }
        Ok(())
    }

    /// The newest whole checkpoint, or `base` from the first step on where there is none. A damaged one is
    /// passed over with a warning on standard error.
    ///
    /// # Errors
    /// A checkpoint of other settings, of another device or precision, or of another version; the message names
    /// what differs. A file that cannot be read.
    pub fn start<S, P>(
        &self,
        base: &Path,
        compute: &Compute,
        optimizer: &AdamWConfig,
        settings: &S,
    ) -> Result<Start<P>>
    where
        S: Serialize + DeserializeOwned + PartialEq,
        P: DeserializeOwned + Default,
    {
        std::fs::create_dir_all(&self.folder).map_err(|error| Error::file(&self.folder, error))?;
        let path = self.folder.join(log::FILE);
        let logged = Log::steps(&path)?;
        for (step, folder) in self.all()?.into_iter().rev() {
            let saved: std::result::Result<Saved<S, P>, String> = read(&folder)?;
            let damage = match &saved {
                Ok(saved) => saved.files.damage(&folder),
                Err(damage) => Some(damage.clone()),
            };
            let damage = damage
                .or_else(|| (logged < step).then(|| format!("{} holds {logged} of {step} steps", log::FILE)));
            let (Ok(saved), None) = (saved, &damage) else {
                warn(&folder, damage.as_deref().unwrap_or_default());
                continue;
            };
            check(&folder, &saved, compute, settings)?;
            let learner = Learner::resume(base, &folder, compute)?;
            let mut optimizer = new_optimizer(optimizer, &learner)?;
            let path_of_state = folder.join(OPTIMIZER);
            let state = candle_core::safetensors::load(&path_of_state, &candle_core::Device::Cpu);
            optimizer.restore(state.map_err(|error| Error::file(&path_of_state, error))?)?;
            let log = Log::open(&path, step)?;
            return Ok(Start { learner, optimizer, progress: saved.progress, log });
        }
        let learner = Learner::load(base, compute)?;
        let optimizer = new_optimizer(optimizer, &learner)?;
        Ok(Start { learner, optimizer, progress: P::default(), log: Log::open(&path, 0)? })
    }
}

/// An optimiser of a model's weights.
///
/// # Errors
/// A beginning of names to freeze fits no weight, or every weight is frozen.
fn new_optimizer(config: &AdamWConfig, learner: &Learner) -> Result<AdamW> {
    let weights = learner.parameters().all();
    let refuse = |message| Err(Error::Setting { field: "optimizer.freeze".to_owned(), message });
    let fits_none = |start: &&String| !weights.keys().any(|name| name.starts_with(start.as_str()));
    if let Some(start) = config.freeze.iter().find(fits_none) {
        let example = weights.keys().next_back().map(String::as_str).unwrap_or_default();
        return refuse(format!("holds `{start}`, with which no weight's name begins; one is `{example}`"));
    }
    let optimizer = AdamW::new(config.clone(), weights);
    if optimizer.weights().is_empty() {
        return refuse("holds the beginnings of all weights' names; leave out those to train".to_owned());
    }
    Ok(optimizer)
}

fn warn(folder: &Path, damage: &str) {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    tracing::warn!("checkpoint {name} is damaged: {damage}; going back to the one before it");
}

/// What a checkpoint says of itself; `Err` with what is wrong inside where it cannot be read.
///
/// # Errors
/// It was written by another version.
fn read<S: DeserializeOwned, P: DeserializeOwned>(
    folder: &Path,
) -> Result<std::result::Result<Saved<S, P>, String>> {
    let path = folder.join(PROGRESS);
    let value: serde_json::Value = match std::fs::read(&path) {
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(value) => value,
            Err(error) => return Ok(Err(format!("{PROGRESS}: {error}"))),
        },
        Err(error) => return Ok(Err(format!("{PROGRESS}: {error}"))),
    };
    let format = value.get("format").and_then(serde_json::Value::as_u64).unwrap_or(1);
    if format != u64::from(FORMAT) {
        let message = format!(
            "a checkpoint of format {format}, this version writes {FORMAT} and cannot resume from it; \
             remove the checkpoints to start the training over"
        );
        return Err(Error::file(&path, message));
    }
    serde_json::from_value(value).map(Ok).map_err(|error| Error::file(&path, error))
}

fn check<S: Serialize + PartialEq, P>(
    folder: &Path,
    saved: &Saved<S, P>,
    compute: &Compute,
    settings: &S,
) -> Result<()> {
    let mut differing = Vec::new();
    if saved.settings != *settings {
        differing = differences(folder, &saved.settings, settings)?;
    }
    let compute = compute.to_string();
    if saved.compute != compute {
        differing.push(format!("device and precision was {}, is {compute}", saved.compute));
    }
    if differing.is_empty() {
        return Ok(());
    }
    let message = format!("cannot resume: settings changed since the checkpoint: {}", differing.join("; "));
    Err(Error::file(&folder.join(PROGRESS), message))
}

/// Names of top-level settings that differ, with both values.
fn differences<S: Serialize>(folder: &Path, was: &S, is: &S) -> Result<Vec<String>> {
    let value = |settings: &S| serde_json::to_value(settings).map_err(|error| Error::file(folder, error));
    let (was, is) = (value(was)?, value(is)?);
    let fields = was.as_object().into_iter().flatten();
    let differing = fields.filter(|(name, value)| is[name.as_str()] != **value);
    Ok(differing.map(|(name, value)| format!("{name} was {value}, is {}", is[name.as_str()])).collect())
}
