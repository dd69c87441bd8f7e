//! The recipe of the embedded reproduction as data.

use paravt_nano::{TrainingSizes, WorldOptions};
use paravt_reports::study::{Prediction, Question};
use paravt_suite::evaluate::RunConfig;
use paravt_suite::plan::CropMode;
use paravt_suite::profile::Profile;
use paravt_suite::protocol::PromptMode;
use paravt_train::rl::RlConfig;
use paravt_train::sft::SftConfig;
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::RecipeError;
use crate::recipe_file::RecipeKind;

/// The embedded reproduction: generated videos, SFT, PARA-GRPO, evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NanoRecipe {
    /// Its name; that of its file where it says none.
    #[serde(default)]
    pub name: String,
    /// Kind of the recipe.
    #[serde(default)]
    pub kind: RecipeKind,
    /// What it reproduces.
    pub title: String,
    /// What is evaluated on.
    pub world: WorldOptions,
    /// What is trained on.
    #[serde(default)]
    pub data: TrainingSizes,
    /// What is trained into the embedded checkpoint before the cold start; without any it starts from that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub priors: Vec<Prior>,
    /// The cold start.
    #[serde(default)]
    pub sft: SftConfig,
    /// Reinforcement learning after it.
    #[serde(default)]
    pub rl: RlConfig,
    /// What the paper says of that.
    pub rl_paper: Option<String>,
    /// Prompts that each cold start is rolled out on, as vanilla GRPO would, before any reinforcement learning, and each
    /// training that forces a prefix after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_prompts: Option<usize>,
    /// How checkpoints are evaluated.
    pub evaluate: Evaluate,
    /// Evaluations, in order.
    #[serde(deserialize_with = "each_run")]
    pub runs: Vec<NanoRun>,
    /// Pairs of runs that are compared sample by sample.
    #[serde(default)]
    pub comparisons: Vec<Question>,
    /// What is predicted of trainings, measurements and runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predictions: Vec<Prediction>,
    /// Further trainings from the same cold start that `--full` compares.
    #[serde(default)]
    pub variants: Vec<Variant>,
}

/// A training that makes another base checkpoint of the embedded one, the same for all seeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prior {
    /// Its name.
    pub name: String,
    /// What it is trained on.
    pub data: TrainingSizes,
    /// How.
    pub sft: SftConfig,
}

impl Prior {
    /// What stands before the names of the stages of its cold starts.
    pub(super) fn prefix(&self) -> String {
        format!("{}-", self.name)
    }
}

/// Settings that all evaluations share; see [`RunConfig`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluate {
    #[serde(default)]
    profile: Profile,
    pub(super) nframes: usize,
    pub(super) max_turns: usize,
    max_parallel: usize,
    pub(super) max_tokens: u32,
    /// Splits by name.
    pub splits: Vec<String>,
}

/// One evaluation of all splits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NanoRun {
    /// Name of its folder.
    pub name: String,
    /// Whose weights: `base`, `sft`, `rl`, or a variant's name.
    pub model: String,
    /// Prompt mode.
    pub mode: PromptMode,
    /// Calls run per turn, where it is not the common number; 1 is sequential dispatch.
    pub max_parallel: Option<usize>,
    /// Frames of the overview, where it is not the common number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nframes: Option<usize>,
    /// In a file: several numbers of frames, each of a run `NAME-FRAMES`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    each_nframes: Vec<usize>,
    /// Only with `--full`.
    #[serde(default)]
    pub full: bool,
}

/// A run for each of its numbers of frames.
fn each_run<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<NanoRun>, D::Error> {
    let runs = Vec::<NanoRun>::deserialize(deserializer)?;
    if let Some(run) = runs.iter().find(|run| run.nframes.is_some() && !run.each_nframes.is_empty()) {
        let message = format!("[[runs]] `{}` has both nframes and each_nframes; leave one out", run.name);
        return Err(serde::de::Error::custom(message));
    }
    let each = |run: NanoRun| match run.each_nframes.as_slice() {
        [] => vec![run],
        numbers => numbers
            .iter()
            .map(|frames| NanoRun {
                name: format!("{}-{frames}", run.name),
                nframes: Some(*frames),
                each_nframes: Vec::new(),
                ..run.clone()
            })
            .collect(),
    };
    Ok(runs.into_iter().flat_map(each).collect())
}

/// Another training from the same cold start: fields of `rl` that it changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// What it is.
    pub title: String,
    /// What the paper says of it.
    pub paper: Option<String>,
    /// The prior whose cold start it goes on from, where it is not the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior: Option<String>,
    /// Fields of [`RlConfig`], merged over the recipe's.
    pub rl: toml::Table,
}

