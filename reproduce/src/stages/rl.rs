//! Reinforcement learning in this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use paravt_train::rl::{self, RlConfig, RlStep, RlTask};

use super::rows::prompts;
use super::sft::{TRAINER, record};
use crate::error::Error;
use crate::host::{Event, Outcome};
use crate::progress::Progress;
use crate::slot::Key;
use crate::work::{StageContext, Work};

/// A reinforcement learning after SFT.
#[derive(Debug, Clone)]
pub struct Reinforcement {
    pub config: Box<RlConfig>,
    /// One line about it.
    pub title: String,
    /// What the paper reports for it.
    pub paper: Option<String>,
    /// Folder of the model that it starts from.
    pub model: PathBuf,
    /// Folder of the training data.
    pub data: PathBuf,
}

impl Work for Reinforcement {
    fn title(&self) -> String {
        format!("{}, {} steps", self.title, self.config.steps)
    }

    fn key(&self) -> Option<Key> {
        Some(Key::new(TRAINER, &self.config))
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        let task = task(&self.data, context)?;
        let (folder, recipe) = (context.folder, context.recipe);
        let progress = |step: &RlStep| {
            (context.event)(Event::Progress(&Progress::Rl(step, self.config.steps)));
        };
        rl::train(&self.model, folder, &task, &self.config, progress)?;
        record(recipe, folder)?;
        Ok(Outcome::Complete)
    }
}

/// The prompts of a folder of training data, with what every rollout of the miniature needs.
pub(super) fn task(data: &Path, context: &StageContext<'_>) -> Result<RlTask, Error> {
    Ok(RlTask {
        prompts: prompts(data)?,
        protocol: Arc::new(paravt_nano::protocol()),
        frames: Arc::clone(&context.options.frames),
        compute: context.options.compute.clone(),
    })
}
