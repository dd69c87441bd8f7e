//! The model folder of one checkpoint of reinforcement learning.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::{JobContext, Outcome, Update, files, merge, rl, weights};

/// The choice of a checkpoint by its step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Folder of the stage of reinforcement learning.
    pub rl: PathBuf,
    /// The checkpoint's step, counted from 0 as in its name.
    pub step: usize,
    /// Folder of the model that names and shapes are compared with.
    pub base: PathBuf,
}

impl Job {
    /// Links or copies the checkpoint and verifies it.
    pub(crate) fn run(&self, context: &mut JobContext<'_>) -> Result<Outcome> {
        let saves = rl::saves(&self.rl)?;
        let found = saves.iter().rev().find(|save| save.step == self.step);
        let save = found.ok_or_else(|| {
            let steps: Vec<String> = saves.iter().map(|save| save.step.to_string()).collect();
            let message = format!("no checkpoint of step {} (there are {})", self.step, steps.join(", "));
            Error::weights(&self.rl, message)
        })?;
        let model = merge::model(context.folder);
        files::link_folder(&save.path, &model)?;
        let made = weights::verify(&model, &self.base)?;
        (context.observer)(Update::Note(&made.to_string()));
        Ok(Outcome::Complete)
    }
}
