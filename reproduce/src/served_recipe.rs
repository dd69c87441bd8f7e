//! Recipes that evaluate a model behind a server.

use std::path::Path;
use std::sync::Arc;

use paravt_agents::driver_modes::{FILLED, Filled};
use paravt_agents::releases;
use paravt_environments::{Layout, Setup};
use paravt_preflight::Needs;
use paravt_reports::Naming;
use paravt_suite::evaluate::RunConfig;
use paravt_suite::plan::Channel;
use paravt_suite::profile::Profile;
use paravt_suite::protocol::{PromptMode, native};
use paravt_upstream::import::Release;
use serde::Deserialize;
use serde_json::json;

use crate::error::{Error, RecipeError};
use crate::graph::{Graph, StageId};
use crate::host::{Check, Evaluation, Reporting, TrainedModel};
use crate::needs::{self, Preflight};
use crate::options::GraphOptions;
use crate::recipe_file::{self, RecipeKind, check_folder_name, check_folder_names};
use crate::servers::{Engine, Fleet, Serve};
use crate::stages::Prepare;
use crate::target::{Fetch, Item, Target};
use crate::work::Work;

/// A recipe that evaluates a model behind a server.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Served {
    /// Kind of the recipe.
    #[serde(default = "RecipeKind::served")]
    pub kind: RecipeKind,
    /// Name on the command line.
    pub name: String,
    /// One line about it.
    pub title: String,
    /// Model on the hub.
    pub model: String,
    /// Row of the published table that the result is compared with; `None` for a model that is not in it.
    pub paper_row: Option<String>,
    /// Row that relative gains are measured from.
    pub baseline_row: Option<String>,
    /// Published size of the model in GB.
    #[serde(default)]
    pub model_gb: u64,
    /// What the machine needs; without it there is no preflight.
    pub needs: Option<Needs>,
    /// Whether model and splits are downloaded if they are missing on this machine.
    #[serde(default)]
    pub fetch: bool,
    /// How the model is served.
    pub serve: Serve,
    /// Sources of the checkout and of the environment that serves the model.
    #[serde(default)]
    pub environments: Setup,
    /// Settings of every split that does not say otherwise.
    pub defaults: RunConfig,
    /// Evaluations of all splits, in order.
    #[serde(default = "one_run")]
    pub runs: Vec<Run>,
    /// The splits.
    pub splits: Vec<Split>,
}

/// One evaluation of all splits.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Its name.
    pub name: String,
    /// Prompt mode of all splits, in the place of theirs.
    pub mode: Option<PromptMode>,
    /// Protocol of an agent of its own, which then decides everything but the splits.
    pub protocol: Option<String>,
    /// Protocol of the release with an agent's text in one of its placeholders.
    pub filled: Option<String>,
    /// Splits that are evaluated; without it all.
    #[serde(default)]
    pub splits: Vec<String>,
    /// Row of the published numbers, in the place of the recipe's.
    pub paper_row: Option<String>,
    /// Whether the result is compared with the published row.
    #[serde(default = "yes")]
    pub published: bool,
}

fn yes() -> bool {
    true
}

impl Run {
    /// An evaluation of all splits beside the published row.
    pub(crate) fn named(name: &str) -> Self {
        let (mode, protocol, filled, paper_row) = (None, None, None, None);
        let splits = Vec::new();
        Self { name: name.to_owned(), mode, protocol, filled, splits, paper_row, published: true }
    }

    fn has(&self, split: &Split) -> bool {
        self.splits.is_empty() || self.splits.contains(&split.task)
    }

    /// The protocol of the release that it has filled.
    fn filled(&self) -> Result<Option<&'static Filled>, String> {
        let Some(name) = &self.filled else { return Ok(None) };
        let known = || FILLED.map(|filled| filled.name).join(", ");
        let found = FILLED.into_iter().find(|filled| filled.name == name);
        let unknown =
            || format!("[[runs]] {}: filled: expected one of {}, found `{name}`", self.name, known());
        found.map(Some).ok_or_else(unknown)
    }

    /// The agent whose texts it needs.
    fn agent(&self) -> Option<&str> {
        let filled = self.filled().ok().flatten();
        self.protocol.as_deref().or(filled.map(|filled| filled.agent.name))
    }

    /// The release of its protocol.
    fn release(&self) -> Result<Option<&'static Release>, String> {
        let Some(name) = &self.protocol else { return Ok(None) };
        let known = || releases().map(|release| release.name).collect::<Vec<_>>().join(", ");
        let found = releases().find(|release| release.name == name);
        let unknown =
            || format!("[[runs]] {}: protocol: expected one of {}, found `{name}`", self.name, known());
        found.map(Some).ok_or_else(unknown)
    }
}