impl NanoRecipe {
    /// The same stages as small as they get: two steps of each training, two videos. It shows that all of them run; what
    /// they measure means nothing.
    #[must_use]
    pub fn small(mut self) -> Self {
        let shrink = |data: &mut TrainingSizes| {
            data.videos = data.videos.min(2);
            data.rows = data.rows.min(20);
            data.prompts = data.prompts.min(4);
        };
        self.title.push_str(" (small: no result)");
        self.world.videos = self.world.videos.min(2);
        shrink(&mut self.data);
        let trainings = self.priors.iter_mut().map(|prior| (Some(&mut prior.data), &mut prior.sft));
        for (data, sft) in trainings.chain([(None, &mut self.sft)]) {
            data.map(shrink);
            sft.steps = sft.steps.min(2);
        }
        self.measured_prompts = self.measured_prompts.map(|prompts| prompts.min(2));
        self.rl.steps = self.rl.steps.min(2);
        self.rl.prompts_per_step = self.rl.prompts_per_step.min(2);
        self
    }

    /// The reinforcement learning of a variant.
    ///
    /// # Errors
    /// It changes a field that does not exist.
    pub fn variant(&self, variant: &Variant) -> Result<RlConfig, RecipeError> {
        let invalid = |message: String| RecipeError::invalid(format!("variant {}", variant.name), message);
        let mut rl = toml::Table::try_from(&self.rl).map_err(|error| invalid(error.to_string()))?;
        merge(&mut rl, &variant.rl);
        rl.try_into().map_err(|error: toml::de::Error| invalid(error.to_string()))
    }

    /// How samples are put to the model in a run.
    pub fn config(&self, run: &NanoRun) -> RunConfig {
        let evaluate = &self.evaluate;
        RunConfig {
            profile: Some(evaluate.profile),
            mode: Some(run.mode.clone()),
            nframes: run.nframes.or(Some(evaluate.nframes)),
            max_turns: Some(evaluate.max_turns),
            max_parallel: run.max_parallel.or(Some(evaluate.max_parallel)),
            crop: Some(CropMode::Subagent),
            max_tokens: Some(evaluate.max_tokens),
            ..RunConfig::default()
        }
    }
}

/// Writes tables over tables, field by field.
fn merge(into: &mut toml::Table, from: &toml::Table) {
    for (name, value) in from {
        match (into.get_mut(name), value) {
            (Some(toml::Value::Table(into)), toml::Value::Table(from)) => merge(into, from),
            _ => {
                into.insert(name.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_change_what_they_name_and_nothing_else() {
        let recipe = NanoRecipe::built_in().unwrap();
        for variant in &recipe.variants {
            assert_ne!(recipe.variant(variant).unwrap(), recipe.rl, "{}", variant.name);
        }
        let vanilla = recipe.variants.iter().find(|variant| variant.name == "grpo").unwrap();
        let rl = recipe.variant(vanilla).unwrap();
        assert!(!rl.rollout.think_prefix && !rl.reward.answer_suffix);
        assert_eq!((rl.steps, &rl.optimizer), (recipe.rl.steps, &recipe.rl.optimizer));
        let wrong = Variant {
            name: "wrong".to_owned(),
            title: String::new(),
            paper: None,
            prior: None,
            rl: toml::from_str("rollout = { think_prefx = true }").unwrap(),
        };
        assert!(recipe.variant(&wrong).unwrap_err().to_string().contains("think_prefx"));
    }

    #[test]
    fn a_run_stands_for_one_of_each_number_of_frames_and_names_one_list() {
        #[derive(Deserialize)]
        struct Runs {
            #[serde(deserialize_with = "each_run")]
            runs: Vec<NanoRun>,
        }
        let run = "[[runs]]\nname = \"a\"\nmodel = \"rl\"\nmode = \"native\"\neach_nframes = [4, 64]\n";
        let Runs { runs } = toml::from_str(run).unwrap();
        let found: Vec<_> = runs.iter().map(|run| (run.name.as_str(), run.nframes)).collect();
        assert_eq!(found, [("a-4", Some(4)), ("a-64", Some(64))]);
        let both = toml::from_str::<Runs>(&format!("{run}nframes = 8\n")).err().unwrap().to_string();
        assert!(both.contains("both nframes and each_nframes"), "{both}");
    }

    #[test]
    fn every_comparison_is_of_two_runs() {
        let recipe = NanoRecipe::built_in().unwrap();
        for Question { a, b, .. } in &recipe.comparisons {
            assert!([a, b].iter().all(|name| recipe.runs.iter().any(|run| run.name == **name)), "{a} {b}");
        }
    }
}
