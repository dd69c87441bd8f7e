//! Trainings in other programs, as jobs of `paravt-engines`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paravt_engines::{Job, Paths, Watch, merge, pick, rl, sft};
use serde::Deserialize;
use serde_json::json;
use toml::Table;

use super::Stage;
use super::build::Builder;
use super::select::reference;
use crate::error::{Error, RecipeError};
use crate::host::About;
use crate::stages::Launch;

/// Where the programs and inputs of the trainings are. In each `{out}` is the folder of the recipe and
/// `{materialize}` that of the input of this name.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Engines {
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
    pub(super) published_sft: String,
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

impl Builder<'_> {
    fn engines(&self) -> &Engines {
        &self.recipe.engines
    }

    /// A text with the folders of the recipe and of a stage's inputs.
    fn filled(&self, stage: &Stage, text: &str) -> String {
        let out = text.replace("{out}", &self.options.out.display().to_string());
        let folders = stage.inputs.iter().filter_map(|input| Some((input, self.folder(stage, input)?)));
        folders.fold(out, |text, (input, folder)| {
            text.replace(&format!("{{{input}}}"), &folder.display().to_string())
        })
    }

    fn paths(&self, stage: &Stage) -> Paths {
        let at = |text: &str| PathBuf::from(self.filled(stage, text));
        let Engines { checkout, engines, sft, rl, base, sft_rows, rl_rows, .. } = self.engines();
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

    /// Variables of the programs, and when they count as stalled.
    fn programs(&self, stage: &Stage) -> Result<(BTreeMap<String, String>, Watch), RecipeError> {
        let Engines { environment, watch, .. } = self.engines();
        watch.check().map_err(|error| self.wrong(stage, error))?;
        let filled = environment.iter().map(|(name, value)| (name.clone(), self.filled(stage, value)));
        Ok((filled.collect(), watch.clone()))
    }

    pub(super) fn launch_sft(&self, stage: &Stage, settings: Table) -> Result<Launch, RecipeError> {
        let settings: sft::Settings = self.typed(stage, settings)?;
        settings.check().map_err(|error| self.wrong(stage, error))?;
        let (environment, watch) = self.programs(stage)?;
        let job = Job::Sft(sft::Job { settings, watch, environment, paths: self.paths(stage) });
        let Engines { base, sft_rows, .. } = self.engines();
        let settings = json!({ "settings": job.settings(), "base": base, "rows": sft_rows });
        Ok(Launch { job, settings })
    }

    pub(super) fn merge(&self, stage: &Stage, mut settings: Table) -> Result<Launch, RecipeError> {
        let (environment, watch) = self.programs(stage)?;
        let job = Job::Merge(merge::Job {
            sft: self.path(stage, &mut settings, "from")?,
            settings: self.typed(stage, settings)?,
            watch,
            environment,
            paths: self.paths(stage),
        });
        Ok(Launch { settings: json!({ "base": self.engines().base }), job })
    }

    /// Reinforcement learning, and what is known of it.
    pub(super) fn launch_rl(&self, stage: &Stage, mut settings: Table) -> Result<(Launch, About), Error> {
        // A model that is not made here.
        let start = settings.get("model").filter(|model| reference(model).is_none()).cloned();
        let model = self.path(stage, &mut settings, "model")?;
        let settings: rl::Settings = self.typed(stage, settings)?;
        settings.check().map_err(|error| self.wrong(stage, error))?;
        let Engines { base, rl_rows, .. } = self.engines();
        // The base model as the paper calls it, or the last part of its name.
        let base = Path::new(base).file_name().unwrap_or_default().to_string_lossy();
        let about = About {
            recipe: self.released(&settings).unwrap_or(&self.recipe.name).to_owned(),
            base_model: base.trim_end_matches("-Instruct").to_owned(),
            seed: settings.seed,
        };
        let (environment, watch) = self.programs(stage)?;
        let paths = self.paths(stage);
        let gpus = self.options.gpus.clone();
        let job = Job::Rl(Box::new(rl::Job { settings, watch, environment, paths, model, gpus }));
        let settings = json!({ "settings": job.settings(), "start": start, "rows": rl_rows });
        Ok((Launch { job, settings }, about))
    }

    /// The release's configuration that the settings are, if they are one of them throughout.
    fn released(&self, rl: &rl::Settings) -> Option<&'static str> {
        let sft: Result<sft::Settings, _> = self.recipe.sft.clone().try_into();
        if sft.ok()? != sft::Settings::default() {
            return None;
        }
        let known = [("paragrpo_8b", rl::Settings::default()), ("vanilla_grpo_8b", rl::Settings::vanilla())];
        known.into_iter().find(|(_, settings)| settings == rl).map(|(name, _)| name)
    }

    pub(super) fn pick(&self, stage: &Stage, mut settings: Table) -> Result<Launch, RecipeError> {
        let rl = self.path(stage, &mut settings, "from")?;
        let rl::Settings { pick: step, .. } = self.typed(stage, settings)?;
        let job = Job::Pick(pick::Job { rl, step, base: self.paths(stage).base });
        Ok(Launch { settings: job.settings(), job })
    }
}
