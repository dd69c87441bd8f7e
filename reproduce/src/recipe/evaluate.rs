//! Evaluations of a recipe: how splits are asked, and of which model.

use std::path::{Path, PathBuf};

use paravt_agents::driver_modes::{FILLED, Filled};
use paravt_agents::releases;
use paravt_environments::Layout;
use paravt_preflight::Needs;
use paravt_reports::Naming;
use paravt_suite::evaluate::RunConfig;
use paravt_suite::plan::{Channel, CropMode};
use paravt_suite::profile::Profile;
use paravt_suite::protocol::{PromptMode, native};
use serde_json::{Value as Json, json};
use toml::{Table, Value};

use super::build::Builder;
use super::file::without;
use super::{CONCURRENCY, Method, Recipe, Stage, select};
use crate::error::{Error, RecipeError};
use crate::graph::StageId;
use crate::host::{Check, Evaluation, TrainedModel};
use crate::needs;
use crate::options::GraphOptions;
use crate::servers::{Engine, Fleet, Serve};
use crate::target::{Fetch, Item, Target};

/// An evaluation as its settings say, beside [`RunConfig`].
struct Asked {
    /// Protocol of an agent of its own, which then decides everything but the splits.
    protocol: Option<String>,
    /// Protocol of the release with an agent's text in one of its placeholders.
    filled: Option<&'static Filled>,
    config: RunConfig,
}

impl Asked {
    fn protocol(&self) -> Option<&str> {
        self.protocol.as_deref().or(self.filled.map(|filled| filled.name))
    }

    /// The agent whose texts it needs.
    fn agent(&self) -> Option<&str> {
        self.protocol.as_deref().or(self.filled.map(|filled| filled.agent.name))
    }
}

/// One of some known names.
fn known<'a, T>(field: &str, name: &str, all: impl Iterator<Item = (&'a str, T)>) -> Result<T, String> {
    let mut names = Vec::new();
    for (known, found) in all {
        if known == name {
            return Ok(found);
        }
        names.push(known);
    }
    Err(format!("{field}: expected one of {}, found `{name}`", names.join(", ")))
}

impl Recipe {
    /// How the evaluation of a stage is asked.
    fn asked(&self, stage: &Stage) -> Result<Asked, RecipeError> {
        let wrong = |message: String| self.wrong(stage, message);
        let mut settings = self.settings(stage);
        without(&mut settings, &["enabled", "splits", "world", "model"]);
        let mut text = |name: &str| settings.remove(name).and_then(|value| value.as_str().map(str::to_owned));
        let (protocol, filled, row) = (text("protocol"), text("filled"), text("paper_row"));
        let published = settings.remove("published").and_then(|value| value.as_bool()).unwrap_or(true);
        if let Some(name) = &protocol {
            known("protocol", name, releases().map(|release| (release.name, ()))).map_err(wrong)?;
        }
        let filled = filled.map(|name| known("filled", &name, FILLED.into_iter().map(|one| (one.name, one))));
        let filled = filled.transpose().map_err(wrong)?;
        let config: RunConfig =
            settings.try_into().map_err(|error: toml::de::Error| wrong(error.message().to_owned()))?;
        let paper_row = row.or_else(|| self.paper_row.clone()).filter(|_| published);
        // That of the recipe: an evaluation beside the published ones is asked by the same rules.
        let profile = config.profile.unwrap_or_else(|| Profile::default_for(self.paper_row.as_deref()));
        let config = match &protocol {
            // The agent's own loop decides the rest; rules other than the strict ones are those of the reference.
            Some(_) => RunConfig {
                profile: Some(Profile::Strict),
                paper_row,
                limit: config.limit,
                concurrency: config.concurrency,
                ..RunConfig::default()
            },
            None => RunConfig { profile: Some(profile), paper_row, ..config },
        };
        Ok(Asked { protocol, filled, config })
    }

    /// The rows that its evaluations stand beside, each with the protocol where that is not the release's.
    pub(super) fn protocols(&self) -> Vec<(String, Option<String>)> {
        let stages = self.select(&GraphOptions::new("")).unwrap_or_default();
        let evaluations = stages.iter().filter(|stage| stage.does == Some(Method::Evaluate));
        let asked = evaluations.filter_map(|stage| self.asked(stage).ok());
        asked
            .filter_map(|asked| Some((asked.config.paper_row.clone()?, asked.protocol().map(str::to_owned))))
            .collect()
    }

