#![forbid(unsafe_code)]
//! Recipes and the stages that run them.

mod any;
pub mod nano;
pub mod stage;

pub use any::{AnyRecipe, Kind};

use paravt_suite::evaluate::RunConfig;
use paravt_suite::nearest;
use paravt_suite::protocol::PromptMode;
use paravt_suite::run::Channel;
use serde::Deserialize;

/// Why a recipe cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// No such recipe.
    #[error("no recipe `{name}`: neither built in ({known}) nor a file")]
    Unknown {
        /// Name asked for.
        name: String,
        /// Names there are.
        known: String,
    },
    /// The file cannot be read.
    #[error("{file}: {message}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        message: String,
    },
    /// The file is not a recipe; the message names line and field.
    #[error("{file}: {message}{hint}", hint = nearest::hint(.nearest.as_deref()))]
    Invalid {
        /// The file.
        file: String,
        /// What and where.
        message: String,
        /// The nearest known field, for an unknown one.
        nearest: Option<String>,
    },
}

/// A published result as a plan to repeat it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// How recipes of this kind are told from others.
    #[serde(default = "Kind::served")]
    pub kind: Kind,
    /// Name on the command line.
    pub name: String,
    /// What it reproduces.
    pub title: String,
    /// Model on the hub.
    pub model: String,
    /// Row of the published table that the result is held against.
    pub paper_row: String,
    /// Row that relative gains are measured from.
    pub baseline_row: Option<String>,
    /// How the model is served.
    pub serve: Serve,
    /// What holds for every split that does not say otherwise.
    pub defaults: RunConfig,
    /// The splits.
    pub splits: Vec<Split>,
}

/// How a model is served.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serve {
    /// Name of the engine.
    pub engine: String,
    /// The command that starts it.
    pub command: String,
}

/// One split and what it does differently.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    task: String,
    mode: Option<PromptMode>,
    channel: Option<Channel>,
    nframes: Option<usize>,
    max_turns: Option<usize>,
}

/// One step of a recipe.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Bring data where it is looked for; a person does it, `data check` tells when it is done.
    Data {
        /// Split.
        task: String,
    },
    /// Import the upstream texts once.
    Protocol,
    /// Start the server; a person does it.
    Serve {
        /// Engine.
        engine: String,
        /// Command.
        command: String,
    },
    /// Evaluate a split.
    Evaluate {
        /// Split.
        task: String,
        /// How.
        config: Box<RunConfig>,
    },
    /// Hold the runs against the published row.
    Report {
        /// Row of the published table.
        paper_row: String,
    },
}

impl Recipe {
    /// The recipe of a text; `file` is where it is from.
    ///
    /// # Errors
    /// It is not a recipe of this kind.
    pub fn parse(file: &str, text: &str) -> Result<Self, RecipeError> {
        parse_toml(file, text)
    }

    /// All steps in order.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = vec![Step::Protocol];
        steps.extend(self.splits.iter().map(|split| Step::Data { task: split.task.clone() }));
        steps.push(Step::Serve { engine: self.serve.engine.clone(), command: self.serve.command.clone() });
        steps.extend(
            self.splits.iter().map(|split| Step::Evaluate {
                task: split.task.clone(),
                config: Box::new(self.config(split)),
            }),
        );
        steps.push(Step::Report { paper_row: self.paper_row.clone() });
        steps
    }

    fn config(&self, split: &Split) -> RunConfig {
        let defaults = &self.defaults;
        RunConfig {
            mode: split.mode.or(defaults.mode),
            channel: split.channel.unwrap_or(defaults.channel),
            nframes: split.nframes.unwrap_or(defaults.nframes),
            max_turns: split.max_turns.unwrap_or(defaults.max_turns),
            paper_row: Some(self.paper_row.clone()),
            ..defaults.clone()
        }
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Protocol => f.write_str(
                "protocol  paravt-bench protocol import --from <checkout of EvolvingLMMs-Lab/ParaVT>",
            ),
            Self::Data { task } => write!(f, "data      paravt-bench data check {task}"),
            Self::Serve { engine, command } => write!(f, "serve     ({engine}) {}", command.trim()),
            Self::Evaluate { task, config } => write!(
                f,
                "evaluate  {task}: {}, {:?} channel, {} frames, {} turns, {} calls a turn, profile {}",
                config.mode.map_or("the protocol's mode", PromptMode::as_str),
                config.channel,
                config.nframes,
                config.max_turns,
                config.max_parallel,
                config.profile
            ),
            Self::Report { paper_row } => write!(f, "report    against the published row {paper_row}"),
        }
    }
}

/// A recipe's text; a wrong field is named with its nearest neighbour.
pub(crate) fn parse_toml<T: serde::de::DeserializeOwned>(file: &str, text: &str) -> Result<T, RecipeError> {
    toml::from_str(text).map_err(|error| {
        let message = error.to_string();
        RecipeError::Invalid { file: file.to_owned(), nearest: nearest::expected_field(&message), message }
    })
}

#[cfg(test)]
mod tests {
    use paravt_suite::profile::Profile;
    use paravt_suite::run::CropMode;

    use super::*;

    #[test]
    fn the_built_in_recipe_is_the_reference_protocol() {
        let AnyRecipe::Served(recipe) = AnyRecipe::load("paravt-8b").unwrap() else { panic!("served") };
        let configs: Vec<(String, RunConfig)> = recipe
            .steps()
            .into_iter()
            .filter_map(|step| match step {
                Step::Evaluate { task, config } => Some((task, *config)),
                _ => None,
            })
            .collect();
        assert_eq!(configs.len(), 7);
        for (task, config) in configs {
            let grounding = task == "charades";
            let mode = if grounding { PromptMode::AgenticMinimal } else { PromptMode::AgenticGeneral };
            assert_eq!((config.mode, config.channel == Channel::Video), (Some(mode), grounding), "{task}");
            assert_eq!((config.nframes, config.max_turns, config.max_parallel), (64, 3, 5));
            assert_eq!((config.crop, config.max_tokens), (CropMode::Frames, Some(2048)));
            let switches = config.profile.switches();
            assert_eq!((config.profile, switches.video_channel_frames), (Profile::Paper, 32));
        }
    }

    #[test]
    fn a_wrong_field_is_named_with_its_neighbour() {
        let text = include_str!("../recipes/paravt-8b.toml").replace("max_turns = 3", "max_turn = 3");
        let error = Recipe::parse("my.toml", &text).unwrap_err().to_string();
        assert!(error.contains("my.toml") && error.contains("did you mean `max_turns`"), "{error}");
    }
}
