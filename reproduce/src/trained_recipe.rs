//! Recipes whose training runs in other programs.

use std::path::Path;
use std::sync::Arc;

use paravt_engines::{rl, sft};
use paravt_environments::Setup;
use paravt_preflight::Needs;
use serde::Deserialize;
use serde_json::json;

use crate::error::{Error, RecipeError};
use crate::graph::{Graph, StageId};
use crate::host::{Check, TrainedModel};
use crate::needs::{Estimate, Preflight};
use crate::options::GraphOptions;
use crate::recipe_file::{self, RecipeKind, check_folder_name, check_folder_names};
use crate::served_recipe::Served;
use crate::stages::{Materialize, Prepare};
use crate::target::{Fetch, Item, Target};
use crate::training_jobs::{Before, Engines, Jobs};
use crate::work::Work;

/// A training in other programs and the evaluation after it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trained {
    /// Kind of the recipe.
    pub kind: RecipeKind,
    /// Name on the command line.
    pub name: String,
    /// One line about it.
    pub title: String,
    /// Name of the recipe that evaluates the result.
    pub evaluate: String,
    /// Where the programs and inputs of the trainings are.
    #[serde(default)]
    pub engines: Engines,
    /// Settings of SFT; the release's where nothing is said.
    #[serde(default)]
    pub sft: sft::Settings,
    /// Settings of reinforcement learning; the release's where nothing is said.
    #[serde(default)]
    pub rl: rl::Settings,
    /// Row of the published ablation table that the evaluation is beside [default: the evaluation's own].
    pub paper_row: Option<String>,
    /// Splits of the evaluation that this row has no number for.
    #[serde(default)]
    pub withheld: Vec<String>,
    /// What the machine needs.
    pub needs: Needs,
    /// What the user chooses of the checkout and the environments.
    #[serde(default)]
    pub environments: Setup,
    /// Stages up to the trained model, each after its inputs.
    pub stages: Vec<TrainingStage>,
}

/// A stage of the training.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingStage {
    name: String,
    #[serde(default)]
    inputs: Vec<String>,
    #[serde(default)]
    deviates: Vec<String>,
    #[serde(default)]
    estimate: Estimate,
    #[serde(rename = "does")]
    method: Method,
    #[serde(default)]
    fetch: Vec<Fetched>,
    /// Environments to make.
    #[serde(default)]
    install: Vec<String>,
}

/// What a stage does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
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
    /// Cold-start SFT by the release's lmms-engine.
    Sft,
    /// One model folder from the shards of SFT.
    Merge,
    /// Reinforcement learning by the release's AReaL and SGLang.
    Rl,
    /// The model folder of the chosen checkpoint.
    Pick,
}

/// Something to fetch, as `data fetch` takes it, and its published size in GB.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fetched {
    name: String,
    #[serde(default)]
    gb: u64,
}

/// What `--allow-missing` does.
const ALLOWED: &str = "--allow-missing: rows whose media are missing are left to the released loaders, which skip them; \
     materialize.json lists the media";

/// Splits that the ablation table has no numbers for.
const NOT_ABLATED: [&str; 3] = ["longvideobench", "mmvu", "charades"];

/// The variants of [`Trained::built_in`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variants {
    variants: Vec<Variant>,
}

/// A variant and what it changes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    name: String,
    #[serde(default)]
    title: String,
    paper_row: String,
    #[serde(default)]
    rl: rl::Settings,
    /// Why it cannot be run.
    missing: Option<String>,
}

fn variants() -> Result<Vec<Variant>, RecipeError> {
    let text = include_str!("../recipes/paravt-8b-variants.toml");
    recipe_file::parse::<Variants>("recipes paravt-8b-variants", text).map(|table| table.variants)
}

pub(crate) fn names() -> Vec<String> {
    variants().map(|all| all.into_iter().map(|variant| variant.name).collect()).unwrap_or_default()
}

/// The recipe of a variant; `None` where there is no such variant.
///
/// # Errors
/// A variant that cannot be run from the release: what is missing.
pub(crate) fn variant(name: &str) -> Result<Option<Trained>, RecipeError> {
    let Some(variant) = variants()?.into_iter().find(|variant| variant.name == name) else { return Ok(None) };
    let Variant { name, title, paper_row, rl, missing } = variant;
    if let Some(missing) = missing {
        return Err(RecipeError::Missing { name, missing });
    }
    let withheld = NOT_ABLATED.map(str::to_owned).to_vec();
    Ok(Some(Trained { name, title, paper_row: Some(paper_row), withheld, rl, ..Trained::built_in()? }))
}

