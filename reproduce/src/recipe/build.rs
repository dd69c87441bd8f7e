//! The graph of a recipe: the work of each stage, from its settings and the folders of its inputs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use paravt_reports::Naming;
use paravt_train::reward::RewardConfig;
use paravt_train::rl::RlConfig;
use paravt_train::sft::SftConfig;
use serde::de::DeserializeOwned;
use serde_json::json;
use toml::{Table, Value};

use super::file::{merge, without};
use super::select::reference;
use super::{Method, Recipe, Stage};
use crate::error::{Error, RecipeError};
use crate::graph::{Graph, StageId};
use crate::host::{About, Check, Evaluation, Reporting};
use crate::needs::Preflight;
use crate::options::GraphOptions;
use crate::servers::Fleet;
use crate::stages::{Exam, Generated, Materialize, Measurement, Prepare, Reinforcement, Sft};
use crate::work::Work;

/// What `--allow-missing` does.
const ALLOWED: &str = "--allow-missing: rows whose media are missing are left to the released loaders, which skip them; \
     materialize.json lists the media";

/// A graph that is being made.
pub(super) struct Builder<'a> {
    pub(super) recipe: &'a Recipe,
    pub(super) options: &'a GraphOptions,
    pub(super) stages: &'a [Stage],
    /// Another model than that of the published row is asked.
    pub(super) is_other: bool,
    pub(super) graph: Graph,
    /// By name and seed.
    made: BTreeMap<(String, Option<u64>), Made>,
}

/// A stage that was added, and what those that build on it read of it beside its folder.
#[derive(Clone)]
pub(super) struct Made {
    id: StageId,
    /// The model that it serves, and the folder of the stage that has made it.
    pub(super) served: Option<(String, Option<PathBuf>)>,
    pub(super) fleet: Option<Arc<Fleet>>,
    /// Folder of the training in another program whose model it is, and what is known of it.
    pub(super) training: Option<(PathBuf, About)>,
}

impl Recipe {
    /// Its stages.
    ///
    /// # Errors
    /// A setting that is wrong, or an input that is not made.
    pub fn graph(&self, options: &GraphOptions) -> Result<Graph, Error> {
        if self.has_rows() {
            return self.graph_of_rows(options);
        }
        let other = self.other_model(options);
        let is_other = matches!(other, Some((Naming::Other, _)));
        let title = self.title_of(options).filter(|_| is_other).unwrap_or_else(|| self.title.clone());
        let graph = Graph::new(&self.name, &title, &options.out, &options.stages);
        let stages = self.select(options)?;
        let mut builder =
            Builder { recipe: self, options, stages: &stages, is_other, graph, made: BTreeMap::new() };
        for (number, stage) in stages.iter().enumerate() {
            let id = builder.add(stage)?;
            if let (0, Some((_, why))) = (number, &other) {
                builder.graph.deviates(id, &[why]);
            }
        }
        Ok(builder.graph)
    }
}

