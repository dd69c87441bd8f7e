//! A recipe as a graph of stages, each with its work, its inputs and the folder of its result.

use std::ops::Index;
use std::path::{Path, PathBuf};

use paravt_nano::{TrainingSizes, WorldOptions};
use paravt_suite::evaluate::RunConfig;
use paravt_train::rl::RlConfig;
use paravt_train::sft::SftConfig;
use serde_json::{Value, json};

use crate::launched::Launch;
use crate::prepare::Prepare;
use crate::provide::{Estimate, Fetch, Preflight};
use crate::serve::{Engine, Fleet};
use crate::slot::{Code, Slot};

/// A stage of one graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageId(usize);

/// The stages of a recipe, each after those it builds on.
#[derive(Debug, Clone)]
pub struct Graph {
    /// Name of the recipe.
    pub recipe: String,
    /// One line about the recipe.
    pub title: String,
    /// Folder of everything that is made.
    pub out: PathBuf,
    /// Folder of the stages' results.
    root: PathBuf,
    stages: Vec<Stage>,
}

/// One stage.
#[derive(Debug, Clone)]
pub struct Stage {
    name: String,
    /// Names that `--only` also knows the stage by.
    tags: Vec<String>,
    /// Seed of the training that the stage belongs to; `None` where all seeds share it.
    seed: Option<u64>,
    inputs: Vec<StageId>,
    work: Work,
    slot: Option<Slot>,
    deviations: Vec<String>,
    estimate: Estimate,
}

/// What a stage does.
#[derive(Debug, Clone)]
pub enum Work {
    /// Unpacks the base checkpoint of the embedded recipe.
    Base,
    /// Generates the splits.
    World(WorldOptions),
    /// Generates what is trained on.
    Data(TrainingSizes),
    /// Cold-start SFT.
    Sft(SftConfig),
    /// Reinforcement learning after it.
    Rl(Reinforcement),
    /// Writes a model of random weights.
    Fresh(u64),
    /// Trains on the endless curriculum.
    Curriculum(SftConfig),
    /// Asks a model rows of the curriculum that it was not trained on, so many of each kind.
    Exam(usize),
    /// Checks something that the stages after it need.
    Check(Check),
    /// Downloads the data and models that are missing on this machine.
    Fetch(Fetch),
    /// Writes the training rows with the paths of this machine.
    Materialize,
    /// Makes the checkout of the release, or environments of it.
    Prepare(Box<Prepare>),
    /// A training stage of another program, launched and watched here.
    Launch(Box<Launch>),
    /// Serves a model to each evaluation that builds on it, for as long as that takes.
    Serve(Fleet),
    /// Runs in another program; this version only describes it.
    Outside(Box<Outside>),
    /// Runs splits on one model.
    Evaluate(Box<Evaluation>),
    /// Reports the evaluations.
    Report(Reporting),
}

/// A reinforcement learning.
#[derive(Debug, Clone)]
pub struct Reinforcement {
    /// The settings.
    pub config: Box<RlConfig>,
    /// One line about it.
    pub title: String,
    /// What the paper reports for it.
    pub paper: Option<String>,
}

/// Work of another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outside {
    /// One line about it.
    pub title: String,
    /// Its command.
    pub command: Option<String>,
    /// Variables of its environment.
    pub environment: Vec<(String, String)>,
    /// What it makes.
    pub output: Option<String>,
    /// What this version lacks to run it.
    pub missing: String,
}

/// A precondition of later stages.
#[derive(Debug, Clone, PartialEq)]
pub enum Check {
    /// The machine has what the recipe needs.
    Machine(Box<Preflight>),
    /// The upstream texts are imported; where they are not, they are imported from this repository.
    Protocol(String),
    /// The texts of another protocol, by its name, can be read.
    OtherProtocol(String),
    /// The annotations of these splits can be read.
    Data(Vec<String>),
    /// The model answers behind a server or backend of the user, named by these flags.
    Backend(String),
}

