//! Evaluations of a recipe: how splits are asked, and of which model.

use paravt_agents::driver_modes::{FILLED, Filled};
use paravt_agents::releases;
use paravt_suite::evaluate::RunConfig;
use paravt_suite::plan::{Channel, CropMode};
use paravt_suite::profile::Profile;
use paravt_suite::protocol::{PromptMode, native};
use serde_json::{Value as Json, json};
use toml::{Table, Value};

use super::build::Builder;
use super::file::without;
use super::serve::model_name;
use super::{CONCURRENCY, Method, Recipe, Stage, select, typed};
use crate::error::{Error, RecipeError};
use crate::graph::StageId;
use crate::host::{Check, Evaluation, TrainedModel};
use crate::options::GraphOptions;

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
        let protocol: Option<String> = self.take(stage, &mut settings, "protocol")?;
        let filled: Option<String> = self.take(stage, &mut settings, "filled")?;
        let row: Option<String> = self.take(stage, &mut settings, "paper_row")?;
        let published = self.take(stage, &mut settings, "published")?.unwrap_or(true);
        if let Some(name) = &protocol {
            known("protocol", name, releases().map(|release| (release.name, ()))).map_err(wrong)?;
        }
        let filled = filled.map(|name| known("filled", &name, FILLED.into_iter().map(|one| (one.name, one))));
        let filled = filled.transpose().map_err(wrong)?;
        let config: RunConfig = typed(Value::Table(settings)).map_err(wrong)?;
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
    pub(super) fn splits(&self, stages: &[Stage]) -> Result<Vec<String>, RecipeError> {
        let mut all = Vec::new();
        for stage in stages.iter().filter(|stage| stage.does == Some(Method::Evaluate)) {
            all.extend(self.splits_of(stage)?);
        }
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|split| seen.insert(split.clone()));
        Ok(all)
    }

    fn splits_of(&self, stage: &Stage) -> Result<Vec<String>, RecipeError> {
        let listed = self.take(stage, &mut self.settings(stage), "splits")?;
        Ok(stage.place.get("split").map(|split| vec![split.clone()]).or(listed).unwrap_or_default())
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
            None => Some(Check::Protocol(crate::environments::Release::of(&self.recipe.environments)?.url)),
        })
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
        let asked = self.recipe.asked(stage)?;
        if let Some(protocol) = asked.protocol() {
            return Err(self.wrong(stage, format!("protocol {protocol} is of a served model")));
        }
        let (config, splits) = (asked.config, self.recipe.splits_of(stage)?);
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
        let all = self.recipe.settings(stage);
        if let Some(field) = ["model", "world"].into_iter().find(|field| all.contains_key(*field)) {
            let message =
                format!("`{field}`: an evaluation asks the recipe's `model`, which is served; leave it out");
            return Err(self.wrong(stage, message));
        }
        if all.contains_key("splits") && stage.place.contains_key("split") {
            return Err(self.wrong(stage, "`splits`: its splits are those of [matrix] `split`; leave it out"));
        }
        let mut asked = self.recipe.asked(stage)?;
        if self.is_other {
            asked.config.paper_row = None;
        }
        let splits = self.recipe.splits_of(stage)?;
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
