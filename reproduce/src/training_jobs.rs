//! Training stages of other programs, as a recipe describes them, turned into jobs of `paravt-engines`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paravt_engines::{Job, Paths, Watch, merge, pick, rl, sft};
use serde::Deserialize;
use serde_json::json;

use crate::error::RecipeError;
use crate::host::About;
use crate::stages::Launch;

/// Where the programs and inputs of the trainings are. In each `{out}` is the folder of the recipe and
/// `{materialize}` that of the stage of this name.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Engines {
    checkout: String,
    /// Folder of the copy of AReaL.
    engines: String,
    /// Environment of lmms-engine.
    sft: String,
    /// Environment of AReaL and SGLang.
    rl: String,
    /// Base model: its id on the hub, or a folder.
    base: String,
    /// Published model to start reinforcement learning from with `--skip-sft`.
    published_sft: String,
    sft_rows: String,
    /// Rows of reinforcement learning.
    rl_rows: String,
    /// Further variables of the programs.
    environment: BTreeMap<String, String>,
    /// When a training counts as stalled.
    watch: Watch,
}

impl Default for Engines {
    fn default() -> Self {
        Self {
            checkout: "{out}/checkout".to_owned(),
            engines: "{out}/engines".to_owned(),
            sft: "{out}/env/sft".to_owned(),
            rl: "{out}/env/rl".to_owned(),
            base: "Qwen/Qwen3-VL-8B-Instruct".to_owned(),
            published_sft: "mwxely/ParaVT-8B-SFT".to_owned(),
            sft_rows: "{materialize}".to_owned(),
            rl_rows: "{materialize}/paravt_rl_diverse_4k4.parquet".to_owned(),
            environment: BTreeMap::new(),
            watch: Watch::default(),
        }
    }
}

/// Folders of the stages before one, as far as they are there.
#[derive(Debug, Default)]
pub(crate) struct Before {
    pub(crate) materialize: Option<PathBuf>,
    pub(crate) sft: Option<PathBuf>,
    pub(crate) merge: Option<PathBuf>,
    pub(crate) rl: Option<PathBuf>,
    pub(crate) pick: Option<PathBuf>,
}

impl Before {
    /// Folder of the last model that was made.
    pub(crate) fn model(&self) -> Option<PathBuf> {
        self.pick.as_deref().or(self.merge.as_deref()).map(merge::model)
    }
}

/// What makes the jobs of a recipe.
pub(crate) struct Jobs<'a> {
    pub(crate) recipe: &'a str,
    pub(crate) engines: &'a Engines,
    pub(crate) sft: &'a sft::Settings,
    pub(crate) rl: &'a rl::Settings,
    pub(crate) out: &'a Path,
    pub(crate) gpus: &'a [String],
}

impl Engines {
    /// What is wrong with times.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.watch.check().map_err(|error| error.to_string())
    }

    /// The id of the published SFT model.
    pub(crate) fn published_sft(&self) -> &str {
        &self.published_sft
    }
}

impl Jobs<'_> {
    fn paths(&self, before: &Before) -> Paths {
        let out = self.out.display().to_string();
        let rows = before.materialize.as_ref().map(|folder| folder.display().to_string()).unwrap_or_default();
        let at = |text: &str| PathBuf::from(text.replace("{out}", &out).replace("{materialize}", &rows));
        let Engines { checkout, engines, sft, rl, base, sft_rows, rl_rows, .. } = self.engines;
        Paths {
            checkout: at(checkout),
            engines: at(engines),
            sft_environment: at(sft),
            rl_environment: at(rl),
            base: at(base),
            sft_rows: at(sft_rows),
            rl_rows: at(rl_rows),
        }
    }

    fn environment(&self) -> BTreeMap<String, String> {
        let out = self.out.display().to_string();
        let variables = self.engines.environment.iter();
        variables.map(|(name, value)| (name.clone(), value.replace("{out}", &out))).collect()
    }

    fn wrong(&self, stage: &str, needs: &str) -> RecipeError {
        let message = format!("stage `{stage}` needs a stage with does = \"{needs}\" before it");
        RecipeError::invalid(format!("recipe {}", self.recipe), message)
    }

    pub(crate) fn sft(&self, before: &Before) -> Launch {
        let job = sft::Job {
            settings: self.sft.clone(),
            watch: self.engines.watch.clone(),
            environment: self.environment(),
            paths: self.paths(before),
        };
        let job = Job::Sft(job);
        let settings =
            json!({ "settings": job.settings(), "base": self.engines.base, "rows": self.engines.sft_rows });
        Launch { job, settings }
    }

    pub(crate) fn merge(&self, before: &Before) -> Result<Launch, RecipeError> {
        let job = Job::Merge(merge::Job {
            sft: before.sft.clone().ok_or_else(|| self.wrong("merge", "sft"))?,
            settings: self.sft.clone(),
            watch: self.engines.watch.clone(),
            environment: self.environment(),
            paths: self.paths(before),
        });
        Ok(Launch { settings: json!({ "base": self.engines.base }), job })
    }

    /// `published` starts from the published SFT model.
    pub(crate) fn rl(&self, before: &Before, published: bool) -> Result<Launch, RecipeError> {
        let start = published.then(|| self.engines.published_sft.clone());
        let merged = before.merge.as_deref().map(merge::model);
        let model = start.clone().map(PathBuf::from).or(merged);
        let job = Job::Rl(Box::new(rl::Job {
            settings: self.rl.clone(),
            watch: self.engines.watch.clone(),
            environment: self.environment(),
            paths: self.paths(before),
            model: model.ok_or_else(|| self.wrong("rl", "merge"))?,
            gpus: self.gpus.to_vec(),
        }));
        let settings = json!({ "settings": job.settings(), "start": start, "rows": self.engines.rl_rows });
        Ok(Launch { job, settings })
    }

    /// What is known of the reinforcement learning.
    pub(crate) fn about(&self) -> About {
        About {
            recipe: self.released().unwrap_or(self.recipe).to_owned(),
            base_model: self.base_model(),
            seed: self.rl.seed,
        }
    }

    /// The release's configuration that the settings are, if they are one of them throughout.
    fn released(&self) -> Option<&'static str> {
        if *self.sft != sft::Settings::default() {
            return None;
        }
        let known = [("paragrpo_8b", rl::Settings::default()), ("vanilla_grpo_8b", rl::Settings::vanilla())];
        known.into_iter().find(|(_, settings)| settings == self.rl).map(|(name, _)| name)
    }

    /// The base model as the paper calls it, or the last part of its name.
    fn base_model(&self) -> String {
        let name =
            Path::new(&self.engines.base).file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.trim_end_matches("-Instruct").to_owned()
    }

    pub(crate) fn pick(&self, before: &Before) -> Result<Launch, RecipeError> {
        let job = Job::Pick(pick::Job {
            rl: before.rl.clone().ok_or_else(|| self.wrong("pick", "rl"))?,
            step: self.rl.pick,
            base: self.paths(before).base,
        });
        Ok(Launch { settings: job.settings(), job })
    }
}