impl Builder<'_> {
    fn add(&mut self, stage: &Stage) -> Result<StageId, Error> {
        let mut inputs: Vec<StageId> = Vec::new();
        for input in &stage.inputs {
            let made = self.input(stage, input).ok_or_else(|| {
                self.wrong(
                    stage,
                    format!("`{input}` is not made before it; name it as it is at its place in the matrix"),
                )
            })?;
            inputs.push(made.id);
        }
        let training = stage.inputs.iter().find_map(|input| self.input(stage, input)?.training.clone());
        let mut made = Made { id: StageId::default(), served: None, fleet: None, training };
        let mut about = None;
        let mut settings = self.recipe.settings(stage);
        without(&mut settings, &["enabled"]);
        if stage.seed.is_some() && settings.contains_key("seed") {
            let message = "`seed`: its seeds are those of --seed and --seeds; leave it out";
            return Err(self.wrong(stage, message).into());
        }
        let places = places(&settings, stage.does.is_some_and(Method::is_launched));
        if let Some(field) =
            settings.keys().find(|field| !stage.does.is_some_and(|method| method.reads(field)))
        {
            return Err(self.wrong(stage, format!("unknown field `{field}`, expected none")).into());
        }
        let work: Arc<dyn Work> = match stage.does.expect("checked when it was selected") {
            Method::Preflight => Arc::new(Check::Machine(Box::new(self.preflight(settings, stage)?))),
            Method::CheckProtocol => match self.check_protocol(stage, &mut inputs)? {
                Some(check) => Arc::new(check),
                None => {
                    made.id = inputs[0];
                    return self.note(stage, made);
                }
            },
            Method::Fetch => Arc::new(self.recipe.items(self.stages, self.options)?),
            Method::CheckData => Arc::new(Check::Data(self.recipe.splits(self.stages)?)),
            Method::Materialize => Arc::new(Materialize),
            Method::Checkout => Arc::new(Prepare::checkout(&self.recipe.environments)?),
            Method::Environments => {
                let names = self.environments(stage, &mut settings)?;
                Arc::new(Prepare::environments(&self.recipe.environments, &names)?)
            }
            Method::LaunchSft => Arc::new(self.launch_sft(stage, settings)?),
            Method::Merge => Arc::new(self.merge(stage, settings)?),
            Method::LaunchRl => {
                let launch = self.launch_rl(stage, settings)?;
                about = Some(launch.1);
                Arc::new(launch.0)
            }
            Method::Pick => Arc::new(self.pick(stage, settings)?),
            Method::Serve => {
                let model = self.served_model(stage, &mut settings)?;
                made.served = Some(model.clone());
                match &self.options.backend {
                    Some(flags) => Arc::new(Check::Backend(flags.clone())),
                    None => Arc::clone(made.fleet.insert(Arc::new(self.fleet(model.0)?))) as _,
                }
            }
            Method::Evaluate if self.recipe.is_in_process() => Arc::new(self.evaluate_here(stage, settings)?),
            Method::Evaluate => Arc::new(self.evaluate_served(stage)?),
            Method::Report => {
                inputs = self.evaluations().map(|(id, _)| id).collect();
                let is_published = self.evaluations().any(|(_, asked)| asked.config.paper_row.is_some());
                let page = self.recipe.is_in_process().then(|| self.options.out.join("report/index.html"));
                let row = self.recipe.paper_row.clone().filter(|_| is_published);
                Arc::new(Reporting { page, paper_rows: row.into_iter().collect() })
            }
            method => self.make_here(method, stage, settings)?,
        };
        made.id = self.graph.push(&stage.name, stage.seed, &inputs, work, &places);
        if let (Some(about), Some(folder)) = (about, self.graph[made.id].folder()) {
            made.training = Some((folder.to_owned(), about));
        }
        self.note(stage, made)
    }

    /// What is generated and trained in this process.
    fn make_here(&self, method: Method, stage: &Stage, mut settings: Table) -> Result<Arc<dyn Work>, Error> {
        Ok(match method {
            Method::World => Arc::new(Generated::World(self.typed(stage, settings)?)),
            Method::TrainingData => {
                let seed = stage.seed.unwrap_or_default();
                Arc::new(Generated::TrainingData(self.typed(stage, settings)?, seed))
            }
            Method::Fresh => Arc::new(Generated::Fresh(self.take(stage, &mut settings, "seed")?)),
            Method::Curriculum => {
                let base = self.path(stage, &mut settings, "base")?;
                Arc::new(Sft { base, data: None, config: self.sft(stage, settings)? })
            }
            Method::Exam => {
                let model = self.path(stage, &mut settings, "model")?;
                Arc::new(Exam { model, rows: self.take(stage, &mut settings, "rows")? })
            }
            Method::Sft => {
                let base = self.path(stage, &mut settings, "base")?;
                let data = Some(self.path(stage, &mut settings, "data")?);
                Arc::new(Sft { base, data, config: self.sft(stage, settings)? })
            }
            Method::Rl => Arc::new(Reinforcement {
                title: stage.title.clone().unwrap_or_else(|| stage.name.clone()),
                paper: stage.paper.clone(),
                model: self.path(stage, &mut settings, "model")?,
                data: self.path(stage, &mut settings, "data")?,
                config: Box::new(self.rl(stage, settings)?),
            }),
            Method::Measure => {
                let model = self.path(stage, &mut settings, "model")?;
                let data = self.path(stage, &mut settings, "data")?;
                let prompts = self.take(stage, &mut settings, "prompts")?;
                let mut rl = self.recipe.rl.clone();
                without(&mut rl, &["model", "data"]);
                merge(&mut rl, settings);
                // Nothing is forced.
                let mut config = Box::new(self.rl(stage, rl)?);
                config.reward = RewardConfig::vanilla();
                (config.rollout.think_prefix, config.rollout.frame_gating) = (false, false);
                Arc::new(Measurement { config, model, data, prompts })
            }
            _ => Arc::new(Generated::Base),
        })
    }

    /// Notes a stage that was added, for those after it.
    fn note(&mut self, stage: &Stage, made: Made) -> Result<StageId, Error> {
        let (graph, id) = (&mut self.graph, made.id);
        graph.estimate(id, stage.estimate);
        graph.deviates(id, &stage.deviates);
        // A model of one's own deviates from nothing.
        if self.recipe.paper_row.is_some() {
            graph.deviates(id, &graph[id].work().deviations());
        }
        if stage.does == Some(Method::Materialize) && self.options.allow_missing {
            graph.deviates(id, &[ALLOWED]);
        }
        let runs = ["run", "split"].iter().filter_map(|axis| stage.place.get(*axis));
        graph.tag(id, &runs.map(String::as_str).collect::<Vec<_>>());
        self.made.insert((stage.name.clone(), stage.seed), made);
        Ok(id)
    }

    fn preflight(&self, settings: Table, stage: &Stage) -> Result<Preflight, Error> {
        let needs = self.typed(stage, settings)?;
        Ok(Preflight {
            recipe: self.recipe.name.clone(),
            needs: self.recipe.needs(needs, self.options)?,
            fetch: self.recipe.items(self.stages, self.options)?,
            is_fetched: self.stages.iter().any(|stage| stage.does == Some(Method::Fetch)),
        })
    }

    fn sft(&self, stage: &Stage, settings: Table) -> Result<SftConfig, Error> {
        let config: SftConfig = self.typed(stage, settings)?;
        let config = SftConfig { seed: stage.seed.unwrap_or(config.seed), ..config };
        config.validate().map_err(|error| self.refused(stage, "sft", &error))?;
        Ok(config)
    }

    fn rl(&self, stage: &Stage, settings: Table) -> Result<RlConfig, Error> {
        // Some of its tables have no defaults of their own.
        let mut all = Table::try_from(RlConfig::default()).expect("a configuration is a table");
        merge(&mut all, settings);
        let config: RlConfig = self.typed(stage, all)?;
        let config = RlConfig { seed: stage.seed.unwrap_or(config.seed), ..config };
        config.validate().map_err(|error| self.refused(stage, "rl", &error))?;
        Ok(config)
    }

    fn refused(&self, stage: &Stage, table: &str, error: &paravt_train::Error) -> RecipeError {
        let message = match error {
            paravt_train::Error::Setting { field, message } => format!("`{table}.{field}` {message}"),
            other => format!("[{table}] {other}"),
        };
        self.wrong(stage, message)
    }

    pub(super) fn wrong(&self, stage: &Stage, message: impl std::fmt::Display) -> RecipeError {
        self.recipe.wrong(stage, message)
    }

    /// Settings as the type of what reads them.
    pub(super) fn typed<T: DeserializeOwned>(
        &self,
        stage: &Stage,
        settings: Table,
    ) -> Result<T, RecipeError> {
        super::typed(Value::Table(settings)).map_err(|message| self.wrong(stage, message))
    }

    /// One setting, which the others are read without.
    pub(super) fn take<T: DeserializeOwned>(
        &self,
        stage: &Stage,
        settings: &mut Table,
        name: &str,
    ) -> Result<T, RecipeError> {
        let value = self.recipe.take(stage, settings, name)?;
        value.ok_or_else(|| self.wrong(stage, format!("missing field `{name}`")))
    }

    /// A setting that names a path: in the folder of an input, or of this machine.
    pub(super) fn path(
        &self,
        stage: &Stage,
        settings: &mut Table,
        name: &str,
    ) -> Result<PathBuf, RecipeError> {
        let value: Value = self.take(stage, settings, name)?;
        let wrong = |message: String| self.wrong(stage, format!("`{name}`: {message}"));
        match reference(&value) {
            Some((_, below)) if below.split('/').any(|part| part == "..") => {
                Err(wrong(format!("{} leads out of the stage's result", json!(value))))
            }
            Some((input, below)) => {
                let folder = self.input(stage, input).and_then(|made| self.graph[made.id].folder());
                let folder = folder.ok_or_else(|| wrong(format!("`{input}` has no result")))?;
                Ok(if below.is_empty() { folder.to_owned() } else { folder.join(below) })
            }
            None => {
                let path = value.as_str().filter(|path| !path.is_empty() && !path.contains(['{', '}']));
                let path = path.ok_or_else(|| {
                    wrong(format!(
                        "expected a path or \"{{STAGE}}/PATH\" in the result of a stage, found {}",
                        json!(value)
                    ))
                })?;
                Ok(PathBuf::from(path))
            }
        }
    }

    /// An input of a stage: of the same seed, or what all seeds share.
    fn input(&self, stage: &Stage, name: &str) -> Option<&Made> {
        let made = |seed| self.made.get(&(name.to_owned(), seed));
        made(stage.seed).or_else(|| made(None))
    }

    /// Folder of the result of an input.
    pub(super) fn folder(&self, stage: &Stage, input: &str) -> Option<&Path> {
        self.graph[self.input(stage, input)?.id].folder()
    }

    /// What serves the model that a stage asks.
    pub(super) fn served(&self, stage: &Stage) -> Option<&Made> {
        stage.inputs.iter().filter_map(|input| self.input(stage, input)).find(|made| made.served.is_some())
    }

    /// All evaluations so far.
    fn evaluations(&self) -> impl Iterator<Item = (StageId, &Evaluation)> {
        self.graph.ids().filter_map(|id| Some((id, self.graph[id].kind()?)))
    }
}

/// What a stage reads elsewhere than where the results of its inputs have it, for the hash of its own: paths in those
/// results, and what lies outside of the recipe, without naming it. Of a training in another program, which names models
/// of the hub, the former alone.
fn places(settings: &Table, is_launched: bool) -> Vec<String> {
    let mut places = Vec::new();
    for name in ["model", "base", "data", "world", "from"] {
        let Some(value) = settings.get(name) else { continue };
        match (reference(value), value.as_str()) {
            (Some((_, "" | "final" | "model")), _) => {}
            (Some((input, below)), _) => places.push(format!("{name}: {input}/{below}")),
            (None, Some(path)) if !is_launched => {
                places.push(format!("{name}: {}", paravt_files::sha256(path)))
            }
            _ => {}
        }
    }
    places
}