/// Splits to run on one model.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// Splits by name, in order.
    pub splits: Vec<String>,
    /// How they are evaluated.
    pub config: RunConfig,
    /// Model folder that is loaded in this process; `None` for a model behind a server.
    pub model: Option<PathBuf>,
    /// Generated data root; `None` for the published files.
    pub world: Option<PathBuf>,
    /// One line about it.
    pub title: String,
    /// What the answers depend on; part of the hash in the folder's name.
    pub settings: Value,
    /// Samples of each split that are asked at most.
    pub limit: Option<usize>,
}

/// What is reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporting {
    /// Page to write; without one it is `report/index.html` in the folder of the recipe.
    pub page: Option<PathBuf>,
    /// Row of the published table.
    pub paper_row: Option<String>,
}

impl Graph {
    /// A graph without stages. `stages` is the name of the folder of their results below `out`.
    pub fn new(recipe: &str, title: &str, out: &Path, stages: &str) -> Self {
        Self {
            recipe: recipe.to_owned(),
            title: title.to_owned(),
            out: out.to_owned(),
            root: out.join(stages),
            stages: Vec::new(),
        }
    }

    /// Appends a stage that builds on `inputs`.
    pub fn add(&mut self, name: &str, seed: Option<u64>, inputs: &[StageId], work: Work) -> StageId {
        let slot = work.code().map(|code| {
            let before: Vec<&Slot> = inputs.iter().filter_map(|input| self[*input].slot.as_ref()).collect();
            let limit = match &work {
                Work::Evaluate(evaluation) => evaluation.limit,
                _ => None,
            };
            Slot::new(&self.root, name, &before, &work.settings(seed), code).limited(limit)
        });
        let (name, inputs) = (name.to_owned(), inputs.to_vec());
        let gb = match &work {
            Work::Fetch(fetch) => Some(fetch.gb() as f64),
            Work::Prepare(prepare) => prepare.gb(),
            _ => None,
        };
        self.stages.push(Stage {
            name,
            tags: Vec::new(),
            seed,
            inputs,
            work,
            slot,
            deviations: Vec::new(),
            estimate: Estimate { gb, hours: None },
        });
        StageId(self.stages.len() - 1)
    }

    /// Makes `--only` know a stage by further names.
    pub fn tag(&mut self, stage: StageId, tags: &[&str]) {
        self.stages[stage.0].tags.extend(tags.iter().map(|&tag| tag.to_owned()));
    }

    /// Notes what a stage does otherwise than the published code.
    pub fn deviates(&mut self, stage: StageId, from_release: &[&str]) {
        self.stages[stage.0].deviations.extend(from_release.iter().map(|&text| text.to_owned()));
    }

    /// What a stage does otherwise than the published code, with the stages that do their work within it.
    pub fn deviations(&self, stage: &Stage) -> Vec<String> {
        let within = self.inputs(stage).filter(|input| input.slot.is_none());
        let all = within.chain([stage]).flat_map(|stage| &stage.deviations);
        all.cloned().collect()
    }

    /// Notes the size and time of a stage, as far as they are given.
    pub fn estimate(&mut self, stage: StageId, Estimate { gb, hours }: Estimate) {
        let known = &mut self.stages[stage.0].estimate;
        *known = Estimate { gb: gb.or(known.gb), hours: hours.or(known.hours) };
    }

    /// Notes what the environments of a stage hold otherwise than the release's.
    pub(crate) fn prepare_deviates(&mut self, stage: StageId) {
        if let Work::Prepare(prepare) = &self.stages[stage.0].work {
            let deviations = prepare.deviations();
            self.stages[stage.0].deviations.extend(deviations);
        }
    }

    /// All stages in order.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// The first stage of some work.
    pub(crate) fn find(&self, is_wanted: impl Fn(&Work) -> bool) -> Option<StageId> {
        self.stages.iter().position(|stage| is_wanted(&stage.work)).map(StageId)
    }