/// Evaluations of a recipe that names none.
fn one_run() -> Vec<Run> {
    vec![Run::named("with-tool")]
}

/// One split and its own settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    pub(crate) task: String,
    pub(crate) mode: Option<PromptMode>,
    channel: Option<Channel>,
    /// Published size of its files in GB.
    #[serde(default)]
    gb: u64,
    nframes: Option<usize>,
    max_turns: Option<usize>,
}

impl Served {
    /// The recipe of ParaVT-8B.
    ///
    /// # Errors
    /// It is damaged: a bug.
    pub fn built_in() -> Result<Self, RecipeError> {
        Self::parse("recipe paravt-8b", include_str!("../recipes/paravt-8b.toml"))
    }

    /// The recipe of PyVision-Video, which the published table does not have.
    ///
    /// # Errors
    /// It is damaged: a bug.
    pub fn pyvision() -> Result<Self, RecipeError> {
        Self::parse("recipe pyvision-video-7b", include_str!("../recipes/pyvision-video-7b.toml"))
    }

    /// The recipe of a text; `file` is where it is from.
    ///
    /// # Errors
    /// It is not a recipe of this kind.
    pub fn parse(file: &str, text: &str) -> Result<Self, RecipeError> {
        let recipe: Self = recipe_file::parse(file, text)?;
        recipe.check().map_err(|message| RecipeError::invalid(file, message))?;
        Ok(recipe)
    }

    /// What is wrong with names.
    fn check(&self) -> Result<(), String> {
        check_folder_name("name", &self.name)?;
        check_folder_names("[[runs]] name", self.runs.iter().map(|run| run.name.as_str()))?;
        for run in &self.runs {
            run.release()?;
            run.filled()?;
            let split = run.splits.iter().find(|name| !self.splits.iter().any(|split| split.task == **name));
            if let Some(split) = split {
                return Err(format!("[[runs]] {}: splits: the recipe has no split `{split}`", run.name));
            }
        }
        check_folder_names("[[splits]] task", self.splits.iter().map(|split| split.task.as_str()))
    }

    /// Its stages: preflight, downloads and checks, one evaluation of each split, the report.
    ///
    /// # Errors
    /// The data of its environment are wrong.
    pub fn graph(&self, options: &GraphOptions) -> Result<Graph, Error> {
        match self.other_model(options) {
            Some((Naming::Other, why)) => self.of_other_model(options).graph_of(options, &[why]),
            Some((_, why)) => self.graph_of(options, &[why]),
            None => self.graph_of(options, &[]),
        }
    }

    /// What to know of a model in the place of the recipe's, where the names do not say that it is the same.
    fn other_model(&self, options: &GraphOptions) -> Option<(Naming, String)> {
        let model = options.model.as_ref().filter(|_| self.is_of_table())?;
        let place = format!("the model is {} in the place of {}", model_name(model), self.model);
        match Naming::of(model, &self.model) {
            Naming::Same => None,
            Naming::Other => {
                Some((Naming::Other, format!("{place}: no score stands beside a published one")))
            }
            Naming::Unknown => {
                Some((Naming::Unknown, format!("{place}; its name does not say whether they are the same")))
            }
        }
    }

    /// The recipe with another model: no score of it stands beside a published one.
    fn of_other_model(&self, options: &GraphOptions) -> Self {
        let mut recipe = self.clone();
        recipe.runs.iter_mut().for_each(|run| run.published = false);
        if let Some(model) = &options.model {
            recipe.title = format!("{} in the place of {}; {}", model_name(model), self.model, self.title);
        }
        recipe
    }

