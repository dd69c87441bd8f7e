//! Recipes: stages with their settings, by name or from a file.

mod build;
mod check;
mod evaluate;
mod file;
mod launch;
mod matrix;
mod rows;
mod select;
mod serve;
#[cfg(test)]
mod tests;

use std::path::Path;

use paravt_reports::study::{Prediction, Question};
use paravt_suite::fields;
use paravt_upstream::paravt::import::RELEASE;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use self::file::Source;
use self::launch::Engines;
use self::matrix::{Matrix, Method, Stage};
use crate::environments::Setup;
use crate::error::RecipeError;

/// Samples in flight of a model in this process: what decodes together.
pub const CONCURRENCY: usize = 32;
/// Error message for a recipe that `rows` cannot list.
const NO_ROW: &str = "a row of a table is the recipe of one model that is served";
/// End of a row's name where its number is that of the model's authors.
const BY_AUTHORS: &str = " (by its authors)";

/// A recipe, with all that it extends.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recipe {
    /// Name of the recipe that it changes, or its file.
    extends: Option<String>,
    /// Its name; that of its file where it says none.
    pub name: String,
    /// One line about it.
    pub title: String,
    /// Model that is served, `owner/name` or a folder.
    pub model: Option<String>,
    /// Row of the published table that the result is compared with; `None` for a model that is not in it.
    pub paper_row: Option<String>,
    /// Why it cannot be run.
    missing: Option<String>,
    /// Recipes, by name or file, that it runs as one; it then has no stages of its own.
    rows: Vec<String>,
    /// Needs of the machine.
    preflight: Table,
    fetch: Table,
    /// Sources of the checkout and of the environments.
    environments: Setup,
    /// Where the programs and inputs of trainings in other programs are.
    engines: Engines,
    serve: Table,
    evaluate: Table,
    /// Generated splits.
    world: Table,
    /// Generated rows to train on.
    data: Table,
    sft: Table,
    /// Settings of reinforcement learning.
    rl: Table,
    /// Settings of rollouts with nothing forced.
    measure: Table,
    /// Axes that stages are repeated over.
    matrix: Matrix,
    stages: Vec<Stage>,
    /// Pairs of evaluations that are compared sample by sample.
    pub comparisons: Vec<Question>,
    /// What is predicted of trainings, measurements and evaluations.
    pub predictions: Vec<Prediction>,
    /// Where it is from, for messages.
    #[serde(skip)]
    source: String,
    /// Model of `paper_row`, where it names another in that one's place.
    #[serde(skip)]
    row_model: Option<String>,
    /// The recipes of `rows`.
    #[serde(skip)]
    row_recipes: Vec<Self>,
}

impl Recipe {
    /// A built-in recipe by name, or a file.
    ///
    /// # Errors
    /// Neither exists, the file cannot be read, or it is wrong; the message names the field.
    pub fn load(name: &str) -> Result<Self, RecipeError> {
        Self::of(file::find(name, Path::new(""), false)?, false)
    }

    /// The recipe of a text; `file` is where it is from.
    ///
    /// # Errors
    /// As of [`load`](Self::load).
    pub fn parse(file: &str, text: &str) -> Result<Self, RecipeError> {
        Self::of(Source::parse(file, text)?, false)
    }

    /// Builds the recipe of a source. With `is_row`, a recipe that has `rows` itself is an error: tables do not nest.
    fn of(source: Source, is_row: bool) -> Result<Self, RecipeError> {
        // A recipe of this build may have settings for stages that only those have which extend it.
        let own: Vec<String> = source.table.keys().filter(|_| !source.text.is_empty()).cloned().collect();
        let text = source.text.clone();
        let Source { file, table, row_model, .. } = source.merged()?;
        let recipe: Self =
            typed(Value::Table(table)).map_err(|message| RecipeError::invalid(&file, message))?;
        if let Some(missing) = recipe.missing {
            return Err(RecipeError::Missing { name: recipe.name, missing });
        }
        let folder = Path::new(&file).parent().unwrap_or(Path::new("")).to_owned();
        let recipe = Self { source: file, row_model, ..recipe };
        if !recipe.rows.is_empty() {
            return if is_row { Err(recipe.invalid(NO_ROW)) } else { recipe.with_rows(&folder) };
        }
        for (name, _) in recipe.tables().into_iter().filter(|(name, _)| own.iter().any(|own| own == name)) {
            if !recipe.does(|method| method.table() == Some(name)) {
                return Err(recipe.invalid(format!("[{name}] is read by no stage of this recipe")));
            }
        }
        recipe.check().map_err(|error| file::with_line(error, &text))?;
        Ok(recipe)
    }

    /// Names of all recipes of this build that can be run.
    pub fn names() -> Vec<String> {
        let all = file::built_in().unwrap_or_default().iter();
        all.filter(|(_, recipe)| !recipe.contains_key("missing")).map(|(name, _)| name.clone()).collect()
    }

