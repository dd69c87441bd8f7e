//! `training.json` beside a training's log: its recipe, model and protocol. A report judges a claim about trainings only
//! against trainings that agree with it in these.

use std::path::Path;

use paravt_qwen_vl::config::{Config, Family};
use paravt_qwen_vl::weights::Weights;
use paravt_train::checkpoint::FINAL;
use serde::Serialize;

use crate::error::Error;

/// File name, in a training's folder and in a run directory.
pub(super) const FILE: &str = "training.json";

/// Recipe, model and protocol of a training.
#[derive(Debug, Serialize)]
pub(super) struct TrainingRecord<'a> {
    pub(super) recipe: &'a str,
    /// Name of the model, or its architecture where it has no name.
    pub(super) model: &'a str,
    /// Weights of the model: elements of all tensors together.
    pub(super) parameters: usize,
    pub(super) protocol: &'a str,
    /// Seed, where it is not that of the stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seed: Option<u64>,
}

impl TrainingRecord<'_> {
    /// Writes it into a folder.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, folder: &Path) -> Result<(), Error> {
        let path = folder.join(FILE);
        let written =
            paravt_files::write_atomic(&path, format!("{:#}\n", serde_json::json!(self)).as_bytes());
        written.map_err(|source| Error::Write { path, source })
    }
}

/// The number of weights of a model folder.
///
/// # Errors
/// The model cannot be read.
pub(super) fn parameters(model: &Path) -> Result<usize, Error> {
    Ok(Weights::open(model).map_err(paravt_train::Error::from)?.elements())
}

/// Describes the finished training of a recipe in `folder`.
pub(super) fn record(recipe: &str, folder: &Path) -> Result<(), Error> {
    let model = folder.join(FINAL);
    let config = Config::read(&model).map_err(paravt_train::Error::from)?;
    let architecture = match config.family {
        Family::Qwen25 => "qwen2_5_vl",
        Family::Qwen3 => "qwen3_vl",
    };
    let (parameters, protocol) = (parameters(&model)?, paravt_nano::protocol().name);
    TrainingRecord { recipe, model: architecture, parameters, protocol: &protocol, seed: None }.write(folder)
}