    /// The splits that some stages evaluate.
    pub(super) fn splits(&self, stages: &[Stage]) -> Vec<String> {
        let mut all = Vec::new();
        for stage in stages.iter().filter(|stage| stage.does == Some(Method::Evaluate)) {
            all.extend(self.splits_of(stage));
        }
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|split| seen.insert(split.clone()));
        all
    }

    fn splits_of(&self, stage: &Stage) -> Vec<String> {
        let listed = self.settings(stage).remove("splits").and_then(|splits| splits.try_into().ok());
        stage.place.get("split").map(|split| vec![split.clone()]).or(listed).unwrap_or_default()
    }

    /// How the model is served: by the recipe, or by another engine with its own command.
    pub(super) fn serve(&self, options: &GraphOptions) -> Result<Serve, RecipeError> {
        let stage = self.stages.iter().find(|stage| stage.does == Some(Method::Serve));
        let mut settings = stage.map(|stage| self.settings(stage)).unwrap_or_default();
        without(&mut settings, &["enabled", "model"]);
        let flags = settings.remove("flags");
        let serve: Result<Serve, toml::de::Error> = settings.try_into();
        let mut serve = serve.map_err(|error| self.invalid(format!("[serve]: {}", error.message())))?;
        if let (Some(command), Some(flags)) = (&mut serve.command, flags.as_ref().and_then(Value::as_str)) {
            *command = format!("{command} {flags}");
        }
        if let Some(engine) = options.engine.filter(|engine| *engine != serve.engine) {
            (serve.engine, serve.command, serve.install) = (engine, None, None);
        }
        if options.own_engine {
            serve.install = None;
        }
        serve.environment.extend(options.environment.clone());
        Ok(serve)
    }

    /// What is read from the hub, as far as flags leave it: what the recipe lists, or its model and splits. A model in a
    /// folder and one behind a server of the user are not.
    pub(super) fn items(&self, stages: &[Stage], options: &GraphOptions) -> Result<Fetch, RecipeError> {
        #[derive(serde::Deserialize, Default)]
        #[serde(deny_unknown_fields, default)]
        struct Settings {
            enabled: bool,
            items: Option<Vec<String>>,
            gb: std::collections::BTreeMap<String, u64>,
        }
        let stage = self.stages.iter().find(|stage| stage.does == Some(Method::Fetch));
        let settings = stage.map_or_else(|| self.fetch.clone(), |stage| self.settings(stage));
        let settings: Result<Settings, toml::de::Error> = settings.try_into();
        let Settings { items, gb, .. } =
            settings.map_err(|error| self.invalid(format!("[fetch]: {}", error.message())))?;
        let item =
            |name: &str| Item { target: Target::named(name), gb: gb.get(name).copied().unwrap_or_default() };
        if let Some(listed) = items {
            let mut items: Vec<Item> = listed.iter().map(|name| item(name)).collect();
            if options.skip_sft {
                let splits = items.iter().position(|item| matches!(item.target, Target::Task(_)));
                let published = item(&format!("model:{}", self.engines.published_sft));
                items.insert(splits.unwrap_or(items.len()), published);
            }
            return Ok(Fetch { items });
        }
        let model = options.model.as_ref().or(self.model.as_ref());
        let model = model.filter(|model| options.backend.is_none() && !is_folder(model));
        let model = model.map(|model| Item {
            target: Target::Model(model.clone()),
            // The size of another model is not known.
            gb: if self.naming(model) == Naming::Same { item("model").gb } else { 0 },
        });
        Ok(Fetch {
            items: model.into_iter().chain(self.splits(stages).iter().map(|split| item(split))).collect(),
        })
    }

    /// What the machine needs with these flags. An engine that runs on the CPU needs no GPU, and a server of the user
    /// needs nothing here; what a training needs is the larger.
    pub(super) fn needs(&self, mut needs: Needs, options: &GraphOptions) -> Result<Needs, RecipeError> {
        if self.is_launched() {
            return Ok(needs);
        }
        let serve = self.serve(options)?;
        let is_own = options.backend.is_some();
        if is_own || !matches!(serve.engine, Engine::Vllm | Engine::Sglang) {
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
        Ok(needs)
    }

    fn naming(&self, model: &str) -> Naming {
        Naming::of(model, self.model.as_deref().unwrap_or_default())
    }

    /// What to know of a model in the place of that of a published row, where the names do not say that it is the same.
    pub(super) fn other_model(&self, options: &GraphOptions) -> Option<(Naming, String)> {
        let of = self.model.as_ref().filter(|_| self.paper_row.is_some() && !self.is_launched())?;
        let model = options.model.as_ref()?;
        let place = format!("the model is {} in the place of {of}", model_name(model));
        match self.naming(model) {
            Naming::Same => None,
            Naming::Other => {
                Some((Naming::Other, format!("{place}: no score stands beside a published one")))
            }
            Naming::Unknown => {
                Some((Naming::Unknown, format!("{place}; its name does not say whether they are the same")))
            }
        }
    }

    /// The title with another model.
    pub(super) fn title_of(&self, options: &GraphOptions) -> Option<String> {
        let (model, of) = (options.model.as_ref()?, self.model.as_ref()?);
        Some(format!("{} in the place of {of}; {}", model_name(model), self.title))
    }
}

