//! Rollouts of a model as it is: what a training starts from, and what one that forced a prefix has made.

use std::path::PathBuf;

use paravt_train::log::{self, Log};
use paravt_train::rl::{self, RlConfig};

use super::rl::task;
use super::sft::TRAINER;
use crate::error::Error;
use crate::host::Outcome;
use crate::slot::Key;
use crate::work::{StageContext, Work};

/// Rolls out the first prompts of the training data, once.
#[derive(Debug, Clone)]
pub struct Measurement {
    /// Settings of rollouts and reward; the others have no effect.
    pub config: Box<RlConfig>,
    pub model: PathBuf,
    /// Folder of the training data.
    pub data: PathBuf,
    pub prompts: usize,
}

impl Work for Measurement {
    fn title(&self) -> String {
        format!("rollouts of {} prompts with nothing forced", self.prompts)
    }

    fn key(&self) -> Option<Key> {
        Some(Key::new(TRAINER, (&self.config, self.prompts)))
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        let task = task(&self.data, context)?;
        let figures = rl::measure(&self.model, &task, &self.config, self.prompts)?;
        let figures: Vec<(&str, f64)> = figures.into_iter().collect();
        Log::open(&context.folder.join(log::FILE), 0)?.add(1, &figures)?;
        Ok(Outcome::Complete)
    }
}
