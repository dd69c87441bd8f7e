//! The stages of the embedded reproduction.

use std::path::PathBuf;

use paravt_suite::evaluate::RunConfig;
use paravt_train::checkpoint::FINAL;
use paravt_train::reward::RewardConfig;
use paravt_train::rl::RlConfig;
use paravt_train::sft::SftConfig;
use serde_json::json;

use super::{NanoRecipe, NanoRun, Prior, Variant};
use crate::error::Error;
use crate::graph::{Graph, StageId};
use crate::host::{Evaluation, Reporting};
use crate::options::GraphOptions;
use crate::stages::{Generated, Measurement, Reinforcement, Sft};

/// Name of the model that nothing was trained into yet.
pub(super) const BASE: &str = "base";

/// Samples in flight: what decodes together.
pub const CONCURRENCY: usize = 32;

/// A model that runs can name, and the stage that makes it.
struct Model {
    name: String,
    stage: StageId,
    folder: PathBuf,
}

/// What cold starts go on from.
struct Start {
    /// Stands before the names of its stages.
    prefix: String,
    stage: StageId,
    folder: PathBuf,
}

/// Trains a prior into the base checkpoint.
fn start(graph: &mut Graph, base: StageId, prior: &Prior) -> Start {
    let data = graph.add(&format!("{}-data", prior.name), None, &[], Generated::TrainingData(prior.data, 0));
    let sft = Sft { config: prior.sft.clone(), base: folder(graph, base), data: folder(graph, data) };
    let stage = graph.add(&prior.name, None, &[base, data], sft);
    Start { prefix: prior.prefix(), stage, folder: folder(graph, stage).join(FINAL) }
}

/// All stages in order, for each seed; `full` adds the variants. Where all runs are of the base checkpoint
/// nothing is trained.
///
/// # Errors
/// A variant changes a field that does not exist, or a run names no model.
pub fn graph(recipe: &NanoRecipe, options: &GraphOptions) -> Result<Graph, Error> {
    let mut graph = Graph::new(&recipe.name, &recipe.title, &options.out, &options.stages);
    let base = graph.add(BASE, None, &[], Generated::Base);
    let world = graph.add("world", None, &[], Generated::World(recipe.world));
    let starts = match recipe.priors.as_slice() {
        [] => vec![Start { prefix: String::new(), stage: base, folder: folder(&graph, base) }],
        priors => priors.iter().map(|prior| start(&mut graph, base, prior)).collect(),
    };
    let runs: Vec<&NanoRun> = recipe.runs.iter().filter(|run| options.full || !run.full).collect();
    let mut evaluations = Vec::new();
    for &seed in &options.seeds {
        let mut models = vec![Model { name: BASE.to_owned(), stage: base, folder: folder(&graph, base) }];
        if runs.iter().any(|run| run.model != BASE) {
            models.extend(trainings(recipe, &mut graph, &starts, seed, options.full)?);
        }
        for run in &runs {
            let model = models.iter().find(|model| model.name == run.model);
            let model = model.ok_or_else(|| Error::NoModel {
                run: run.name.clone(),
                model: run.model.clone(),
                made: models.iter().map(|model| model.name.as_str()).collect::<Vec<_>>().join(", "),
            })?;
            let work = evaluation(recipe, run, seed, model.folder.clone(), folder(&graph, world));
            let inputs = [world, model.stage];
            evaluations.push(graph.add(&run.name, Some(seed), &inputs, work));
        }
    }
    let page = options.out.join("report/index.html");
    let report = Reporting { page: Some(page), paper_row: None };
    graph.add("report", None, &evaluations, report);
    Ok(graph)
}

pub(super) fn folder(graph: &Graph, stage: StageId) -> PathBuf {
    graph[stage].folder().expect("a generated or trained result is kept").to_owned()
}

fn evaluation(recipe: &NanoRecipe, run: &NanoRun, seed: u64, model: PathBuf, world: PathBuf) -> Evaluation {
    Evaluation {
        splits: recipe.evaluate.splits.clone(),
        config: RunConfig {
            concurrency: Some(CONCURRENCY),
            resume: true,
            label: Some(format!("{}, seed {seed}", run.name)),
            ..recipe.config(run)
        },
        protocol: None,
        model: Some(model),
        fleet: None,
        training: None,
        world: Some(world),
        title: match &recipe.evaluate.splits[..] {
            [split] => format!("{split}, {} ({})", run.name, run.mode),
            splits => format!("{} splits, {} ({})", splits.len(), run.name, run.mode),
        },
        settings: json!({ "evaluate": recipe.evaluate, "run": run }),
        limit: None,
    }
}

