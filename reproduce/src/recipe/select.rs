//! The stages of a recipe that flags leave, each with all its inputs.

use std::collections::{BTreeMap, BTreeSet};

use paravt_suite::nearest;
use toml::{Table, Value};

use super::{Method, Recipe, Stage};
use crate::error::RecipeError;
use crate::options::GraphOptions;

/// Folder of the recipe, in a setting that names a path.
const OUT: &str = "out";

/// The stage whose result a setting names, as in `{sft}/final`, and the path below it.
pub(super) fn reference(value: &Value) -> Option<(&str, &str)> {
    let (name, path) = value.as_str()?.strip_prefix('{')?.split_once('}')?;
    (name != OUT).then(|| (name, path.trim_start_matches('/')))
}

impl Recipe {
    pub(super) fn invalid(&self, message: impl Into<String>) -> RecipeError {
        RecipeError::invalid(self.source.clone(), message)
    }

    /// The stages that are made with these options, in order and at all places of the matrix.
    ///
    /// # Errors
    /// A stage without a method, or with an input that is not listed before it.
    pub(super) fn select(&self, options: &GraphOptions) -> Result<Vec<Stage>, RecipeError> {
        let mut stages: Vec<Stage> = Vec::new();
        // What stands for a stage that is not made: what it builds on.
        let mut left_out: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for stage in &self.stages {
            let name = &stage.name;
            let method =
                stage.does.ok_or_else(|| self.invalid(format!("stage `{name}`: missing field `does`")))?;
            let mut made = self.with_flags(stage.clone(), options);
            let mut settings = self.settings(&made);
            let is_enabled = self.take(&made, &mut settings, "enabled")?.unwrap_or(true);
            let is_made = is_enabled && (options.full || !stage.full);
            self.check_inputs(stage, is_enabled, &settings, &stages, &left_out)?;
            let named = self.references(stage, &settings).map(str::to_owned);
            let listed = std::mem::take(&mut made.inputs).into_iter();
            let all = listed.chain(named).flat_map(|input| match left_out.get(&*input) {
                Some(instead) => instead.clone(),
                None => vec![input],
            });
            for input in all {
                let is_engine =
                    stages.iter().any(|made| made.name == input && made.does == Some(Method::Environments));
                let is_needed = method != Method::Serve || !is_engine || self.installs(options)?;
                if is_needed && !made.inputs.contains(&input) {
                    made.inputs.push(input);
                }
            }
            let seeded = |input: &&String| stages.iter().any(|made| made.name == **input && made.is_seeded());
            let is_of_all = made.is_seeded() || method == Method::Report;
            if let Some(input) = made.inputs.iter().find(seeded).filter(|_| is_made && !is_of_all) {
                return Err(self.invalid(format!(
                    "stage `{name}` builds on `{input}`, which is made for each seed: give it `matrix = [\"seed\"]`"
                )));
            }
            if is_made {
                stages.push(made);
            } else {
                left_out.insert(name, made.inputs);
            }
        }
        // From the last one: what nothing builds on needs nothing either.
        let mut used: BTreeSet<String> = BTreeSet::new();
        for number in (0..stages.len()).rev() {
            let stage = &stages[number];
            if stage.does.is_some_and(Method::is_for_others) && !used.contains(&stage.name) {
                stages.remove(number);
            } else {
                used.extend(stage.inputs.iter().cloned());
            }
        }
        self.matrix.expand(&stages, &options.seeds).map_err(|message| self.invalid(message))
    }

    /// The stages whose results the settings of a stage name, at any place of the matrix.
    fn references<'a>(&'a self, stage: &'a Stage, settings: &'a Table) -> impl Iterator<Item = &'a str> {
        let all = settings.values().chain(self.matrix.settings_of(stage));
        all.filter_map(reference).map(|(name, _)| name)
    }

    /// Whether the engine is one of the environments that are made.
    fn installs(&self, options: &GraphOptions) -> Result<bool, RecipeError> {
        Ok(options.backend.is_none() && self.serve(options)?.install.is_some())
    }

    /// A stage with what flags change of its settings.
    fn with_flags(&self, mut stage: Stage, options: &GraphOptions) -> Stage {
        if stage.does == Some(Method::LaunchRl) && options.skip_sft {
            stage.settings.insert("model".to_owned(), self.engines.published_sft.clone().into());
        }
        stage
    }

    /// Checks that all inputs of a stage are made before it.
    fn check_inputs(
        &self,
        stage: &Stage,
        is_enabled: bool,
        settings: &Table,
        before: &[Stage],
        left_out: &BTreeMap<&str, Vec<String>>,
    ) -> Result<(), RecipeError> {
        let name = &stage.name;
        let known = || before.iter().map(|stage| stage.name.as_str()).chain(left_out.keys().copied());
        let unknown = |input: &str| {
            let hint = nearest::hint(nearest::nearest(input, known()));
            self.invalid(format!("stage `{name}` builds on `{input}`, which is not listed before it{hint}"))
        };
        if let Some(input) = stage.inputs.iter().find(|input| !known().any(|known| known == **input)) {
            return Err(unknown(input));
        }
        for input in self.references(stage, settings) {
            if !known().any(|known| known == input) {
                return Err(unknown(input));
            }
            if left_out.contains_key(input) && is_enabled && !stage.full {
                return Err(self.invalid(format!(
                    "stage `{name}` reads the result of `{input}`, which is not enabled or made with --full only: \
                     give `{name}` the same `enabled` and `full = true`"
                )));
            }
        }
        Ok(())
    }
}
