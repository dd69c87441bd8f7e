//! Reinforcement learning in this process, and rollouts of a model that nothing trains.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use paravt_nano::{Prompt, read_prompts};
use paravt_train::log::{self, Log};
use paravt_train::reward::QuestionType;
use paravt_train::rl::{self, RlConfig, RlStep, RlTask};
use paravt_train::rollout::RlPrompt;

use super::evaluate::copy;
use super::sft::TRAINER;
use super::training_record::record;
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
        // What it began from is shown beside it.
        copy(&self.model.with_file_name(log::FILE), &folder.join(paravt_reports::BEFORE))?;
        Ok(Outcome::Complete)
    }
}

/// Rolls out the first prompts of the training data, once: what a training starts from, and what one that forced a
/// prefix has made.
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

/// The prompts of a folder of training data, with what every rollout of the miniature needs.
fn task(data: &Path, context: &StageContext<'_>) -> Result<RlTask, Error> {
    Ok(RlTask {
        prompts: prompts(data)?,
        protocol: Arc::new(paravt_nano::protocol()),
        frames: Arc::clone(&context.options.frames),
        compute: context.options.compute.clone(),
    })
}

/// The prompts of a training world.
///
/// # Errors
/// The file cannot be read.
pub fn prompts(root: &Path) -> Result<Vec<RlPrompt>, Error> {
    let prompt = |prompt: Prompt| RlPrompt {
        sample: prompt.sample,
        answer: prompt.answer,
        question: QuestionType::from_name(&prompt.question_type),
        duration: prompt.duration,
    };
    let read = read_prompts(&root.join(paravt_nano::RL_FILE), root)?;
    Ok(read.into_iter().map(prompt).collect())
}