impl Trained {
    /// The release's training.
    ///
    /// # Errors
    /// A mistake in the built-in file.
    pub fn built_in() -> Result<Self, RecipeError> {
        Self::parse("recipe paravt-8b-train", include_str!("../recipes/paravt-8b-train.toml"))
    }

    /// The recipe of a text; `file` is where it is from.
    ///
    /// # Errors
    /// It is not a recipe of this kind, or a stage builds on one that is not before it.
    pub fn parse(file: &str, text: &str) -> Result<Self, RecipeError> {
        let recipe: Self = recipe_file::parse(file, text)?;
        recipe.check().map_err(|message| RecipeError::invalid(file, message))?;
        Ok(recipe)
    }

    /// Checks names, inputs, and settings that would fail only when their stage runs.
    fn check(&self) -> Result<(), String> {
        for (number, stage) in self.stages.iter().enumerate() {
            let is_before = |input: &&String| self.stages[..number].iter().any(|other| other.name == **input);
            if let Some(input) = stage.inputs.iter().find(|input| !is_before(input)) {
                let name = &stage.name;
                return Err(format!("stage `{name}` builds on `{input}`, which is not listed before it"));
            }
        }
        check_folder_name("name", &self.name)?;
        check_folder_names("[[stages]] name", self.stages.iter().map(|stage| stage.name.as_str()))?;
        self.engines.check()?;
        let does = |wanted| self.stages.iter().any(|stage| stage.method == wanted);
        if does(Method::Sft) {
            self.sft.check().map_err(|error| error.to_string())?;
        }
        if does(Method::Rl) {
            self.rl.check().map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The evaluation beside the row of the ablation table, where the recipe is of one.
    fn beside_row(&self, mut evaluation: Served) -> Served {
        if let Some(row) = &self.paper_row {
            (evaluation.paper_row, evaluation.baseline_row) = (Some(row.clone()), None);
        }
        evaluation.splits.retain(|split| !self.withheld.contains(&split.task));
        evaluation
    }

    /// Everything that its stages and the evaluation read from the hub. The model that is evaluated is trained here.
    fn fetch(&self, evaluation: &Served, options: &GraphOptions) -> Fetch {
        let named = self.stages.iter().flat_map(|stage| &stage.fetch);
        let named = named.map(|item| Item { target: Target::named(&item.name), gb: item.gb });
        let published = Target::Model(self.engines.published_sft().to_owned());
        let published = options.skip_sft.then_some(Item { target: published, gb: 18 });
        let splits =
            evaluation.items(options).into_iter().filter(|item| matches!(item.target, Target::Task(_)));
        Fetch { items: named.chain(published).chain(splits).collect() }
    }

    /// Its stages, then those of the evaluation.
    ///
    /// # Errors
    /// A stage without the stage whose result it needs, or data of the release that are wrong.
    pub fn graph(&self, evaluation: Served, options: &GraphOptions) -> Result<Graph, Error> {
        let mut graph = Graph::new(&self.name, &self.title, &options.out, &options.stages);
        let fetch = self.fetch(&evaluation, options);
        // All splits are fetched: variants share what they are trained on.
        let evaluation = self.beside_row(evaluation);
        let (mut protocol, mut data) = (None, None);
        let mut made: Vec<(&str, StageId)> = Vec::new();
        let mut before = Before::default();
        let jobs = Jobs {
            recipe: &self.name,
            engines: &self.engines,
            sft: &self.sft,
            rl: &self.rl,
            out: &options.out,
            gpus: &options.gpus,
        };
        let is_left_out = |method| options.skip_sft && matches!(method, Method::Sft | Method::Merge);
        for stage in self.stages.iter().filter(|stage| !is_left_out(stage.method)) {
            let inputs = made.iter().filter(|(name, _)| stage.inputs.iter().any(|input| input == name));
            let inputs: Vec<StageId> = inputs.map(|(_, id)| *id).collect();
            let work: Arc<dyn Work> = match stage.method {
                Method::Preflight => Arc::new(Check::Machine(Box::new(Preflight {
                    recipe: self.name.clone(),
                    needs: self.needs.clone(),
                    fetch: fetch.clone(),
                    is_fetched: self.stages.iter().any(|stage| stage.method == Method::Fetch),
                    deletes: options.delete_archives,
                }))),
                Method::Fetch => Arc::new(fetch.clone()),
                Method::Materialize => Arc::new(Materialize),
                Method::Checkout => Arc::new(Prepare::checkout(&self.environments)?),
                Method::Environments => Arc::new(Prepare::environments(&self.environments, &stage.install)?),
                Method::Sft => Arc::new(jobs.sft(&before)),
                Method::Merge => Arc::new(jobs.merge(&before)?),
                Method::Rl => Arc::new(jobs.rl(&before, options.skip_sft)?),
                Method::Pick => Arc::new(jobs.pick(&before)?),
            };
            let id = graph.push(&stage.name, None, &inputs, work);
            graph.estimate(id, stage.estimate);
            graph.deviates(id, &stage.deviates);
            graph.deviates(id, &graph[id].work().deviations());
            if stage.method == Method::Materialize && options.allow_missing {
                graph.deviates(id, &[ALLOWED]);
            }
            let folder = graph[id].folder().map(Path::to_owned);
            match stage.method {
                // What the evaluations need is known before days of training.
                Method::Preflight => protocol = Some(evaluation.check_protocol(&mut graph, options)?),
                Method::Fetch => data = Some(evaluation.check_data(&mut graph, &[id])),
                Method::Materialize => before.materialize = folder,
                Method::Sft => before.sft = folder,
                Method::Merge => before.merge = folder,
                Method::Rl => before.rl = folder,
                Method::Pick => before.pick = folder,
                Method::Checkout | Method::Environments => {}
            }
            made.push((&stage.name, id));
        }
        let mut options = options.clone();
        if let Some(model) = before.model() {
            // Answers of another training are others, wherever its model lies.
            let stage =
                model.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
            options.selection = json!({ "command": options.selection, "trained": stage });
            options.model = options.model.or_else(|| Some(model.display().to_string()));
        }
        let last: Vec<StageId> = made.last().map(|(_, id)| *id).into_iter().collect();
        let checks = [
            protocol.map_or_else(|| evaluation.check_protocol(&mut graph, &options), Ok)?,
            data.unwrap_or_else(|| evaluation.check_data(&mut graph, &last)),
        ];
        let (rl, model) = (before.rl.clone(), before.model());
        let training = rl.zip(model);
        let training =
            training.map(|(training, model)| TrainedModel { training, model, about: jobs.about() });
        evaluation.extend(&mut graph, &options, checks, &last, training.as_ref())?;
        Ok(graph)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recipe;

    fn graph(recipe: &Trained, options: &GraphOptions) -> Graph {
        Recipe::Trained(Box::new(recipe.clone())).graph(options).unwrap()
    }

    #[test]
    fn variants_change_the_method_and_share_the_sft() {
        let (mut run, mut missing) = (Vec::new(), Vec::new());
        let folder = |recipe: &Trained, name: &str| {
            let graph = graph(recipe, &GraphOptions::new("out"));
            let stage = graph.stages().iter().find(|stage| stage.name() == name).unwrap();
            stage.folder().unwrap().to_owned()
        };
        let full = Trained::built_in().unwrap();
        for name in names() {
            match variant(&name) {
                Ok(Some(recipe)) => {
                    assert_eq!(folder(&recipe, "merge"), folder(&full, "merge"));
                    for stage in ["rl", "pick", "with-tool-mlvu"] {
                        assert_ne!(folder(&recipe, stage), folder(&full, stage), "{name} {stage}");
                    }
                    let graph = graph(&recipe, &GraphOptions::new("out"));
                    let row = recipe.paper_row.clone();
                    let published: Vec<_> = graph
                        .evaluations()
                        .filter_map(|(_, asked, _)| asked.config.paper_row.clone())
                        .collect();
                    assert!(
                        published.len() == 4 && published.iter().all(|other| Some(other) == row.as_ref())
                    );
                    run.push(name);
                }
                Err(RecipeError::Missing { missing: what, .. }) => {
                    assert!(what.contains("no switch"), "{what}");
                    missing.push(name);
                }
                other => panic!("{name}: {other:?}"),
            }
        }
        assert_eq!((run.len(), missing.len()), (3, 2));
    }

    #[test]
    fn without_sft_reinforcement_learning_starts_from_the_published_model() {
        let options = GraphOptions { skip_sft: true, ..GraphOptions::new("out") };
        let graph = graph(&Trained::built_in().unwrap(), &options);
        assert!(!graph.stages().iter().any(|stage| ["sft", "merge"].contains(&stage.name())));
        let plan = graph.plan(&|_| true);
        assert!(plan.contains("PARAVT_BASE_MODEL=mwxely/ParaVT-8B-SFT"), "{plan}");
        assert!(plan.contains("model:mwxely/ParaVT-8B-SFT"), "{plan}");
    }

    #[test]
    fn a_stage_builds_on_what_is_before_it() {
        let text = include_str!("../recipes/paravt-8b-train.toml");
        let recipe = Trained::parse("train.toml", text).unwrap();
        let graph = graph(&recipe, &GraphOptions::new("out"));
        let names: Vec<&str> = graph.stages().iter().map(crate::graph::Stage::name).take(10).collect();
        // Texts and rows of the evaluations are checked before days of training.
        let expected = [
            "preflight",
            "protocol",
            "fetch",
            "data",
            "materialize",
            "checkout",
            "environments",
            "sft",
            "merge",
            "rl",
        ];
        assert_eq!(names, expected);
        let error = Trained::parse("train.toml", &text.replace("inputs = [\"sft\"]", "inputs = [\"rl\"]"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("`merge` builds on `rl`"), "{error}");
    }

    #[test]
    fn training_takes_the_gpus_that_this_process_may_use() {
        let gpus: Vec<String> = (2..10).map(|gpu: usize| gpu.to_string()).collect();
        let plan = |gpus: &[String]| {
            let options = GraphOptions { gpus: gpus.to_vec(), ..GraphOptions::new("out") };
            graph(&Trained::built_in().unwrap(), &options).plan(&|_| true)
        };
        let given = plan(&gpus);
        for text in
            ["SGLang on GPU 2, 7 trainers", "CUDA_VISIBLE_DEVICES=2 ", "CUDA_VISIBLE_DEVICES=3,4,5,6,7,8,9"]
        {
            assert!(given.contains(text), "{text}: {given}");
        }
        // The preflight refuses a machine with fewer; the plan counts from 0.
        assert!(plan(&gpus[..1]).contains("SGLang on GPU 0, 7 trainers"));
    }

    #[test]
    fn settings_that_would_fail_after_hours_are_refused_at_once() {
        let text = include_str!("../recipes/paravt-8b-train.toml");
        let refused = |text: &str| Trained::parse("train.toml", text).unwrap_err().to_string();
        let with = |more: &str| refused(&format!("{text}\n{more}"));
        assert!(with("[sft]\nstop_after = 450").contains("step 450 has no checkpoint"));
        assert!(with("[rl]\ntrainers = 3").contains("prompts = 7 cannot be shared by trainers = 3"));
        assert!(with("[rl]\npick = 55").contains("pick = 55 has no checkpoint"));
        assert!(with("[engines.watch]\nstall_seconds = -1.0").contains("stall_seconds = -1"));
        assert!(with("[engines.watch]\npoll_seconds = nan").contains("poll_seconds = NaN"));
        assert!(with("[sft]\nsetps = 3").contains("did you mean `steps`"));
        for name in ["../sft", "a/b", "", ".sft", "a\\nb"] {
            let text = text.replace("name = \"fetch\"", &format!("name = \"{name}\""));
            let text = text.replace("inputs = [\"fetch\"]", &format!("inputs = [\"{name}\"]"));
            assert!(refused(&text).contains("cannot be the name of a folder"), "{name}");
        }
        let twice = format!("{text}\n[[stages]]\nname = \"fetch\"\ndoes = \"fetch\"\n");
        assert!(refused(&twice).contains("`fetch` is used twice"));
    }

    #[test]
    fn media_that_are_allowed_to_be_missing_are_a_deviation() {
        let plan = |allow_missing| {
            let options = GraphOptions { allow_missing, ..GraphOptions::new("out") };
            graph(&Trained::built_in().unwrap(), &options).plan(&|_| true)
        };
        assert!(plan(true).contains("deviates --allow-missing") && !plan(false).contains("--allow-missing"));
    }
}
