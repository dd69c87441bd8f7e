//! Checks a recipe before any stage runs: a value that would fail later is refused by its field.

use std::collections::BTreeMap;

use paravt_reports::PaperNumbers;
use paravt_reports::study::{ACCURACY, Prediction, Test};
use paravt_suite::nearest;

use super::{Method, Recipe};
use crate::error::{Error, RecipeError};
use crate::graph::{Graph, Stage};
use crate::options::GraphOptions;
use crate::stages::{Measurement, Reinforcement};

impl Recipe {
    /// The first thing that is wrong, if any.
    ///
    /// # Errors
    /// The field, what is wrong with it and how to fix it.
    pub(super) fn check(&self) -> Result<(), RecipeError> {
        if self.stages.is_empty() {
            let message = "no [[stages]]: write `extends = \"served\"`, `\"embedded\"` or the name of a recipe, or list them";
            return Err(self.invalid(message));
        }
        if let Some(name) = self.matrix.stray(&self.stages) {
            let axes = self.stages.iter().flat_map(|stage| &stage.matrix);
            let hint = nearest::hint(nearest::nearest(name, axes.map(String::as_str)));
            return Err(self.invalid(format!("[matrix] `{name}` is an axis of no stage{hint}")));
        }
        self.matrix.check(&self.stages).map_err(|message| self.invalid(message))?;
        for method in [Method::Preflight, Method::Fetch, Method::Serve] {
            let mut all = self.stages.iter().filter(|stage| stage.does == Some(method));
            if let (Some(first), Some(second)) = (all.next(), all.next()) {
                let (first, second) = (&first.name, &second.name);
                let message = format!("stage `{second}` does the same as `{first}`, which a recipe has once");
                return Err(self.invalid(message));
            }
        }
        if self.model.is_some() && !self.does(|method| method == Method::Serve) {
            return Err(self.invalid("`model` is read by no stage: give `model` to the stages that ask one"));
        }
        check_folder_name("name", &self.name).map_err(|message| self.invalid(message))?;
        self.check_sizes().map_err(|message| self.invalid(message))?;
        let graph = |full| {
            let options = GraphOptions { full, ..GraphOptions::new("out") };
            let graph = self.graph(&options).map_err(|error| match error {
                Error::Recipe(error) => error,
                error => self.invalid(error.to_string()),
            });
            graph.and_then(|graph| {
                check_stage_names(&graph).map_err(|message| self.invalid(message))?;
                Ok(graph)
            })
        };
        graph(false)?;
        let full = graph(true)?;
        self.check_names(&full).map_err(|message| self.invalid(message))
    }

    /// Sizes of which nothing could be made.
    fn check_sizes(&self) -> Result<(), String> {
        for stage in &self.stages {
            let (table, sizes): (_, &[&str]) = match stage.does {
                Some(Method::World) => ("world", &["videos", "questions"]),
                Some(Method::TrainingData) => ("data", &["videos", "rows", "prompts"]),
                Some(Method::Evaluate) => ("evaluate", &["nframes", "max_turns", "max_tokens"]),
                _ => continue,
            };
            let settings = self.settings(stage);
            if let Some(field) = sizes.iter().find(|field| settings.get(**field) == Some(&0.into())) {
                return Err(format!("`{table}.{field}` is 0; it must be at least 1"));
            }
        }
        Ok(())
    }

    /// The names that comparisons and predictions are about exist.
    fn check_names(&self, graph: &Graph) -> Result<(), String> {
        let evaluated: Vec<&str> = graph.evaluations().map(|(stage, ..)| stage.name()).collect();
        let rows: BTreeMap<&String, &str> = graph
            .evaluations()
            .filter_map(|(stage, asked, _)| Some((asked.config.paper_row.as_ref()?, stage.name())))
            .collect();
        if !rows.is_empty() {
            let paper = PaperNumbers::embedded().map_err(|error| error.to_string())?;
            for (row, stage) in rows {
                paper.row(row).map_err(|error| format!("stage `{stage}`: paper_row: {error}"))?;
            }
        }
        for comparison in &self.comparisons {
            let names = [&comparison.a, &comparison.b];
            if let Some(name) = names.into_iter().find(|name| !evaluated.contains(&name.as_str())) {
                let title = &comparison.title;
                return Err(format!("[[comparisons]] `{title}` names `{name}`, which is not an evaluation"));
            }
        }
        let has_curves =
            |stage: &&Stage| stage.kind::<Reinforcement>().is_some() || stage.kind::<Measurement>().is_some();
        let trained: Vec<&str> = graph.stages().iter().filter(has_curves).map(Stage::name).collect();
        for Prediction { title, tests, .. } in &self.predictions {
            if tests.is_empty() {
                return Err(format!("[[predictions]] `{title}` has no tests"));
            }
            for Test { figure, a, b, .. } in tests {
                let (known, what) = match figure.as_str() {
                    ACCURACY => (&evaluated, "an evaluation"),
                    _ => (&trained, "a reinforcement learning or a measurement"),
                };
                if let Some(name) = a.iter().chain([b]).find(|name| !known.contains(&name.as_str())) {
                    return Err(format!(
                        "[[predictions]] `{title}`: {figure} of `{name}`, which is not {what}"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Checks that names of stages can be those of folders, and differ but for their seeds.
fn check_stage_names(graph: &Graph) -> Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    for stage in graph.stages() {
        check_folder_name("[[stages]] name", stage.name())?;
        if !seen.insert((stage.name(), stage.seed())) {
            return Err(format!("[[stages]] name `{}` is used twice; choose another name", stage.name()));
        }
    }
    Ok(())
}

/// Checks a name of a recipe that becomes part of a folder's name; `field` is where it stands.
///
/// # Errors
/// An empty or long name, or one with other letters than a plain folder has.
fn check_folder_name(field: &str, name: &str) -> Result<(), String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if !name.is_empty() && name.len() <= 100 && !name.starts_with('.') && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(format!(
        "{field} `{name}` cannot be the name of a folder: use letters, digits, `-`, `_` and `.`, \
         the first of them not `.`"
    ))
}