/// Data, cold starts and reinforcement learning of a seed; `full` adds the variants.
fn trainings(
    recipe: &NanoRecipe,
    graph: &mut Graph,
    starts: &[Start],
    seed: u64,
    full: bool,
) -> Result<Vec<Model>, Error> {
    let data = Generated::TrainingData(recipe.data, seed);
    let data = graph.add("data", Some(seed), &[], data);
    let data_folder = folder(graph, data);
    let mut made = Vec::new();
    for (number, start) in starts.iter().enumerate() {
        let prefix = &start.prefix;
        let config = SftConfig { seed, ..recipe.sft.clone() };
        let sft = Sft { config, base: start.folder.clone(), data: data_folder.clone() };
        let sft = graph.add(&format!("{prefix}sft"), Some(seed), &[start.stage, data], sft);
        made.push(sft);
        let model = folder(graph, sft);
        // Rollouts in which nothing is forced.
        let measure = |graph: &mut Graph, prefix: &str, stage: StageId| {
            let Some(prompts) = recipe.measured_prompts else { return };
            let mut config = Box::new(RlConfig { seed, ..recipe.rl.clone() });
            config.reward = RewardConfig::vanilla();
            (config.rollout.think_prefix, config.rollout.frame_gating) = (false, false);
            let model = folder(graph, stage).join(FINAL);
            let work = Measurement { config, model, data: data_folder.clone(), prompts };
            graph.add(&format!("{prefix}measured"), Some(seed), &[stage, data], work);
        };
        measure(graph, prefix, sft);
        let mut reinforce = |name: &str, title: &str, paper: &Option<String>, config: RlConfig| {
            let is_forced = config.rollout.think_prefix;
            let work = Reinforcement {
                config: Box::new(RlConfig { seed, ..config }),
                title: title.to_owned(),
                paper: paper.clone(),
                sft: model.clone(),
                data: data_folder.clone(),
            };
            let arm = graph.add(name, Some(seed), &[sft, data], work);
            made.push(arm);
            if is_forced {
                measure(graph, &format!("{name}-"), arm);
            }
        };
        if number == 0 {
            reinforce("rl", "PARA-GRPO", &recipe.rl_paper, recipe.rl.clone());
        }
        let is_here = |variant: &&Variant| match &variant.prior {
            Some(prior) => *prefix == format!("{prior}-"),
            None => number == 0,
        };
        for variant in recipe.variants.iter().filter(|_| full).filter(is_here) {
            reinforce(&variant.name, &variant.title, &variant.paper, recipe.variant(variant)?);
        }
    }
    let model = |stage: StageId| Model {
        name: graph[stage].name().to_owned(),
        stage,
        folder: folder(graph, stage).join(FINAL),
    };
    Ok(made.into_iter().map(model).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Stage;

    /// A user's finished stages stay valid as long as these names do: other names mean that everything is made
    /// again, and are right only where what a stage makes changes.
    #[test]
    fn stages_keep_their_names() {
        let recipe = NanoRecipe::built_in().unwrap();
        let options = GraphOptions { full: true, ..GraphOptions::new("out") };
        let graph = graph(&recipe, &options).unwrap();
        let folders = graph.stages().iter().filter_map(Stage::folder);
        let names: Vec<String> =
            folders.map(|folder| folder.file_name().unwrap().to_string_lossy().into_owned()).collect();
        let expected = [
            "base-421a56789cf7",
            "world-92290bc053ee",
            "data-e1060842add0",
            "sft-c8ae96398781",
            "rl-c15e4637447a",
            "grpo-88e3181c9940",
            "no-think-prefix-623a16b7c002",
            "no-anchoring-6ebc999f1344",
            "no-gating-423c93de31c8",
            "pyvision-e2e487ab15f4",
            "with-tool-5208d2564b06",
            "no-tool-0c80f4f3272d",
            "sequential-ba2d9ba9a12b",
            "sft-with-tool-bf4c04b56c7e",
            "sft-no-tool-009c89805b61",
            "grpo-with-tool-6e92d633ad7d",
            "pyvision-with-tool-e7c5f8b8a005",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn every_seed_has_its_own_trainings_and_evaluations() {
        let recipe = NanoRecipe::built_in().unwrap();
        let options = GraphOptions { seeds: vec![0, 1], full: true, ..GraphOptions::new("out") };
        let graph = graph(&recipe, &options).unwrap();
        let of = |seed| graph.stages().iter().filter(|stage| stage.seed() == seed).count();
        assert_eq!((of(None), of(Some(0)), of(Some(1))), (3, 15, 15));
    }
}
