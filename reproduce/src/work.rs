//! The stages that this library runs itself: generated data and training in this process.

use std::path::Path;
use std::sync::Arc;

use paravt_engines::Job;
use paravt_qwen_vl::weights::Weights;
use paravt_suite::frames::FrameSource;
use paravt_train::Compute;
use paravt_train::checkpoint::FINAL;
use paravt_train::durable;
use paravt_train::log::FILE as TRAINING;
use paravt_train::rl::{self, RlStep, RlTask};
use paravt_train::sft::{self, SftStep};
use serde_json::json;

use crate::error::Error;
use crate::graph::{Evaluation, Graph, Reinforcement, Stage, Work};
use crate::launched::Launch;
use crate::nano::base::Lessons;
use crate::nano::data::{Traces, prompts};
use crate::nano::identity;

/// Name of the protocol of the release's own rollouts.
const UPSTREAM: &str = "paravt";

/// A finished step of a training, and the number of steps in all.
pub enum Progress<'a> {
    /// Of SFT.
    Sft(&'a SftStep, usize),
    /// Of reinforcement learning.
    Rl(&'a RlStep, usize),
    /// Of a training in another program.
    Launched(&'a paravt_engines::Step, usize),
}

impl Progress<'_> {
    /// Steps done and steps in all.
    pub fn steps(&self) -> (usize, usize) {
        match self {
            Self::Sft(step, all) => (step.step, *all),
            Self::Rl(step, all) => (step.step, *all),
            Self::Launched(step, all) => (step.step, *all),
        }
    }
}

impl std::fmt::Display for Progress<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (done, all) = self.steps();
        match self {
            Self::Sft(step, _) => {
                write!(f, "step {done}/{all}, loss {:.3}, {:.0} tokens/s", step.loss, step.tokens_per_second)
            }
            Self::Rl(step, _) => {
                let figure = |name: &str| step.figures.get(name).copied().unwrap_or_default();
                write!(
                    f,
                    "step {done}/{all}, reward {:.2}, accuracy {:.2}, f_tau {:.2}, kappa {:.2}",
                    figure("reward"),
                    figure("reward_accuracy"),
                    figure("f_tau"),
                    figure("kappa")
                )
            }
            Self::Launched(step, _) => {
                write!(f, "step {done}/{all}")?;
                let names = ["reward", "reward_accuracy", "f_tau", "kappa", "loss"];
                let shown = names.iter().filter_map(|name| Some((name, step.figure(name)?)));
                shown.take(4).try_for_each(|(name, value)| write!(f, ", {name} {value:.3}"))
            }
        }
    }
}

/// A stage that is being done.
pub(crate) struct Context<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) stage: &'a Stage,
    /// Folder of the stage's result.
    pub(crate) out: &'a Path,
    /// Frames of the videos that are trained on.
    pub(crate) frames: &'a Arc<dyn FrameSource>,
    /// Where and in what to train.
    pub(crate) compute: &'a Compute,
}