    /// Its stages; `of_model` deviates before anything else.
    fn graph_of(&self, options: &GraphOptions, of_model: &[String]) -> Result<Graph, Error> {
        let mut graph = Graph::new(&self.name, &self.title, &options.out, &options.stages);
        let fetch = Fetch { items: self.items(options) };
        let mut before = Vec::new();
        if let Some(needs) = &self.needs {
            let needs = self.needs(needs, options);
            let preflight = Preflight {
                recipe: self.name.clone(),
                needs,
                fetch: fetch.clone(),
                is_fetched: self.fetch,
                deletes: options.delete_archives,
            };
            before.push(graph.add("preflight", None, &[], Check::Machine(Box::new(preflight))));
        }
        let protocol = self.check_protocol(&mut graph, options)?;
        graph.deviates(before.first().copied().unwrap_or(protocol), of_model);
        if self.fetch {
            before = vec![graph.add("fetch", None, &before, fetch)];
        }
        let data = self.check_data(&mut graph, &before);
        self.extend(&mut graph, options, [protocol, data], &before, None)?;
        Ok(graph)
    }

    /// Adds the check of the texts that the evaluations are asked in: before anything that takes time.
    pub(crate) fn check_protocol(&self, graph: &mut Graph, options: &GraphOptions) -> Result<StageId, Error> {
        let mut agents = Vec::new();
        let mut own: Vec<&str> = self.runs.iter().filter_map(Run::agent).collect();
        own.dedup();
        for name in own {
            let check = Check::AgentProtocol(name.to_owned());
            agents.push(graph.add(&format!("protocol-{name}"), None, &[], check));
        }
        let check = match &options.protocol {
            Some(name) => Check::OtherProtocol(name.clone()),
            // Every run has its own.
            None if self.runs.iter().all(|run| run.protocol.is_some()) => return Ok(agents[0]),
            None => Check::Protocol(paravt_environments::Release::of(&self.environments)?.url),
        };
        Ok(graph.add("protocol", None, &agents, check))
    }

    /// Adds the check of the rows that the evaluations ask, which are there after the stages `before`.
    pub(crate) fn check_data(&self, graph: &mut Graph, before: &[StageId]) -> StageId {
        let splits = self.splits.iter().map(|split| split.task.clone()).collect();
        graph.add("data", None, before, Check::Data(splits))
    }

    /// Whether it reproduces a row of the published table: a model of one's own deviates from nothing.
    fn is_of_table(&self) -> bool {
        self.paper_row.is_some()
    }

    /// How the model is served: by the recipe, or by another engine with its own command.
    fn serve(&self, options: &GraphOptions) -> Serve {
        let mut serve = self.serve.clone();
        if let Some(engine) = options.engine.filter(|engine| *engine != serve.engine) {
            (serve.engine, serve.command, serve.install) = (engine, None, None);
        }
        if options.own_engine {
            serve.install = None;
        }
        serve.environment.extend(options.environment.clone());
        serve
    }

    /// What is read from the hub. A model in a folder and one behind a server of the user are not.
    pub(crate) fn items(&self, options: &GraphOptions) -> Vec<Item> {
        let model = options.model.as_ref().unwrap_or(&self.model);
        let is_fetched = options.backend.is_none() && !is_folder(model);
        // The size of another model is not known.
        let gb = if Naming::of(model, &self.model) == Naming::Same { self.model_gb } else { 0 };
        let model = Item { target: Target::Model(model.clone()), gb };
        let splits =
            self.splits.iter().map(|split| Item { target: Target::Task(split.task.clone()), gb: split.gb });
        Some(model).filter(|_| is_fetched).into_iter().chain(splits).collect()
    }

    /// What the machine needs with these flags. An engine that runs on the CPU needs no GPU, and a server of the user
    /// needs nothing here.
    fn needs(&self, needs: &Needs, options: &GraphOptions) -> Needs {
        let mut needs = needs.clone();
        let serve = self.serve(options);
        let is_own = options.backend.is_some();
        let needs_gpu = matches!(serve.engine, Engine::Vllm | Engine::Sglang);
        if is_own || !needs_gpu {
            (needs.gpus, needs.tools) = (None, Vec::new());
            (needs.memory_gib, needs.shm_gib, needs.cores) = Default::default();
        }
        let fleet = Fleet { model: String::new(), serve, gpus: options.gpus.clone(), venv: None };
        if let Some(program) = fleet.program().filter(|_| !is_own) {
            match fleet.serve.install {
                Some(_) => needs.tools.extend(needs::installers()),
                None => needs.tools.insert(0, needs::program(&program, fleet.serve.engine.as_str())),
            }
            needs.ports = fleet.ports();
        }
        needs
    }

