//! What serves the model of a recipe, what of it is fetched, and what the machine needs for it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use paravt_reports::Naming;
use toml::{Table, Value};

use super::build::Builder;
use super::file::without;
use super::select::reference;
use super::{Method, Recipe, Stage, typed};
use crate::environments::Layout;
use crate::error::{Error, RecipeError};
use crate::needs;
use crate::options::GraphOptions;
use crate::preflight::Needs;
use crate::servers::{Engine, Fleet, Serve};
use crate::target::{Fetch, Item, Target};

impl Recipe {
    /// How the model is served: by the recipe, or by another engine with its own command.
    pub(super) fn serve(&self, options: &GraphOptions) -> Result<Serve, RecipeError> {
        let stage = self.stages.iter().find(|stage| stage.does == Some(Method::Serve));
        let mut settings = stage.map(|stage| self.settings(stage)).unwrap_or_default();
        without(&mut settings, &["enabled", "model"]);
        let flags: Option<String> = match stage {
            Some(stage) => self.take(stage, &mut settings, "flags")?,
            None => None,
        };
        let mut serve: Serve =
            typed(Value::Table(settings)).map_err(|message| self.invalid(format!("[serve] {message}")))?;
        match (&mut serve.command, flags) {
            (Some(command), Some(flags)) => *command = format!("{command} {flags}"),
            (None, Some(_)) => {
                return Err(self.invalid("[serve] flags: give the command that gets them, too"));
            }
            (_, None) => {}
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
            gb: BTreeMap<String, u64>,
        }
        let stage = self.stages.iter().find(|stage| stage.does == Some(Method::Fetch));
        let settings = stage.map_or_else(|| self.fetch.clone(), |stage| self.settings(stage));
        let Settings { items, gb, .. } =
            typed(Value::Table(settings)).map_err(|message| self.invalid(format!("[fetch] {message}")))?;
        let item =
            |name: &str| Item { target: Target::named(name), gb: gb.get(name).copied().unwrap_or_default() };
        if let Some(listed) = items {
            let mut items: Vec<Item> = listed.iter().map(|name| item(name)).collect();
            if options.skip_sft {
                let splits = items.iter().position(|item| matches!(item.target, Target::Task(_)));
                let published = item(&format!("model:{}", self.engines.published_sft));
                items.insert(splits.unwrap_or(items.len()), published);
            }
            return Ok(Fetch { items, deletes: options.delete_archives });
        }
        let model = options.model.as_ref().or(self.model.as_ref());
        let model = model.filter(|model| options.backend.is_none() && !is_folder(model));
        let model = model.map(|model| Item {
            target: Target::Model(model.clone()),
            // The size of another model is not known.
            gb: if self.naming(model) == Naming::Same { item("model").gb } else { 0 },
        });
        Ok(Fetch {
            items: model.into_iter().chain(self.splits(stages)?.iter().map(|split| item(split))).collect(),
            deletes: options.delete_archives,
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

    /// The model of the published row.
    fn published_model(&self) -> Option<&String> {
        self.row_model.as_ref().or(self.model.as_ref())
    }

    /// The model that is named in the place of that.
    fn model_instead<'a>(&'a self, options: &'a GraphOptions) -> Option<&'a String> {
        options.model.as_ref().or_else(|| self.model.as_ref().filter(|_| self.row_model.is_some()))
    }

    fn naming(&self, model: &str) -> Naming {
        Naming::of(model, self.published_model().map_or("", String::as_str))
    }

    /// What to know of a model in the place of that of a published row, where the names do not say that it is the same.
    pub(super) fn other_model(&self, options: &GraphOptions) -> Option<(Naming, String)> {
        let has_row = self.paper_row.is_some() || self.evaluate.contains_key("paper_row");
        let of = self.published_model().filter(|_| has_row && !self.is_launched())?;
        let model = self.model_instead(options)?;
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
        let (model, of) = (self.model_instead(options)?, self.published_model()?);
        Some(format!("{} in the place of {of}; {}", model_name(model), self.title))
    }
}

impl Builder<'_> {
    /// Names of the environments that a stage makes: those that it lists, or that of the servers.
    pub(super) fn environments(&self, stage: &Stage, settings: &mut Table) -> Result<Vec<String>, Error> {
        Ok(match self.recipe.take(stage, settings, "install")? {
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
        if settings.get("model").is_some_and(|model| reference(model).is_none()) {
            return Err(self
                .wrong(stage, "`model`: name it at the top of the recipe, where all read it")
                .into());
        }
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
pub(super) fn model_name(model: &str) -> &str {
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