impl Builder<'_> {
    /// Adds the checks of the texts of agents; returns them with the check of the release's, or the first of theirs where
    /// every run has its own.
    pub(super) fn check_protocol(
        &mut self,
        stage: &Stage,
        inputs: &mut Vec<StageId>,
    ) -> Result<Option<Check>, Error> {
        let evaluations = self.stages.iter().filter(|stage| stage.does == Some(Method::Evaluate));
        let asked = evaluations.map(|stage| self.recipe.asked(stage)).collect::<Result<Vec<_>, _>>()?;
        let mut agents: Vec<&str> = Vec::new();
        for agent in asked.iter().filter_map(Asked::agent) {
            if !agents.contains(&agent) {
                agents.push(agent);
            }
        }
        for agent in agents {
            let check = Check::AgentProtocol(agent.to_owned());
            inputs.push(self.graph.add(&format!("{}-{agent}", stage.name), None, &[], check));
        }
        Ok(match &self.options.protocol {
            Some(name) => Some(Check::OtherProtocol(name.clone())),
            None if !asked.is_empty() && asked.iter().all(|asked| asked.protocol.is_some()) => None,
            None => Some(Check::Protocol(paravt_environments::Release::of(&self.recipe.environments)?.url)),
        })
    }

    /// Names of the environments that a stage makes: those that it lists, or that of the servers.
    pub(super) fn environments(&self, settings: &mut Table) -> Result<Vec<String>, Error> {
        let listed = settings.remove("install").and_then(|names| names.try_into().ok());
        Ok(match listed {
            Some(names) => names,
            None => self.recipe.serve(self.options)?.install.into_iter().collect(),
        })
    }

    /// The model that a stage serves, and the folder of the stage that makes it.
    pub(super) fn served_model(
        &self,
        stage: &Stage,
        settings: &mut Table,
    ) -> Result<(String, Option<PathBuf>), Error> {
        let made = settings.contains_key("model").then(|| self.path(stage, settings, "model")).transpose()?;
        let given =
            self.options.model.clone().or_else(|| made.as_ref().map(|model| model.display().to_string()));
        let model = given.or_else(|| self.recipe.model.clone());
        Ok((model.ok_or_else(|| self.wrong(stage, "missing field `model`"))?, made))
    }

    pub(super) fn fleet(&self, model: String) -> Result<Fleet, RecipeError> {
        let serve = self.recipe.serve(self.options)?;
        let venv = serve.install.as_ref().map(|name| Layout::new(&self.options.out).environment(name));
        Ok(Fleet { model, serve, gpus: self.options.gpus.clone(), venv })
    }

    /// An evaluation of a model in this process.
    pub(super) fn evaluate_here(
        &self,
        stage: &Stage,
        mut settings: Table,
    ) -> Result<Evaluation, RecipeError> {
        let model = settings.get("model").and_then(select::reference).map(|(model, _)| model.to_owned());
        let world = self.path(stage, &mut settings, "world")?;
        let folder = self.path(stage, &mut settings, "model")?;
        let Asked { config, .. } = self.recipe.asked(stage)?;
        let splits = self.recipe.splits_of(stage);
        if splits.is_empty() {
            return Err(self.wrong(stage, "`splits` is empty; name at least one"));
        }
        let mode = config.mode.as_ref().map_or("the protocol's mode", PromptMode::as_str);
        let title = match &splits[..] {
            [split] => format!("{split}, {} ({mode})", stage.name),
            splits => format!("{} splits, {} ({mode})", splits.len(), stage.name),
        };
        let seed = stage.seed.unwrap_or_default();
        let label = format!("{}, seed {seed}", stage.name);
        Ok(Evaluation {
            title,
            splits,
            settings: self.answers_depend_on(stage, model),
            config: RunConfig {
                concurrency: Some(CONCURRENCY),
                resume: true,
                label: Some(label),
                crop: config.crop.or(Some(CropMode::Subagent)),
                ..config
            },
            protocol: None,
            model: Some(folder),
            fleet: None,
            training: None,
            world: Some(world),
            limit: None,
        })
    }

    /// What the answers of an evaluation in this process depend on: settings of all, then its own.
    fn answers_depend_on(&self, stage: &Stage, model: Option<String>) -> Json {
        let mut all: Vec<&str> =
            vec!["profile", "nframes", "max_turns", "max_parallel", "max_tokens", "splits"];
        let table = &self.recipe.evaluate;
        let rest = table.keys().map(String::as_str).filter(|name| *name != "world" && *name != "enabled");
        let rest: Vec<&str> = rest.filter(|name| !all.contains(name)).collect();
        all.extend(rest);
        let all: serde_json::Map<String, Json> =
            all.iter().filter_map(|name| Some(((*name).to_owned(), json!(table.get(*name)?)))).collect();
        let own = &stage.settings;
        let mut run = json!({ "name": stage.name, "model": model, "mode": own.get("mode"), "max_parallel": own.get("max_parallel") });
        for (name, value) in own.iter().filter(|(name, _)| {
            !["world", "enabled", "model", "mode", "max_parallel"].contains(&name.as_str())
        }) {
            run[name] = json!(value);
        }
        run["full"] = json!(stage.full);
        json!({ "evaluate": all, "run": run })
    }

    /// An evaluation of a served model.
    pub(super) fn evaluate_served(&self, stage: &Stage) -> Result<Evaluation, RecipeError> {
        let served =
            self.served(stage).ok_or_else(|| self.wrong(stage, "no stage before it serves a model"))?;
        let mut asked = self.recipe.asked(stage)?;
        if self.is_other {
            asked.config.paper_row = None;
        }
        let splits = self.recipe.splits_of(stage);
        let title = format!("{}: {}", splits.join(", "), describe(&asked));
        let (model, made) = served.served.as_ref().expect("it serves");
        // Answers of another training are others, wherever its model lies.
        let made_by =
            made.as_ref().and_then(|model| model.parent()?.file_name()).map(|name| name.to_string_lossy());
        let command = match &made_by {
            Some(stage) => json!({ "command": self.options.selection, "trained": stage }),
            None => self.options.selection.clone(),
        };
        // Dispatch changes no answer.
        let config = &asked.config;
        let compared = RunConfig { concurrency: None, resume: false, retry_errors: None, ..config.clone() };
        let mut settings = json!({
            "model": model_name(model), "split": splits.join(","), "config": compared.with_defaults(), "command": command
        });
        if let Some(protocol) = asked.protocol() {
            settings["protocol"] = json!(protocol);
        }
        let training = served.training.clone().zip(made.clone());
        Ok(Evaluation {
            title,
            splits,
            settings,
            protocol: asked.protocol().map(str::to_owned),
            limit: self.options.limit.or(config.limit),
            model: None,
            fleet: served.fleet.clone(),
            training: training.map(|((training, about), model)| TrainedModel { training, model, about }),
            world: None,
            config: RunConfig { resume: true, ..asked.config },
        })
    }
}

/// How a served model is asked, in words.
fn describe(asked: &Asked) -> String {
    if let Some(protocol) = &asked.protocol {
        return format!("the agent's own protocol {protocol}");
    }
    let config = &asked.config;
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
    let frames = match config.channel() {
        Channel::Image => "as images",
        Channel::FramesVideo => "as one video",
        Channel::Video => "of a video",
    };
    let mode = config.mode.as_ref().map_or("the protocol's mode", PromptMode::as_str);
    format!("{mode}, {} frames {frames}{turns}, profile {}", config.nframes(), config.profile())
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
    use super::*;

    /// However the folder of the recipe is spelled, a model in it is the same.
    #[test]
    fn a_model_has_one_identity_under_all_spellings_of_its_folder() {
        for folder in ["/data/out", "./out", "../out", "runs/out", "/data/../data/out"] {
            assert_eq!(model_name(&format!("{folder}/stages/pick-1/model")), "model");
        }
        assert_eq!(model_name("owner/model"), "owner/model");
        assert!(is_folder("runs/out/model") && !is_folder("owner/model"));
    }
}
