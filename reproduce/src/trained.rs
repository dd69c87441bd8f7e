//! Recipes whose training runs in other programs.

use std::collections::BTreeMap;
use std::path::Path;

use paravt_environments::Setup;
use paravt_preflight::Needs;
use serde::Deserialize;

use crate::graph::{Check, Graph, Outside, StageId, Work};
use crate::prepare::Prepare;
use crate::provide::{Estimate, Fetch, Item, Preflight, Target};
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
    /// What the machine needs.
    pub needs: Needs,
    /// What the user chooses of the checkout and the environments.
    #[serde(default)]
    pub environments: Setup,
    /// Stages up to the trained model, each after its inputs.
    pub stages: Vec<Described>,
}

/// A stage in words; `{out}` in them is the folder of the recipe.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Described {
    name: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    inputs: Vec<String>,
    command: Option<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    output: Option<String>,
    #[serde(default)]
    deviates: Vec<String>,
    #[serde(default)]
    estimate: Estimate,
    /// What this program does for it; without it the stage is only described.
    does: Option<Does>,
    /// What to fetch.
    #[serde(default)]
    fetch: Vec<Fetched>,
    /// Environments to make.
    #[serde(default)]
    install: Vec<String>,
    /// What this version lacks to run a stage that is only described.
    #[serde(default)]
    missing: String,
}

/// Stages of a training that this program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Does {
    /// Checks the machine.
    Preflight,
    /// Fetches rows, media, models, and the splits of the evaluation.
    Fetch,
    /// Writes the training rows with the paths of this machine.
    Materialize,
    /// Makes the checkout of the release.
    Checkout,
    /// Makes environments of it.
    Environments,
}

/// Something to fetch, as `data fetch` takes it, and its published size in GB.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fetched {
    name: String,
    #[serde(default)]
    gb: u64,
}

impl Described {
    fn outside(&self, at_out: &dyn Fn(&str) -> String) -> Outside {
        let environment = self.environment.iter().map(|(name, text)| (name.clone(), at_out(text)));
        Outside {
            title: self.title.clone(),
            command: self.command.as_deref().map(at_out),
            environment: environment.collect(),
            output: self.output.as_deref().map(at_out),
            missing: self.missing.clone(),
        }
    }
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

    /// Everything that its stages and the evaluation read from the hub. The model that is evaluated is trained here.
    fn fetch(&self, evaluation: &Served, options: &GraphOptions) -> Fetch {
        let named = self.stages.iter().flat_map(|stage| &stage.fetch);
        let named = named.map(|item| Item { target: Target::named(&item.name), gb: item.gb });
        let splits =
            evaluation.items(options).into_iter().filter(|item| matches!(item.target, Target::Task(_)));
        Fetch { items: named.chain(splits).collect() }
    }

    /// Its stages, then those of the evaluation.
    ///
    /// # Errors
    /// A recipe of the evaluation that cannot be used.
    pub fn graph(&self, options: &GraphOptions) -> Result<Graph, Error> {
        let mut graph = Graph::new(&self.name, &self.title, &options.out, &options.stages);
        let evaluation = self.evaluation()?;
        let at_out = |text: &str| text.replace("{out}", &options.out.display().to_string());
        let mut made: Vec<(&str, StageId)> = Vec::new();
        for stage in &self.stages {
            let inputs = made.iter().filter(|(name, _)| stage.inputs.iter().any(|input| input == name));
            let inputs: Vec<StageId> = inputs.map(|(_, id)| *id).collect();
            let work = match stage.does {
                Some(Does::Preflight) => Work::Check(Check::Machine(Box::new(Preflight {
                    recipe: self.name.clone(),
                    needs: self.needs.clone(),
                    fetch: self.fetch(&evaluation, options),
                    is_fetched: self.stages.iter().any(|stage| stage.does == Some(Does::Fetch)),
                }))),
                Some(Does::Fetch) => Work::Fetch(self.fetch(&evaluation, options)),
                Some(Does::Materialize) => Work::Materialize,
                Some(Does::Checkout) => Work::Prepare(Box::new(Prepare::checkout(&self.environments)?)),
                Some(Does::Environments) => {
                    Work::Prepare(Box::new(Prepare::environments(&self.environments, &stage.install)?))
                }
                None => Work::Outside(Box::new(stage.outside(&at_out))),
            };
            let id = graph.add(&stage.name, None, &inputs, work);
            graph.estimate(id, stage.estimate);
            graph.prepare_deviates(id);
            graph.deviates(id, &stage.deviates.iter().map(String::as_str).collect::<Vec<_>>());
            made.push((&stage.name, id));
        }
        let model = Path::new(&at_out(&self.model)).display().to_string();
        let options = GraphOptions { model: options.model.clone().or(Some(model)), ..options.clone() };
        let last: Vec<StageId> = made.last().map(|(_, id)| *id).into_iter().collect();
        evaluation.extend(&mut graph, &options, &last)?;
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
        let names: Vec<&str> = graph.stages().iter().map(crate::graph::Stage::name).take(10).collect();
        let expected = [
            "preflight",
            "fetch",
            "materialize",
            "checkout",
            "environments",
            "sft",
            "merge",
            "rl",
            "pick",
            "protocol",
        ];
        assert_eq!(names, expected);
        let error = Trained::parse("train.toml", &text.replace("inputs = [\"sft\"]", "inputs = [\"rl\"]"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("`merge` builds on `rl`"), "{error}");
    }
}
