//! Recipes whose training runs in other programs. Their stages are described; the launchers are not built.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::graph::{Graph, Outside, StageId, Work};
use crate::recipe::{GraphOptions, Kind};
use crate::served::Served;
use crate::{Error, Recipe, RecipeError, parse_toml};

/// A training in other programs and the evaluation after it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trained {
    /// Kind of the recipe.
    pub kind: Kind,
    /// Name on the command line.
    pub name: String,
    /// One line about it.
    pub title: String,
    /// Name of the recipe that evaluates the result.
    pub evaluate: String,
    /// Folder of the trained model; `{out}` in it is the recipe's.
    pub model: String,
    /// Stages up to the trained model, each after its inputs.
    pub stages: Vec<Described>,
}

/// A stage in words; `{out}` in them is the folder of the recipe.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Described {
    name: String,
    title: String,
    #[serde(default)]
    inputs: Vec<String>,
    command: Option<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    output: Option<String>,
    #[serde(default)]
    deviates: Vec<String>,
    missing: String,
}

impl Trained {
    /// The recipe of a text; `file` is where it is from.
    ///
    /// # Errors
    /// It is not a recipe of this kind, or a stage builds on one that is not before it.
    pub fn parse(file: &str, text: &str) -> Result<Self, RecipeError> {
        let recipe: Self = parse_toml(file, text)?;
        for (number, stage) in recipe.stages.iter().enumerate() {
            let is_before =
                |input: &&String| recipe.stages[..number].iter().any(|other| other.name == **input);
            if let Some(input) = stage.inputs.iter().find(|input| !is_before(input)) {
                let message = format!("stage `{}` builds on `{input}`, which is not before it", stage.name);
                return Err(RecipeError::Invalid { file: file.to_owned(), message, nearest: None });
            }
        }
        Ok(recipe)
    }

    /// The recipe that evaluates the result.
    fn evaluation(&self) -> Result<Box<Served>, RecipeError> {
        match Recipe::load(&self.evaluate)? {
            Recipe::Served(served) => Ok(served),
            _ => Err(RecipeError::Invalid {
                file: format!("recipe {}", self.name),
                message: format!("evaluate: `{}` does not evaluate a served model", self.evaluate),
                nearest: None,
            }),
        }
    }

    /// Its stages, then those of the evaluation.
    ///
    /// # Errors
    /// A recipe of the evaluation that cannot be used.
    pub fn graph(&self, options: &GraphOptions) -> Result<Graph, Error> {
        let mut graph = Graph::new(&self.name, &self.title, &options.out, &options.stages);
        let at_out = |text: &str| text.replace("{out}", &options.out.display().to_string());
        let mut made: Vec<(&str, StageId)> = Vec::new();
        for stage in &self.stages {
            let inputs = made.iter().filter(|(name, _)| stage.inputs.iter().any(|input| input == name));
            let inputs: Vec<StageId> = inputs.map(|(_, id)| *id).collect();
            let outside = Outside {
                title: stage.title.clone(),
                command: stage.command.as_deref().map(at_out),
                environment: stage
                    .environment
                    .iter()
                    .map(|(name, text)| (name.clone(), at_out(text)))
                    .collect(),
                output: stage.output.as_deref().map(at_out),
                missing: stage.missing.clone(),
            };
            let id = graph.add(&stage.name, None, &inputs, Work::Outside(Box::new(outside)));
            graph.deviates(id, &stage.deviates.iter().map(String::as_str).collect::<Vec<_>>());
            made.push((&stage.name, id));
        }
        let model = Path::new(&at_out(&self.model)).display().to_string();
        let options = GraphOptions { model: options.model.clone().or(Some(model)), ..options.clone() };
        let last: Vec<StageId> = made.last().map(|(_, id)| *id).into_iter().collect();
        self.evaluation()?.extend(&mut graph, &options, &last);
        Ok(graph)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_builds_on_what_is_before_it() {
        let text = include_str!("../recipes/paravt-8b-train.toml");
        let recipe = Trained::parse("train.toml", text).unwrap();
        let graph = recipe.graph(&GraphOptions::new("out")).unwrap();
        let names: Vec<&str> = graph.stages().iter().map(crate::graph::Stage::name).take(9).collect();
        let expected =
            ["preflight", "environments", "fetch", "materialize", "sft", "merge", "rl", "pick", "protocol"];
        assert_eq!(names, expected);
        let error = Trained::parse("train.toml", &text.replace("inputs = [\"sft\"]", "inputs = [\"rl\"]"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("`merge` builds on `rl`"), "{error}");
    }
}