    /// Appends its stages to a graph, after the checks of their texts and rows; the model is that of the stages `before`.
    pub(crate) fn extend(
        &self,
        graph: &mut Graph,
        options: &GraphOptions,
        [protocol, data]: [StageId; 2],
        before: &[StageId],
        training: Option<&TrainedModel>,
    ) -> Result<(), Error> {
        let model = options.model.clone().unwrap_or_else(|| self.model.clone());
        let mut before = before.to_vec();
        let (serve, fleet) = match &options.backend {
            Some(flags) => (graph.add("serve", None, &before, Check::Backend(flags.clone())), None),
            None => {
                let serve = self.serve(options);
                let venv = serve.install.as_ref().map(|name| Layout::new(&options.out).environment(name));
                if let Some(name) = &serve.install {
                    before.push(self.environment(graph, name)?);
                }
                let fleet = Arc::new(Fleet { model, serve, gpus: options.gpus.clone(), venv });
                let serve = graph.push("serve", None, &before, Arc::clone(&fleet) as Arc<dyn Work>);
                if self.is_of_table() {
                    graph.deviates(serve, &fleet.deviations());
                }
                (serve, Some(fleet))
            }
        };
        let mut evaluations: Vec<StageId> = Vec::new();
        for split in &self.splits {
            for run in self.runs.iter().filter(|run| run.has(split)) {
                let work = Evaluation {
                    fleet: fleet.clone(),
                    training: training.cloned(),
                    ..self.evaluation(split, run, options)
                };
                let name = format!("{}-{}", run.name, split.task);
                let deviations = if self.is_of_table() { work.deviations() } else { Vec::new() };
                let stage = graph.add(&name, None, &[protocol, data, serve], work);
                graph.tag(stage, &[&run.name, &split.task]);
                graph.deviates(stage, &deviations);
                evaluations.push(stage);
            }
        }
        let is_published = self.runs.iter().any(|run| run.published);
        let report = Reporting { page: None, paper_row: self.paper_row.clone().filter(|_| is_published) };
        graph.add("report", None, &evaluations, report);
        Ok(())
    }

    /// The stage that makes the environment of the servers: one that is there, or one that is added with the
    /// checkout before it.
    fn environment(&self, graph: &mut Graph, name: &String) -> Result<StageId, Error> {
        let makes = |made: &Prepare| made.environments.contains(name);
        if let Some(stage) = graph.find(makes) {
            return Ok(stage);
        }
        let checkout = graph.add("checkout", None, &[], Prepare::checkout(&self.environments)?);
        let prepare = Prepare::environments(&self.environments, std::slice::from_ref(name))?;
        let deviations = if self.is_of_table() { prepare.deviations() } else { Vec::new() };
        let stage = graph.add("environments", None, &[checkout], prepare);
        graph.deviates(stage, &deviations);
        Ok(stage)
    }

    fn evaluation(&self, split: &Split, run: &Run, options: &GraphOptions) -> Evaluation {
        let config = self.config(split, run);
        // Dispatch changes no answer.
        let asked = RunConfig { concurrency: None, resume: false, retry_errors: None, ..config.clone() };
        let asked = asked.with_defaults();
        let calls = match config.max_parallel() {
            0 => "any calls".to_owned(),
            1 => "1 call".to_owned(),
            calls => format!("{calls} calls"),
        };
        // Whether another protocol's mode has the tool is known once its texts are there.
        let native = native::protocol();
        let is_plain = |mode| native.system_text(mode).is_ok() && !native.offers_tool(mode);
        let turns = match config.max_turns() {
            _ if config.mode.as_ref().is_some_and(is_plain) => String::new(),
            1 => ", 1 turn".to_owned(),
            turns => format!(", up to {turns} turns of {calls}"),
        };
        let mut settings = json!({
            "model": model_name(options.model.as_ref().unwrap_or(&self.model)), "split": split.task, "config": asked, "command": options.selection
        });
        let named = run.protocol.as_ref().or(run.filled.as_ref());
        if let Some(protocol) = named {
            settings["protocol"] = json!(protocol);
        }
        let title = match &run.protocol {
            Some(protocol) => format!("{}: the agent's own protocol {protocol}", split.task),
            None => format!(
                "{}: {}, {} frames {}{turns}, profile {}",
                split.task,
                config.mode.as_ref().map_or("the protocol's mode", PromptMode::as_str),
                config.nframes(),
                match config.channel() {
                    Channel::Image => "as images",
                    Channel::FramesVideo => "as one video",
                    Channel::Video => "of a video",
                },
                config.profile()
            ),
        };
        Evaluation {
            splits: vec![split.task.clone()],
            title,
            settings,
            protocol: named.cloned(),
            config: RunConfig { resume: true, ..config },
            limit: options.limit.or(self.defaults.limit),
            model: None,
            fleet: None,
            training: None,
            world: None,
        }
    }