    /// The stages that a stage builds on.
    pub fn inputs(&self, stage: &Stage) -> impl Iterator<Item = &Stage> {
        stage.inputs.iter().map(|input| &self[*input])
    }

    /// GPUs that a stage uses: those of its servers, or of the training that it launches.
    pub fn gpus(&self, stage: &Stage) -> usize {
        match stage.work() {
            Work::Launch(launch) => launch.job.gpus(),
            _ => self.fleet(stage).map_or(0, |fleet| fleet.gpus.len()),
        }
    }

    /// The fleet that answers an evaluation, where this program starts it.
    pub(crate) fn fleet(&self, stage: &Stage) -> Option<&Fleet> {
        let mut inputs = self.inputs(stage).filter(|_| stage.work().is_served());
        inputs.find_map(|input| match input.work() {
            Work::Serve(fleet) => Some(fleet),
            _ => None,
        })
    }

    /// All evaluations with the folders of their runs.
    pub fn evaluations(&self) -> impl Iterator<Item = (&Stage, &Evaluation, &Path)> {
        self.stages.iter().filter_map(|stage| match &stage.work {
            Work::Evaluate(evaluation) => Some((stage, &**evaluation, stage.folder()?)),
            _ => None,
        })
    }
}

impl Index<StageId> for Graph {
    type Output = Stage;

    fn index(&self, id: StageId) -> &Stage {
        &self.stages[id.0]
    }
}

impl Stage {
    /// Its name; the same for each seed.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Seed of the training that it belongs to; `None` where all seeds share it.
    pub fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// Where the stages that it builds on are in the graph.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = usize> {
        self.inputs.iter().map(|input| input.0)
    }

    /// What it does.
    pub fn work(&self) -> &Work {
        &self.work
    }

    /// Where its result is kept; `None` for a stage that is done every time.
    pub fn slot(&self) -> Option<&Slot> {
        self.slot.as_ref()
    }

    /// Folder of its result; `None` for a stage that is done every time.
    pub fn folder(&self) -> Option<&Path> {
        self.slot.as_ref().map(Slot::folder)
    }

    /// What it does otherwise than the published code.
    pub fn deviations(&self) -> &[String] {
        &self.deviations
    }

    /// Its size and time as far as they are known beforehand.
    pub fn estimate(&self) -> Estimate {
        self.estimate
    }

    /// Whether `--only NAME` means this stage.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.tags.iter().any(|tag| tag == name)
    }

    /// Its name, with its seed where it has one.
    pub fn label(&self) -> String {
        self.seed.map_or_else(|| self.name.clone(), |seed| format!("{}, seed {seed}", self.name))
    }

    /// Of an evaluation of one split, the name of its run, which it shares with those of the other splits.
    pub(crate) fn family(&self) -> Option<&str> {
        self.tags.first().filter(|_| self.work.is_served()).map(String::as_str)
    }

    /// Its name and one line about it.
    pub fn line(&self) -> String {
        let seed = self.seed.map(|seed| format!(", seed {seed}")).unwrap_or_default();
        format!("{:<18} {}{seed}", self.name, self.work.title())
    }
}

impl Work {
    /// The code that its result depends on; `None` for work that is done every time.
    fn code(&self) -> Option<Code> {
        match self {
            Self::Base | Self::World(_) | Self::Data(_) | Self::Fresh(_) => Some(Code::World),
            Self::Sft(_) | Self::Rl(_) | Self::Curriculum(_) => Some(Code::Training),
            Self::Fetch(_) => Some(Code::Fetched),
            Self::Materialize => Some(Code::Materialized),
            Self::Launch(_) => Some(Code::Launched),
            Self::Evaluate(_) if self.is_served() => Some(Code::Served),
            Self::Prepare(_) => Some(Code::Release),
            Self::Evaluate(_) => Some(Code::Evaluation),
            Self::Exam(_) | Self::Check(_) | Self::Serve(_) | Self::Outside(_) | Self::Report(_) => None,
        }
    }

