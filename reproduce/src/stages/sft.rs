//! Cold-start SFT in this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use paravt_qwen_vl::config::{Config, Family};
use paravt_train::checkpoint::FINAL;
use paravt_train::sft::{self, SftConfig, SftStep};

use super::rows::Traces;
use super::training_record::{TrainingRecord, parameters};
use crate::error::Error;
use crate::host::{Event, Outcome};
use crate::progress::Progress;
use crate::slot::Key;
use crate::work::{StageContext, Work};

/// Version of the trainer; the next number where the same settings give other weights.
pub(super) const TRAINER: &str = "training-1";

/// Cold-start SFT.
#[derive(Debug, Clone)]
pub struct Sft {
    pub config: SftConfig,
    /// Folder of the base checkpoint.
    pub base: PathBuf,
    /// Folder of the training data.
    pub data: PathBuf,
}

impl Work for Sft {
    fn title(&self) -> String {
        format!("cold-start SFT, {} steps", self.config.steps)
    }

    fn key(&self) -> Option<Key> {
        Some(Key::new(TRAINER, &self.config))
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        let rows = Arc::new(Traces::read(&self.data, &context.options.frames)?);
        let (folder, compute) = (context.folder, &context.options.compute);
        let recipe = context.recipe;
        let progress = |step: &SftStep| {
            (context.event)(Event::Progress(&Progress::Sft(step, self.config.steps)));
        };
        sft::train(&self.base, folder, rows, &self.config, compute, progress)?;
        record(recipe, folder)?;
        Ok(Outcome::Complete)
    }
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
