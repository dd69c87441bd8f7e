//! The steps of the embedded reproduction, and those of them that need no evaluation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use paravt_suite::frames::FrameSource;
use paravt_train::Compute;
use paravt_train::rl::{self, RlConfig, RlStep, RlTask};
use paravt_train::sft::{self, SftConfig, SftStep};

use super::data::{Traces, prompts};
use super::{Error, NanoRecipe, NanoRun, identity};
use crate::stage::{Code, Stage};

/// Changes when what is generated for the splits does.
const WORLD: u32 = 2;
/// Name of the model that nothing was trained into yet.
pub(super) const BASE: &str = "base";

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
        /// What it is.
        title: String,
        /// What the paper says of it.
        paper: Option<String>,
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

/// All steps in order, for each seed; `full` adds the variants. Where all runs are of the base checkpoint
/// nothing is trained.
///
/// # Errors
/// A variant changes a field that does not exist, or a run names no model.
pub fn steps(recipe: &NanoRecipe, root: &Path, seeds: &[u64], full: bool) -> Result<Vec<Step>, Error> {
    let shared = |name: &str, work: Work, settings: serde_json::Value| Step {
        stage: Stage::new(root, name, &[], &settings, Code::World),
        work,
        seed: None,
    };
    let base = shared("base", Work::Base, serde_json::json!(paravt_nano::base_sha256()));
    let world = shared("world", Work::World, serde_json::json!((recipe.world, WORLD)));
    let mut steps = vec![base.clone(), world.clone()];
    let runs: Vec<&NanoRun> = recipe.runs.iter().filter(|run| full || !run.full).collect();
    for &seed in seeds {
        let mut evaluations = Vec::new();
        // Where a model is kept, by its name.
        let mut models = vec![(BASE.to_owned(), &base, base.stage.folder().to_owned())];
        let trained = match runs.iter().any(|run| run.model != BASE) {
            true => trainings(recipe, root, seed, &base, full)?,
            false => Vec::new(),
        };
        let made = trained.iter().filter(|step| !matches!(step.work, Work::Data));
        models
            .extend(made.map(|step| (step.stage.name().to_owned(), step, step.stage.folder().join("final"))));
        for run in &runs {
            let model = models.iter().find(|(name, ..)| *name == run.model);
            let (_, step, model) =
                model.ok_or_else(|| Error::NoModel(run.name.clone(), run.model.clone()))?;
            let settings = serde_json::json!({ "evaluate": recipe.evaluate, "run": run });
            evaluations.push(Step {
                stage: Stage::new(root, &run.name, &[&world.stage, &step.stage], &settings, Code::Evaluation),
                work: Work::Evaluate { run: (*run).clone(), model: model.clone() },
                seed: Some(seed),
            });
        }
        steps.extend(trained);
        steps.append(&mut evaluations);
    }
    Ok(steps)
}

/// Data, cold start and reinforcement learning of a seed; `full` adds the variants.
fn trainings(
    recipe: &NanoRecipe,
    root: &Path,
    seed: u64,
    base: &Step,
    full: bool,
) -> Result<Vec<Step>, Error> {
    let data = Step {
        stage: Stage::new(root, "data", &[], &(recipe.data, seed), Code::World),
        work: Work::Data,
        seed: Some(seed),
    };
    let config = SftConfig { seed, ..recipe.sft.clone() };
    let sft = Step {
        stage: Stage::new(root, "sft", &[&base.stage, &data.stage], &config, Code::Training),
        work: Work::Sft { config },
        seed: Some(seed),
    };
    let reinforce = |name: &str, title: &str, paper: &Option<String>, config: RlConfig| {
        let config = RlConfig { seed, ..config };
        Step {
            stage: Stage::new(root, name, &[&sft.stage, &data.stage], &config, Code::Training),
            work: Work::Rl { config: Box::new(config), title: title.to_owned(), paper: paper.clone() },
            seed: Some(seed),
        }
    };
    let mut steps = vec![reinforce("rl", "PARA-GRPO", &recipe.rl_paper, recipe.rl.clone())];
    for variant in recipe.variants.iter().filter(|_| full) {
        steps.push(reinforce(&variant.name, &variant.title, &variant.paper, recipe.variant(variant)?));
    }
    steps.splice(0..0, [data, sft]);
    Ok(steps)
}

impl Step {
    /// One line about it.
    pub fn title(&self) -> String {
        match &self.work {
            Work::Base => "the base checkpoint".to_owned(),
            Work::World => "generated videos and the seven splits".to_owned(),
            Work::Data => "videos, traces and prompts to train on".to_owned(),
            Work::Sft { config } => format!("cold-start SFT, {} steps", config.steps),
            Work::Rl { config, title, .. } => format!("{title}, {} steps", config.steps),
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
        compute: &Compute,
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
                let tell = |step: &SftStep| tell(Told::Sft(step, config.steps));
                sft::train(base, out, Arc::new(rows), config, compute, tell)?;
                identity::write(recipe, out)?;
            }
            Work::Rl { config, .. } => {
                let root = data()?;
                let task = RlTask {
                    prompts: prompts(root)?,
                    protocol: Arc::new(paravt_nano::protocol()),
                    frames: Arc::clone(frames),
                    compute: compute.clone(),
                };
                let base = input(|work| matches!(work, Work::Sft { .. }))?.join("final");
                rl::train(&base, out, &task, config, |step| tell(Told::Rl(step, config.steps)))?;
                identity::write(recipe, out)?;
            }
            Work::Evaluate { .. } => return Err(Error::Order(self.stage.name().to_owned())),
        }
        Ok(())
    }
}
