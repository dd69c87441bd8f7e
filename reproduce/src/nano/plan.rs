//! The steps of the embedded reproduction, and those of them that need no evaluation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use paravt_suite::frames::FrameSource;
use paravt_train::rl::{self, RlConfig, RlStep, RlTask};
use paravt_train::sft::{self, SftConfig, SftStep};

use super::data::{Traces, prompts};
use super::{Error, NanoRecipe, NanoRun};
use crate::stage::Stage;

/// What a step does.
#[derive(Debug, Clone)]
pub enum Work {
    /// Unpacks the base checkpoint.
    Base,
    /// Generates the splits.
    World,
    /// Generates what is trained on.
    Data,
    /// Cold-start SFT.
    Sft {
        /// The settings.
        config: SftConfig,
    },
    /// Reinforcement learning after it.
    Rl {
        /// The settings.
        config: Box<RlConfig>,
        /// What it is, for people.
        title: String,
    },
    /// Runs all splits.
    Evaluate {
        /// How.
        run: NanoRun,
        /// Whose weights: a model folder.
        model: PathBuf,
    },
}

/// One step: its work and where its result is kept.
#[derive(Debug, Clone)]
pub struct Step {
    /// Where.
    pub stage: Stage,
    /// What.
    pub work: Work,
    /// Seed of the trainings it belongs to; `None` where all seeds share it.
    pub seed: Option<u64>,
}

/// Progress of a training step.
pub enum Told<'a> {
    /// Of SFT, with the number of steps in all.
    Sft(&'a SftStep, usize),
    /// Of reinforcement learning, likewise.
    Rl(&'a RlStep, usize),
}

/// All steps in order, for each seed; `full` adds the variants.
///
/// # Errors
/// A variant changes a field that does not exist, or a run names no model.
pub fn steps(recipe: &NanoRecipe, root: &Path, seeds: &[u64], full: bool) -> Result<Vec<Step>, Error> {
    let shared = |name: &str, work: Work, settings: serde_json::Value| Step {
        stage: Stage::new(root, name, &[], &settings),
        work,
        seed: None,
    };
    let base = shared("base", Work::Base, serde_json::json!(paravt_nano::base_sha256()));
    let world = shared("world", Work::World, serde_json::json!(recipe.world));
    let mut steps = vec![base.clone(), world.clone()];
    for &seed in seeds {
        let data = Step {
            stage: Stage::new(root, "data", &[], &(recipe.data, seed)),
            work: Work::Data,
            seed: Some(seed),
        };
        let config = SftConfig { seed, ..recipe.sft.clone() };
        let sft = Step {
            stage: Stage::new(root, "sft", &[&base.stage, &data.stage], &config),
            work: Work::Sft { config },
            seed: Some(seed),
        };
        let reinforce = |name: &str, title: &str, config: RlConfig| {
            let config = RlConfig { seed, ..config };
            Step {
                stage: Stage::new(root, name, &[&sft.stage, &data.stage], &config),
                work: Work::Rl { config: Box::new(config), title: title.to_owned() },
                seed: Some(seed),
            }
        };
        let mut models = vec![("sft".to_owned(), sft.stage.clone())];
        let mut trained = vec![reinforce("rl", "PARA-GRPO", recipe.rl.clone())];
        for variant in recipe.variants.iter().filter(|_| full) {
            trained.push(reinforce(&variant.name, &variant.title, recipe.variant(variant)?));
        }
        models.extend(trained.iter().map(|step| (step.stage.name().to_owned(), step.stage.clone())));
        steps.extend([data.clone(), sft.clone()]);
        steps.extend(trained);
        for run in recipe.runs.iter().filter(|run| full || !run.full) {
            let model = models.iter().find(|(name, _)| *name == run.model);
            let (_, model) = model.ok_or_else(|| Error::NoModel(run.name.clone(), run.model.clone()))?;
            let settings = serde_json::json!({ "evaluate": recipe.evaluate, "run": run });
            steps.push(Step {
                stage: Stage::new(root, &run.name, &[&world.stage, model], &settings),
                work: Work::Evaluate { run: run.clone(), model: model.folder().join("final") },
                seed: Some(seed),
            });
        }
    }
    Ok(steps)
}

impl Step {
    /// For people.
    pub fn title(&self) -> String {
        match &self.work {
            Work::Base => "the base checkpoint".to_owned(),
            Work::World => "generated videos and the seven splits".to_owned(),
            Work::Data => "videos, traces and prompts to train on".to_owned(),
            Work::Sft { config } => format!("cold-start SFT, {} steps", config.steps),
            Work::Rl { config, title } => format!("{title}, {} steps", config.steps),
            Work::Evaluate { run, .. } => format!("seven splits, {} ({})", run.name, run.mode),
        }
    }

    /// Does the work, unless it is an evaluation. `before` are the steps that came before it.
    ///
    /// # Errors
    /// What the stage ran into.
    pub fn execute(
        &self,
        recipe: &NanoRecipe,
        before: &[Step],
        frames: &Arc<dyn FrameSource>,
        mut tell: impl FnMut(Told<'_>),
    ) -> Result<(), Error> {
        let out = self.stage.folder();
        let input = |wanted: fn(&Work) -> bool| -> Result<&Path, Error> {
            let found = before.iter().rev().find(|step| wanted(&step.work));
            found.map(|step| step.stage.folder()).ok_or_else(|| Error::Order(self.stage.name().to_owned()))
        };
        let data = || input(|work| matches!(work, Work::Data));
        match &self.work {
            Work::Base => paravt_nano::write_base(out)?,
            Work::World => paravt_nano::make_world(out, &recipe.world())?,
            Work::Data => {
                paravt_nano::make_training(out, self.seed.unwrap_or_default(), &recipe.sizes())?;
            }
            Work::Sft { config } => {
                let root = data()?;
                let rows = Traces::read(root, frames)?;
                let base = input(|work| matches!(work, Work::Base))?;
                sft::train(base, out, Arc::new(rows), config, |step| tell(Told::Sft(step, config.steps)))?;
            }
            Work::Rl { config, .. } => {
                let root = data()?;
                let task = RlTask {
                    prompts: prompts(root)?,
                    protocol: Arc::new(paravt_nano::protocol()),
                    frames: Arc::clone(frames),
                };
                let base = input(|work| matches!(work, Work::Sft { .. }))?.join("final");
                rl::train(&base, out, &task, config, |step| tell(Told::Rl(step, config.steps)))?;
            }
            Work::Evaluate { .. } => return Err(Error::Order(self.stage.name().to_owned())),
        }
        Ok(())
    }
}