    /// Name of the protocol under which a published row is measured: that of the recipe which evaluates it, else the
    /// release's. `None` of a number that a model's authors report themselves and no recipe evaluates.
    pub fn protocol_of_row(row: &str) -> Option<String> {
        // A table has the rows of other recipes.
        let all =
            file::built_in().unwrap_or_default().iter().filter(|(_, recipe)| !recipe.contains_key("rows"));
        for (name, _) in all {
            let Ok(recipe) = Self::load(name) else { continue };
            if let Some(protocol) =
                recipe.protocols().into_iter().find_map(|(of, protocol)| (of == row).then_some(protocol))
            {
                return Some(protocol.unwrap_or_else(|| RELEASE.name.to_owned()));
            }
        }
        (!row.ends_with(BY_AUTHORS)).then(|| RELEASE.name.to_owned())
    }

    /// Whether it runs several recipes as one.
    pub fn has_rows(&self) -> bool {
        !self.rows.is_empty()
    }

    /// Whether its models are made and asked in this process.
    pub fn is_in_process(&self) -> bool {
        !self.does(|method| method == Method::Serve)
    }

    /// Whether it trains in this process and evaluates what it trains.
    pub fn is_embedded(&self) -> bool {
        self.is_in_process() && self.does(|method| method == Method::Evaluate)
    }

    /// Whether it trains in other programs.
    pub fn is_launched(&self) -> bool {
        self.does(Method::is_launched)
    }

    /// One setting of a stage, which the others are read without.
    fn take<T: DeserializeOwned>(
        &self,
        stage: &Stage,
        settings: &mut Table,
        name: &str,
    ) -> Result<Option<T>, RecipeError> {
        let wrong = |message| self.wrong(stage, format!("{name}: {message}"));
        settings.remove(name).map(typed).transpose().map_err(wrong)
    }

    /// What is wrong with a stage, or with the table of all that do the same.
    fn wrong(&self, stage: &Stage, message: impl std::fmt::Display) -> RecipeError {
        let message = message.to_string();
        let table = stage.does.and_then(|method| self.table(method));
        let field = file::unknown_field(&message).filter(|field| !stage.settings.contains_key(*field));
        match table.filter(|(_, table)| field.is_some_and(|field| table.contains_key(field))) {
            Some((table, _)) => self.invalid(format!("[{table}] {message}")),
            None => self.invalid(format!("stage `{}`: {message}", stage.name)),
        }
    }

    fn does(&self, is_wanted: impl Fn(Method) -> bool) -> bool {
        let rows = self.row_recipes.iter().flat_map(|row| &row.stages);
        self.stages.iter().chain(rows).filter_map(|stage| stage.does).any(is_wanted)
    }

    /// The settings of a stage: its own over those of all that do the same.
    fn settings(&self, stage: &Stage) -> Table {
        let table = stage.does.and_then(|method| self.table(method));
        let mut settings = table.map(|(_, table)| table.clone()).unwrap_or_default();
        file::merge(&mut settings, stage.settings.clone());
        settings
    }

    /// The tables with the settings of all stages that do the same, by name.
    fn tables(&self) -> [(&'static str, &Table); 9] {
        [
            ("preflight", &self.preflight),
            ("fetch", &self.fetch),
            ("serve", &self.serve),
            ("evaluate", &self.evaluate),
            ("world", &self.world),
            ("data", &self.data),
            ("sft", &self.sft),
            ("rl", &self.rl),
            ("measure", &self.measure),
        ]
    }

    /// The table of a method.
    fn table(&self, method: Method) -> Option<(&'static str, &Table)> {
        let name = method.table()?;
        self.tables().into_iter().find(|(table, _)| *table == name)
    }

    /// The same stages as small as they get: two steps of each training, two videos. It shows that all of them run; what
    /// they measure means nothing.
    #[must_use]
    pub fn small(mut self) -> Self {
        self.title.push_str(" (small: no result)");
        let tables = [&mut self.world, &mut self.data, &mut self.sft, &mut self.rl, &mut self.measure];
        let methods = [Method::World, Method::TrainingData, Method::Sft, Method::Rl, Method::Measure];
        for (table, method) in tables.into_iter().zip(methods) {
            for (field, most) in small_sizes(method) {
                cap(table.entry(*field).or_insert(Value::Integer(*most)), *most);
            }
        }
        for stage in &mut self.stages {
            for (field, most) in stage.does.map_or(&[][..], small_sizes) {
                stage.settings.get_mut(*field).into_iter().for_each(|value| cap(value, *most));
                for axis in &stage.matrix {
                    self.matrix.change(axis, field, |value| cap(value, *most));
                }
            }
        }
        self
    }
}

/// The sizes of a stage in [`Recipe::small`], at most.
fn small_sizes(method: Method) -> &'static [(&'static str, i64)] {
    match method {
        Method::World => &[("videos", 2)],
        Method::TrainingData => &[("videos", 2), ("rows", 20), ("prompts", 4)],
        Method::Sft => &[("steps", 2)],
        Method::Rl => &[("steps", 2), ("prompts_per_step", 2)],
        Method::Measure => &[("prompts", 2)],
        _ => &[],
    }
}

/// A value in its type.
///
/// # Errors
/// Another type, or a field of its tables that is missing or unknown; the message has its path.
fn typed<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    fields::deserialize(value, |error: &toml::de::Error| error.message().to_owned())
}

fn cap(value: &mut Value, most: i64) {
    if let Value::Integer(number) = value {
        *number = (*number).min(most);
    }
}