    fn config(&self, split: &Split, run: &Run) -> RunConfig {
        let defaults = &self.defaults;
        let paper_row = run.paper_row.as_ref().or(self.paper_row.as_ref()).filter(|_| run.published).cloned();
        if run.protocol.is_some() {
            // The agent's own loop decides the rest; rules other than the strict ones are those of the reference.
            return RunConfig {
                profile: Some(Profile::Strict),
                paper_row,
                limit: defaults.limit,
                concurrency: defaults.concurrency,
                ..RunConfig::default()
            };
        }
        RunConfig {
            // That of the recipe: a run beside the published ones is asked by the same rules.
            profile: Some(
                defaults.profile.unwrap_or_else(|| Profile::default_for(self.paper_row.as_deref())),
            ),
            mode: run.mode.as_ref().or(split.mode.as_ref()).or(defaults.mode.as_ref()).cloned(),
            channel: split.channel.or(defaults.channel),
            nframes: split.nframes.or(defaults.nframes),
            max_turns: split.max_turns.or(defaults.max_turns),
            paper_row,
            ..defaults.clone()
        }
    }
}

/// Whether a model is named by its folder. An id of the hub is `OWNER/NAME`.
fn is_folder(model: &str) -> bool {
    let path = Path::new(model);
    is_path(path) || path.is_dir()
}

/// Whether a path cannot be an id of the hub, whatever there is on this machine.
fn is_path(path: &Path) -> bool {
    path.is_absolute() || path.starts_with(".") || path.starts_with("..") || path.components().count() > 2
}

/// A model on the hub by its name, one in a folder by the last part of that: no path of this machine is kept.
fn model_name(model: &str) -> &str {
    let path = Path::new(model);
    path.file_name().and_then(|name| name.to_str()).filter(|_| is_path(path)).unwrap_or(model)
}

#[cfg(test)]
mod tests {
    use paravt_suite::plan::CropMode;

    use super::*;
    use crate::Recipe;

    #[test]
    fn a_model_outside_the_published_table_needs_no_row() {
        let text = "kind = \"served\"\nname = \"mine\"\ntitle = \"t\"\nmodel = \"o/m\"\nserve = { engine = \"vllm\" }\n\
            [defaults]\nnframes = 32\n[[runs]]\nname = \"a\"\n[[runs]]\nname = \"b\"\npublished = false\n\
            [[splits]]\ntask = \"mlvu\"\n";
        let configs = |text: &str| -> Vec<RunConfig> {
            let graph = Served::parse("mine.toml", text).unwrap().graph(&GraphOptions::new("out")).unwrap();
            graph.evaluations().map(|(_, evaluation, _)| evaluation.config.clone()).collect()
        };
        let mine = configs(text);
        assert_eq!(mine.len(), 2);
        let strict = |config: &RunConfig| (&config.paper_row, config.profile()) == (&None, Profile::Strict);
        assert!(mine.iter().all(strict));
        let published = configs(&text.replace("model =", "paper_row = \"ParaVT-8B\"\nmodel ="));
        let rows = published.iter().map(|config| config.paper_row.is_some());
        assert_eq!(rows.collect::<Vec<_>>(), [true, false]);
        assert!(
            published.iter().all(|config| config.profile() == Profile::Paper),
            "one profile for all runs"
        );
    }

