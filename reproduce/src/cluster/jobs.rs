//! The jobs of a recipe: one without GPUs that downloads and installs, one that trains where the recipe does, an array of
//! evaluations of one shard each, one that merges the shards and reports.

use std::path::{Path, PathBuf};

use crate::graph::{Graph, Stage};
use crate::work::Role;

use crate::cluster::script::{After, Job};
use crate::cluster::{Error, absolute, folder};

/// How the jobs call this program.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    pub program: PathBuf,
    /// The recipe, as the user named it.
    pub recipe: &'a str,
    /// Flags that every job gets.
    pub flags: Vec<String>,
    /// Model that the user named.
    pub model: Option<&'a str>,
    /// Stages and splits that the user selected; empty for all.
    pub only: &'a [String],
    /// `--own-engine` is given.
    pub own_engine: bool,
    /// `--skip-preflight` is given.
    pub skip_preflight: bool,
    /// Shards of each evaluation.
    pub shards: u16,
}

impl Call<'_> {
    /// The jobs of a graph, each after the one before it.
    ///
    /// # Errors
    /// A recipe that evaluates nothing, a folder that cannot be resolved.
    pub fn jobs(&self, graph: &Graph) -> Result<Vec<Job>, Error> {
        let is = |stage: &Stage, roles: &[Role]| roles.contains(&stage.work().role());
        let stages = graph.stages();
        let last = |roles: &[Role]| {
            stages.iter().rfind(|stage| is(stage, roles)).map(Stage::name).ok_or(Error::NoEvaluation)
        };
        let until_trained = last(&[Role::Preflight, Role::Check, Role::Serve])?;
        let until_evaluated = last(&[Role::Evaluate])?;
        // What needs no GPU: all up to the training, or to the servers.
        let before = stages.iter().take_while(|stage| !is(stage, &[Role::Train]));
        let before = before.filter(|stage| !is(stage, &[Role::Serve, Role::Evaluate, Role::Report]));
        let until_prepared = before.last().map_or(until_trained, Stage::name);
        let is_trained = stages.iter().any(|stage| is(stage, &[Role::Train]));
        let is_all = self.only.is_empty();
        // With `--only`, what the evaluations need is not among what is named.
        let kept = stages.iter().filter(|stage| stage.slot().is_some() && !is(stage, &[Role::Evaluate]));
        let needed = names(kept);
        let needed = if needed.is_empty() { until_prepared.to_owned() } else { needed };
        let needed = Some(needed).filter(|_| !is_all);
        // Downloads and checks of the data are done.
        let evaluations = is_all.then(|| names(graph.evaluations().map(|(stage, ..)| stage)));

        let (model, programs) = served(graph);
        let is_served = graph.evaluations().any(|(_, evaluation, _)| evaluation.fleet.is_some());
        let (shards, out) = (self.shards.to_string(), absolute(&graph.out)?);
        let (out, shard) = (path_text(&out), path_text(&folder(graph)?.join("shard-{element}")));
        let model = model.as_deref().or(self.model);
        let up_to = |stage| {
            [
                ("--model", self.model),
                ("--out", Some(&*out)),
                ("--until", Some(stage)),
                ("--only", needed.as_deref()),
            ]
        };
        let evaluation = [
            ("--model", model),
            ("--out", Some(&*shard)),
            ("--shard", Some(&*format!("{{element}}/{shards}"))),
            ("--until", Some(until_evaluated)),
            ("--only", evaluations.as_deref()),
        ];
        let collect = [("--model", self.model), ("--out", Some(&*out)), ("--merge-shards", Some(&*shards))];
        let given = [self.own_engine, self.skip_preflight];
        let job = |name: &str, words, after| Job {
            name: name.to_owned(),
            words,
            path: None,
            array: None,
            whole_node: true,
            after,
        };
        // Its machine has other GPUs than those that are needed, or none.
        let prepare = self.command(&up_to(until_prepared), [self.own_engine, true]);
        let train = self.command(&up_to(until_trained), given);
        // The model and its engine, where it is served here, are there. What a training needs was checked by its job; else each node is checked.
        let evaluate = self.command(&evaluation, [is_served, is_trained || self.skip_preflight]);
        let prepare = Job { whole_node: false, ..job("prepare", prepare, After::Nothing) };
        let train = is_trained.then(|| job("train", train, After::Success));
        let evaluate = Job {
            path: programs.as_deref().map(absolute).transpose()?.as_deref().map(path_text),
            array: Some(self.shards.into()),
            ..job("evaluate", evaluate, After::Success)
        };
        // Also after an element that failed: it is named.
        let collect = Job { whole_node: false, ..job("collect", self.command(&collect, given), After::End) };
        Ok([prepare].into_iter().chain(train).chain([evaluate, collect]).collect())
    }

    /// A command with these flags, those that have a value, and `--own-engine` and `--skip-preflight` where they are asked.
    fn command(&self, values: &[(&str, Option<&str>)], switches: [bool; 2]) -> Vec<String> {
        let start = [path_text(&self.program), "reproduce".to_owned(), self.recipe.to_owned()];
        // `--only` of the job, in the place of the user's: with both, `--until` would leave out what that one names.
        let is_replaced = |flag: &&String| {
            flag.starts_with("--only=")
                && values.iter().any(|(own, value)| *own == "--only" && value.is_some())
        };
        let kept = self.flags.iter().filter(|flag| !is_replaced(flag)).cloned();
        let values = values.iter().filter_map(|(flag, value)| Some([*flag, (*value)?])).flatten();
        let switches = ["--own-engine", "--skip-preflight"].into_iter().zip(switches);
        let switches = switches.filter(|(_, is_given)| *is_given).map(|(flag, _)| flag);
        let own = values.chain(switches).map(str::to_owned);
        start.into_iter().chain(kept).chain(own).collect()
    }
}

/// The model that the stages of a graph serve, unless each of several rows has its own, and the folder of programs that
/// serve it.
pub(crate) fn served(graph: &Graph) -> (Option<String>, Option<PathBuf>) {
    let mut evaluations = graph.evaluations();
    let first = evaluations.find_map(|(stage, evaluation, _)| Some((stage, evaluation.fleet.as_ref()?)));
    let programs = first.and_then(|(_, fleet)| fleet.venv.as_ref()).map(|venv| venv.join("bin"));
    let one = first.filter(|(stage, _)| stage.row().is_none());
    (one.map(|(_, fleet)| fleet.model.clone()), programs)
}

fn names<'a>(stages: impl Iterator<Item = &'a Stage>) -> String {
    stages.map(Stage::name).collect::<Vec<_>>().join(",")
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}