    /// What its result depends on beside its inputs; part of the hash in the folder's name.
    fn settings(&self, seed: Option<u64>) -> Value {
        match self {
            Self::Base => json!(paravt_nano::base_sha256()),
            Self::World(world) => json!((world, paravt_nano::WORLD_VERSION)),
            Self::Data(data) => json!((data, seed.unwrap_or_default())),
            Self::Sft(config) | Self::Curriculum(config) => json!(config),
            Self::Rl(training) => json!(training.config),
            Self::Fresh(seed) => json!(seed),
            Self::Fetch(fetch) => json!(fetch),
            Self::Materialize => json!("plain paths"),
            Self::Launch(launch) => launch.key.clone(),
            Self::Evaluate(evaluation) => evaluation.settings.clone(),
            Self::Prepare(prepare) => prepare.settings(),
            Self::Exam(_) | Self::Check(_) | Self::Serve(_) | Self::Outside(_) | Self::Report(_) => {
                Value::Null
            }
        }
    }

    /// Damage to a result outside the stage's folder (checkout, environments); `None` where it is complete.
    pub(crate) fn damage(&self, out: &Path) -> Option<String> {
        match self {
            Self::Prepare(prepare) => prepare.damage(out),
            _ => None,
        }
    }

    /// Whether it asks a model behind a server.
    pub fn is_served(&self) -> bool {
        matches!(self, Self::Evaluate(evaluation) if evaluation.model.is_none())
    }

    /// One line about it.
    pub fn title(&self) -> String {
        match self {
            Self::Base => "the base checkpoint".to_owned(),
            Self::World(_) => "generated videos and the seven splits".to_owned(),
            Self::Data(_) => "videos, traces and prompts to train on".to_owned(),
            Self::Sft(config) => format!("cold-start SFT, {} steps", config.steps),
            Self::Rl(training) => format!("{}, {} steps", training.title, training.config.steps),
            Self::Fresh(_) => "a model of random weights with its tokenizer".to_owned(),
            Self::Curriculum(config) => format!("{} steps on the endless curriculum", config.steps),
            Self::Exam(rows) => format!("{rows} held-out rows of each kind, answered greedily"),
            Self::Check(check) => check.title(),
            Self::Prepare(prepare) => prepare.title(),
            Self::Fetch(_) => "data and models that are not here".to_owned(),
            Self::Materialize => {
                "training rows with the paths of this machine, each medium opened once".to_owned()
            }
            Self::Launch(launch) => launch.job.title(),
            Self::Serve(fleet) if fleet.serve.engine == Engine::Candle => {
                format!("{} in this process (candle)", fleet.model)
            }
            Self::Serve(fleet) => format!(
                "{} on {}: one server for each GPU, or one on the CPU; started for each split",
                fleet.model,
                fleet.serve.engine.as_str()
            ),
            Self::Outside(outside) => outside.title.clone(),
            Self::Evaluate(evaluation) => evaluation.title.clone(),
            Self::Report(Reporting { page: Some(page), .. }) => page.display().to_string(),
            Self::Report(Reporting { paper_row, .. }) => match paper_row {
                Some(row) => format!("beside the published row {row}"),
                None => "page in report/, and printed".to_owned(),
            },
        }
    }
}

impl Check {
    fn title(&self) -> String {
        match self {
            Self::Machine(preflight) => format!("whether this machine has what {} needs", preflight.recipe),
            Self::Protocol(from) => format!("the prompt texts, imported from {from} where they are not yet"),
            Self::OtherProtocol(name) => format!("the prompt texts of protocol {name}"),
            Self::Data(splits) => format!("files of {}", splits.join(", ")),
            Self::Backend(flags) => format!("what answers is yours ({flags})"),
        }
    }
}