    #[test]
    fn the_plan_of_a_model_of_ones_own_names_its_protocol_and_no_deviations() {
        let text = "kind = \"served\"\nname = \"mine\"\ntitle = \"t\"\nmodel = \"o/m\"\nserve = { engine = \"vllm\" }\n\
            [defaults]\n[[splits]]\ntask = \"mlvu\"\n";
        let plan = |text: &str, protocol: Option<&str>| {
            let options = GraphOptions { protocol: protocol.map(str::to_owned), ..GraphOptions::new("out") };
            let graph = Served::parse("mine.toml", text).unwrap().graph(&options).unwrap();
            format!("{}{}", graph.table(), graph.plan(&|_| true))
        };
        let own = plan(text, Some("nano"));
        assert!(own.contains("the prompt texts of protocol nano") && !own.contains("import"), "{own}");
        assert!(!own.contains("deviates") && !own.contains("otherwise than"), "{own}");
        let published = plan(&text.replace("model =", "paper_row = \"ParaVT-8B\"\nmodel ="), None);
        assert!(published.contains("imported from") && published.contains("deviates"), "{published}");
    }

    #[test]
    fn the_built_in_recipe_is_the_reference_protocol() {
        let Recipe::Served(recipe) = Recipe::load("paravt-8b").unwrap() else { panic!("served") };
        let graph = recipe.graph(&GraphOptions::new("out")).unwrap();
        let evaluations: Vec<_> = graph.evaluations().map(|(_, evaluation, _)| evaluation).collect();
        assert_eq!(evaluations.len(), 14);
        for Evaluation { config, splits, .. } in evaluations {
            let grounding = splits[0] == "charades";
            if config.paper_row.is_none() {
                assert_eq!(
                    (config.mode.clone(), config.channel() == Channel::Video),
                    (Some(PromptMode::named("direct")), grounding)
                );
                continue;
            }
            let mode = PromptMode::named(if grounding { "agentic_minimal" } else { "agentic_general" });
            assert_eq!(
                (config.mode.clone(), config.channel() == Channel::Video),
                (Some(mode), grounding),
                "{splits:?}"
            );
            assert_eq!((config.nframes(), config.max_turns(), config.max_parallel()), (64, 3, 5));
            assert_eq!(
                (config.crop.unwrap_or(CropMode::Frames), config.max_tokens),
                (CropMode::Frames, Some(2048))
            );
            let switches = config.profile().switches();
            assert_eq!((config.profile(), switches.video_channel_frames), (Profile::Paper, 32));
        }
    }

    #[test]
    fn a_wrong_field_is_named_with_its_neighbour() {
        let text = include_str!("../recipes/paravt-8b.toml").replace("max_turns = 3", "max_turn = 3");
        let error = Served::parse("my.toml", &text).unwrap_err().to_string();
        assert!(error.contains("my.toml") && error.contains("did you mean `max_turns`"), "{error}");
        let text = include_str!("../recipes/paravt-8b.toml");
        let error = Served::parse("my.toml", &text.replace("\"vllm\"", "\"tgi\"")).unwrap_err().to_string();
        assert!(error.contains("expected vllm, sglang, transformers or candle, found `tgi`"), "{error}");
        assert!(Served::parse("my.toml", &text.replace("\"vllm\"", "\"vLLM\"")).is_ok());
    }

    #[test]
    fn flags_that_change_answers_change_the_folder_of_the_stage() {
        let Recipe::Served(recipe) = Recipe::load("paravt-8b").unwrap() else { panic!("served") };
        let folders = |options: &GraphOptions| -> Vec<_> {
            recipe.graph(options).unwrap().evaluations().map(|(_, _, folder)| folder.to_owned()).collect()
        };
        let whole = GraphOptions::new("out");
        let limited = GraphOptions { selection: json!({"limit": 2}), ..whole.clone() };
        let (whole, limited) = (folders(&whole), folders(&limited));
        assert!(whole.iter().zip(&limited).all(|(a, b)| a != b));
    }

