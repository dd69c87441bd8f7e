//! `training.json` beside a training's log: its recipe, model and protocol. A report judges a claim about trainings only
//! against trainings that agree with it in these.

use std::path::Path;

use paravt_qwen_vl::config::{Config, Family};
use paravt_qwen_vl::weights::Weights;
use paravt_train::checkpoint::FINAL;
use paravt_train::durable;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// File name, in a training's folder and in a run directory.
pub const FILE: &str = "training.json";

/// Recipe, model and protocol of a training.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Name of the recipe.
    pub recipe: String,
    /// Weights of the model: elements of all tensors together.
    pub parameters: u64,
    /// Name of the protocol.
    pub protocol: String,
    /// Architecture, as `model_type` of the configuration has it.
    pub model: String,
}

/// Writes `training.json` for the finished model of a recipe in `out/final`.
///
/// # Errors
/// The model cannot be read, or the file cannot be written.
pub fn write(recipe: &str, out: &Path) -> Result<(), Error> {
    let model = out.join(FINAL);
    let weights = Weights::open(&model).map_err(paravt_train::Error::from)?;
    let config = Config::read(&model).map_err(paravt_train::Error::from)?;
    let identity = Identity {
        recipe: recipe.to_owned(),
        parameters: weights.elements() as u64,
        protocol: paravt_nano::protocol().name,
        model: match config.family {
            Family::Qwen25 => "qwen2_5_vl".to_owned(),
            Family::Qwen3 => "qwen3_vl".to_owned(),
        },
    };
    let path = out.join(FILE);
    let failed = |message: String| paravt_train::Error::File { path: path.clone(), message };
    let text = serde_json::to_string_pretty(&identity).map_err(|error| failed(error.to_string()))?;
    durable::write(&path, text.as_bytes()).map_err(|error| failed(error.to_string()))?;
    Ok(())
}