impl Context<'_> {
    /// Runs the stage; resumes where an earlier run was killed.
    pub(crate) fn execute(&self, progress: &mut dyn FnMut(&Progress<'_>)) -> Result<(), Error> {
        match self.stage.work() {
            Work::Base => paravt_nano::write_base(self.out)?,
            Work::World(world) => paravt_nano::make_world(self.out, world)?,
            Work::Data(data) => {
                let seed = self.stage.seed().unwrap_or_default();
                paravt_nano::make_training(self.out, seed, data)?;
            }
            Work::Fresh(seed) => paravt_nano::write_model(self.out, *seed)?,
            Work::Sft(config) => {
                let root = self.input(|work| matches!(work, Work::Data(_)))?;
                let rows = Arc::new(Traces::read(root, self.frames)?);
                let base = self.input(|work| matches!(work, Work::Base))?;
                let progress = |step: &SftStep| progress(&Progress::Sft(step, config.steps));
                sft::train(base, self.out, rows, config, self.compute, progress)?;
                identity::write(&self.graph.recipe, self.out)?;
            }
            Work::Curriculum(config) => {
                let fresh = self.input(|work| matches!(work, Work::Fresh(_)))?;
                let lessons = Arc::new(Lessons { seed: config.seed });
                let progress = |step: &SftStep| progress(&Progress::Sft(step, config.steps));
                sft::train(fresh, self.out, lessons, config, self.compute, progress)?;
            }
            Work::Rl(training) => self.reinforce(training, progress)?,
            Work::Exam(_)
            | Work::Check(_)
            | Work::Fetch(_)
            | Work::Prepare(_)
            | Work::Materialize
            | Work::Launch(_)
            | Work::Serve(_)
            | Work::Outside(_)
            | Work::Evaluate(_)
            | Work::Report(_) => {
                return Err(Error::Order(self.stage.name().to_owned()));
            }
        }
        Ok(())
    }

    fn reinforce(
        &self,
        Reinforcement { config, .. }: &Reinforcement,
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<(), Error> {
        let task = RlTask {
            prompts: prompts(self.input(|work| matches!(work, Work::Data(_)))?)?,
            protocol: Arc::new(paravt_nano::protocol()),
            frames: Arc::clone(self.frames),
            compute: self.compute.clone(),
        };
        let base = self.input(|work| matches!(work, Work::Sft(_)))?.join(FINAL);
        rl::train(&base, self.out, &task, config, |step| progress(&Progress::Rl(step, config.steps)))?;
        identity::write(&self.graph.recipe, self.out)
    }

    /// Folder of the first input of a kind.
    fn input(&self, is_wanted: fn(&Work) -> bool) -> Result<&Path, Error> {
        let mut inputs = self.graph.inputs(self.stage).filter(|input| is_wanted(input.work()));
        let folder = inputs.find_map(Stage::folder);
        folder.ok_or_else(|| Error::Order(self.stage.name().to_owned()))
    }
}

/// Puts a checkpoint's training curves, and the description of the training, beside its first split, where the
/// report finds them.
pub(crate) fn show_training(graph: &Graph, stage: &Stage, evaluation: &Evaluation) -> Result<(), Error> {
    let (Some(split), Some(out)) = (evaluation.splits.first(), stage.folder()) else { return Ok(()) };
    let run = out.join(split);
    if let Some(model) = &evaluation.model {
        for name in [TRAINING, identity::FILE] {
            copy(&model.with_file_name(name), &run.join(name))?;
        }
        return Ok(());
    }
    // A model that other programs trained: the stages that the evaluation's servers build on.
    let training = before(graph, stage, |launch| launch.about.is_some());
    let made = before(graph, stage, |launch| matches!(launch.job, Job::Pick(_) | Job::Merge(_)));
    if let (Some((folder, Launch { about: Some(about), .. })), Some((made, _))) = (training, made)
        && run.is_dir()
    {
        copy(&folder.join(TRAINING), &run.join(TRAINING))?;
        let model = paravt_engines::merge::model(made);
        let weights = Weights::open(&model).map_err(paravt_train::Error::from)?;
        let text = json!({
            "recipe": about.recipe,
            "model": about.base_model,
            "parameters": weights.elements(),
            "protocol": UPSTREAM,
            "seed": about.seed,
        });
        let path = run.join(identity::FILE);
        let written = durable::write(&path, format!("{text:#}\n").as_bytes());
        written.map_err(|source| Error::Write { path, source })?;
    }
    Ok(())
}

/// The nearest training stage of a kind that a stage builds on, with its folder.
fn before<'a>(
    graph: &'a Graph,
    stage: &'a Stage,
    is_wanted: fn(&Launch) -> bool,
) -> Option<(&'a Path, &'a Launch)> {
    let mut open: Vec<&Stage> = graph.inputs(stage).collect();
    while !open.is_empty() {
        let found = open.iter().find_map(|stage| match stage.work() {
            Work::Launch(launch) if is_wanted(launch) => Some((stage.folder()?, &**launch)),
            _ => None,
        });
        if found.is_some() {
            return found;
        }
        open = open.into_iter().flat_map(|stage| graph.inputs(stage)).collect();
    }
    None
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    if !from.is_file() {
        return Ok(());
    }
    let copied = std::fs::read(from).and_then(|bytes| durable::write(to, &bytes));
    copied.map_err(|source| Error::Write { path: to.to_owned(), source })
}