    /// However the folder of the recipe is spelled, a model in it is the same.
    #[test]
    fn a_model_has_one_identity_under_all_spellings_of_its_folder() {
        for folder in ["/data/out", "./out", "../out", "runs/out", "/data/../data/out"] {
            assert_eq!(model_name(&format!("{folder}/stages/pick-1/model")), "model");
        }
        assert_eq!(model_name("owner/model"), "owner/model");
        assert!(is_folder("runs/out/model") && !is_folder("owner/model"));
    }

    #[test]
    fn another_engine_than_the_releases_is_a_deviation() {
        let deviations = |options: GraphOptions| {
            let graph = Served::built_in().unwrap().graph(&options).unwrap();
            let serve = graph.stages().iter().find(|stage| stage.name() == "serve").unwrap();
            serve.deviations().join("\n")
        };
        let with = |engine| GraphOptions { engine: Some(engine), ..GraphOptions::new("out") };
        assert!(!deviations(GraphOptions::new("out")).contains("vLLM"));
        let candle = deviations(with(Engine::Candle));
        assert!(candle.contains("by candle") && !candle.contains("servers"), "{candle}");
        assert!(deviations(with(Engine::Sglang)).contains("served by sglang"));
        let own = GraphOptions { own_engine: true, ..GraphOptions::new("out") };
        assert!(deviations(own).contains("the one of this machine"));
    }

    #[test]
    fn another_model_stands_beside_no_published_row_and_that_is_said_first() {
        let Ok(Recipe::Served(recipe)) = Recipe::load("qwen3-vl-8b") else { panic!() };
        let with = |model: &str| {
            let options = GraphOptions { model: Some(model.to_owned()), ..GraphOptions::new("out") };
            let graph = recipe.graph(&options).unwrap();
            let rows = graph.evaluations().filter_map(|(_, asked, _)| asked.config.paper_row.clone()).count();
            (graph.table(), rows)
        };
        let first = |table: &str| {
            let (_, deviations) = table.split_once("deviations from the published code").unwrap();
            deviations.lines().nth(1).unwrap_or_default().to_owned()
        };
        let (table, rows) = with("Qwen/Qwen3-VL-4B-Instruct");
        assert!(
            table.starts_with("Qwen/Qwen3-VL-4B-Instruct in the place of Qwen/Qwen3-VL-8B-Instruct;"),
            "{table}"
        );
        assert!(first(&table).contains("the model is Qwen/Qwen3-VL-4B-Instruct in the place of"), "{table}");
        assert!(rows == 0 && !table.contains("beside the published row"), "{table}");
        let (table, rows) = with("/models/mine");
        assert!(first(&table).contains("the model is mine in the place of"), "{table}");
        assert_eq!(rows, 7, "its name does not say what it is");
        let (table, rows) = with("/models/Qwen3-VL-8B-Instruct");
        assert!(rows == 7 && !table.contains("the model is"), "{table}");
    }

    #[test]
    fn names_that_cannot_be_folders_are_refused() {
        let text = include_str!("../recipes/paravt-8b.toml");
        let refused =
            |from: &str, to: &str| Served::parse("my.toml", &text.replace(from, to)).unwrap_err().to_string();
        assert!(
            refused("name = \"no-tool\"", "name = \"../no-tool\"").contains("[[runs]] name `../no-tool`")
        );
        assert!(refused("name = \"no-tool\"", "name = \"with-tool\"").contains("is used twice"));
        assert!(refused("task = \"mlvu\"", "task = \"a/b\"").contains("[[splits]] task `a/b`"));
        assert!(
            refused("name = \"paravt-8b\"", "name = \"a\\nb\"").contains("cannot be the name of a folder")
        );
    }

    #[test]
    fn deleted_archives_need_less_disk() {
        let recipe = Served::built_in().unwrap();
        let space = |delete_archives| {
            let options = GraphOptions { delete_archives, ..GraphOptions::new("out") };
            let graph = recipe.graph(&options).unwrap();
            let preflight = graph.stages().iter().find_map(|stage| match stage.kind() {
                Some(Check::Machine(preflight)) => Some(preflight),
                _ => None,
            });
            let preflight = preflight.unwrap();
            preflight.needs_for(&preflight.fetch.items).disk_gib["data"].refuse.unwrap()
        };
        // 628 GB of benchmarks and 18 of the model: archives beside their members, or one after the other.
        assert_eq!((space(false), space(true)), (1187, 658));
    }
}
