//! A recipe as Slurm jobs: one without GPUs that downloads and installs, one that trains where the recipe does, an array of
//! evaluations of one shard each, one that merges the shards and reports.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum;
use paravt_cluster::{After, Job, Options, Submitted};
use paravt_reproduce::drive::{Check, Evaluation, Outcome, Reporting};
use paravt_reproduce::graph::{Graph, Stage};
use paravt_reproduce::provenance::{self, Provenance};
use paravt_reproduce::serve::Fleet;
use paravt_reproduce::slot::{self, State};
use paravt_reproduce::stages::Launch;
use paravt_reproduce::{GraphOptions, Recipe};
use paravt_suite::evaluate::{Shard, merge};

use super::{Args, host};
use crate::exit::{Exit, OrPreflight as _};

/// Folder of the scripts, logs and shards below that of the recipe.
const FOLDER: &str = "slurm";

/// Where the stages run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Launcher {
    /// On this machine.
    Local,
    /// As Slurm jobs: downloads without GPUs, training on one whole node, evaluation on one node per shard.
    Slurm,
}

/// Flags of the launcher.
#[derive(clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct ClusterArgs {
    /// Where the stages run; --plan prints the job scripts.
    #[arg(long, value_enum, default_value = "local")]
    pub launcher: Launcher,
    /// Shards of each evaluation; each is one node of the job array.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    shards: u16,
    /// GPUs to request per node; 0 for none.
    #[arg(long, default_value_t = 8, value_name = "N")]
    node_gpus: u32,
    /// Option of sbatch for all jobs, e.g. --sbatch-option=--partition=gpu; repeatable [default: none].
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    sbatch_option: Vec<String>,
    /// Option of sbatch for the jobs without GPUs (downloads, report) in the place of the above; repeatable [default: those
    /// of --sbatch-option].
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    cpu_option: Vec<String>,
    /// First merge N shards of the evaluations below OUT/slurm; the last Slurm job does this [default: none].
    #[arg(long, value_name = "N", conflicts_with = "shard")]
    pub merge_shards: Option<u16>,
}

/// Flags that the jobs get otherwise or not at all, and whether they have a value.
const OWN: [(&str, bool); 11] = [
    ("--launcher", true),
    ("--shards", true),
    ("--node-gpus", true),
    ("--sbatch-option", true),
    ("--cpu-option", true),
    ("--merge-shards", true),
    ("--out", true),
    ("--model", true),
    ("--own-engine", false),
    ("--skip-preflight", false),
    ("--plan", false),
];

/// The flags of this command that its jobs get too: all but the recipe and [`OWN`].
fn forwarded(words: impl IntoIterator<Item = String>, recipe: &str) -> Vec<String> {
    let mut words = words.into_iter();
    let (mut kept, mut names) = (Vec::new(), vec!["reproduce", recipe]);
    while let Some(word) = words.next() {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        if let Some((_, has_value)) = OWN.iter().find(|(own, _)| *own == name) {
            if *has_value && name.len() == word.len() {
                words.next();
            }
        } else if names.first() == Some(&word.as_str()) {
            names.remove(0);
        } else {
            kept.push(word);
        }
    }
    kept
}

/// The jobs of a recipe and where they are described.
struct Jobs {
    jobs: Vec<Job>,
    options: Options,
    /// Name of the recipe.
    recipe: String,
    /// Absolute path of the scripts.
    folder: PathBuf,
    /// Where the command was given.
    dir: PathBuf,
}

/// The model that the stages of a graph serve, and the folder of programs that serve it.
fn served(graph: &Graph) -> (Option<String>, Option<PathBuf>) {
    let fleet = graph.stages().iter().find_map(Stage::kind::<Fleet>);
    let programs = fleet.and_then(|fleet| fleet.venv.as_ref()).map(|venv| venv.join("bin"));
    (fleet.map(|fleet| fleet.model.clone()), programs)
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot find {}", path.display()))
}

fn jobs(args: &Args, recipe: &Recipe, graph: &Graph) -> anyhow::Result<Jobs> {
    ensure!(
        matches!(recipe, Recipe::Served(_) | Recipe::Trained(_)),
        "--launcher slurm: for recipes of a served model; {} runs in this process",
        args.recipe
    );
    let refused = [
        ("--from", args.stage().is_some()),
        ("--redo", !args.redo.is_empty()),
        ("--until", args.until.is_some()),
        ("--shard", args.dispatch.is_shard()),
    ];
    if let Some((flag, _)) = refused.iter().find(|(_, given)| *given) {
        bail!(
            "{flag}: the jobs of --launcher slurm have it themselves; leave it out, or use --launcher local"
        );
    }
    let program = std::env::current_exe().context("cannot find the program of this process")?;
    let out = absolute(&graph.out)?;
    let folder = out.join(FOLDER);
    let given = forwarded(std::env::args().skip(1), &args.recipe);
    let shown = |path: &Path| path.display().to_string();
    let command = |flags: &[(&str, String)]| {
        let own = flags.iter().flat_map(|(flag, value)| [(*flag).to_owned(), value.clone()]);
        let start = [shown(&program), "reproduce".to_owned(), args.recipe.clone()];
        start.into_iter().chain(given.iter().cloned()).chain(own).collect::<Vec<String>>()
    };
    let last = |wanted: fn(&Stage) -> bool| {
        let found = graph.stages().iter().rfind(|stage| wanted(stage)).map(Stage::name);
        found.map(str::to_owned).context("the recipe evaluates nothing")
    };
    let trains = |stage: &Stage| stage.kind::<Launch>().is_some();
    let evaluates = |stage: &Stage| stage.kind::<Evaluation>().is_some();
    let serves = |stage: &Stage| stage.kind::<Fleet>().is_some();
    let until_trained = last(|stage| stage.kind::<Fleet>().is_some() || stage.kind::<Check>().is_some())?;
    // What needs no GPU: all up to the training, or to the servers.
    let before = graph.stages().iter().take_while(|stage| !trains(stage));
    let until =
        before.filter(|stage| !serves(stage) && !evaluates(stage) && stage.kind::<Reporting>().is_none());
    let until = until.last().map_or_else(|| until_trained.clone(), |stage| stage.name().to_owned());
    let shards = args.cluster.shards.to_string();
    let (model, programs) = served(graph);
    let given_model = args.backend.model().map(|model| ("--model", model.to_owned()));
    let given_alone = [("--own-engine", args.own_engine), ("--skip-preflight", args.skip_preflight)];
    let whole = |mut words: Vec<String>| {
        words.extend(given_alone.iter().filter(|(_, given)| *given).map(|(flag, _)| (*flag).to_owned()));
        words
    };
    let out_flag = ("--out", shown(&out));
    // With `--only`, what the evaluations need is not among what is named.
    let kept = graph.stages().iter().filter(|stage| stage.slot().is_some());
    let needed: Vec<&str> = kept.filter(|stage| !evaluates(stage)).map(Stage::name).collect();
    let needed = (!args.only.is_empty() && !needed.is_empty()).then(|| ("--only", needed.join(",")));
    let up_to = |until: String| {
        let first = [out_flag.clone(), ("--until", until)];
        given_model.clone().into_iter().chain(first).chain(needed.clone()).collect::<Vec<_>>()
    };
    let evaluation = [
        ("--out", shown(&folder.join("shard-{element}"))),
        ("--shard", format!("{{element}}/{shards}")),
        ("--until", last(evaluates)?),
    ];
    // Downloads and checks of the data are done.
    let all: Vec<&str> = graph.evaluations().map(|(stage, ..)| stage.name()).collect();
    let all = args.only.is_empty().then(|| ("--only", all.join(",")));
    let evaluation: Vec<_> = model
        .map(|model| ("--model", model))
        .or(given_model.clone())
        .into_iter()
        .chain(evaluation)
        .chain(all)
        .collect();
    let mut evaluate = command(&evaluation);
    // The model and its engine are there. What a training needs was checked by its job; else each node is checked.
    let is_trained = graph.stages().iter().any(trains);
    let checked = (is_trained || args.skip_preflight).then_some("--skip-preflight");
    evaluate.extend(["--own-engine"].into_iter().chain(checked).map(str::to_owned));
    let collect: Vec<_> =
        given_model.clone().into_iter().chain([out_flag.clone(), ("--merge-shards", shards)]).collect();
    let job = |name: &str, words: Vec<String>, after: After| Job {
        name: name.to_owned(),
        words,
        path: None,
        array: None,
        whole_node: true,
        after,
    };
    let mut prepare = command(&up_to(until));
    // Its machine has other GPUs than those that are needed, or none.
    prepare.extend(args.own_engine.then(|| "--own-engine".to_owned()));
    prepare.push("--skip-preflight".to_owned());
    let prepare = Job { whole_node: false, ..job("prepare", prepare, After::Nothing) };
    let train = is_trained.then(|| job("train", whole(command(&up_to(until_trained))), After::Success));
    let jobs = vec![prepare].into_iter().chain(train).chain([
        Job {
            path: programs.as_deref().map(absolute).transpose()?.as_deref().map(shown),
            array: Some(args.cluster.shards.into()),
            ..job("evaluate", evaluate, After::Success)
        },
        // Also after an element that failed: it is named.
        Job { whole_node: false, ..job("collect", whole(command(&collect)), After::End) },
    ]);
    let ClusterArgs { sbatch_option, cpu_option, node_gpus, .. } = &args.cluster;
    let options = Options { sbatch: sbatch_option.clone(), cpu: cpu_option.clone(), gpus: *node_gpus };
    let dir = std::env::current_dir().context("cannot find the working directory")?;
    Ok(Jobs { jobs: jobs.collect(), options, recipe: graph.recipe.clone(), folder, dir })
}

/// Prints the scripts.
pub(super) fn plan(args: &Args, recipe: &Recipe, graph: &Graph) -> anyhow::Result<()> {
    let Jobs { jobs, options, recipe, folder, dir } = jobs(args, recipe, graph)?;
    for job in &jobs {
        let after = match job.after {
            After::Nothing => "",
            After::Success => ", after the job before it has succeeded",
            After::End => ", after the job before it has ended",
        };
        println!("\n# {}{after}", folder.join(job.file()).display());
        print!("{}", job.script(&recipe, &options, &folder, &dir)?);
    }
    Ok(())
}

/// Writes the scripts and submits them.
pub(super) fn submit(args: &Args, recipe: &Recipe, graph: &Graph) -> anyhow::Result<Exit> {
    let Jobs { jobs, options, recipe, folder, dir } = jobs(args, recipe, graph)?;
    let scripts = paravt_cluster::write(&jobs, &recipe, &options, &folder, &dir)?;
    let submitted = paravt_cluster::submit(&jobs, &scripts, &folder);
    let submitted = submitted.map_err(anyhow::Error::from).or_preflight()?;
    for (job, Submitted { name, id }) in jobs.iter().zip(&submitted) {
        let elements = job.array.map(|elements| format!(", {elements} elements")).unwrap_or_default();
        println!("{name:<10} job {id}{elements}; log {}", folder.join(job.log("N")).display());
    }
    println!("The same command submits what is left of them again, once they have ended.");
    Ok(Exit::Ok)
}

/// Merges the shards of all selected evaluations below the folder of the recipe and marks these as done. Shards that
/// are not done are named.
pub(super) fn merge_shards(
    args: &Args,
    recipe: &Recipe,
    graph: &Graph,
    options: &GraphOptions,
    count: u16,
) -> anyhow::Result<Exit> {
    let _lock = slot::lock(&graph.out)?;
    let shards = shard_graphs(args, recipe, graph, options, count)?;
    let mut missing: Vec<Vec<&str>> = vec![Vec::new(); shards.len()];
    for (stage, evaluation, folder) in graph.evaluations() {
        let Some(slot) = stage.slot() else { continue };
        let is_selected = args.only.is_empty() || args.only.iter().any(|name| stage.is_called(name));
        if !is_selected || slot.state(args.keep_stages) == State::Done {
            continue;
        }
        let mut parts = Vec::new();
        for (shard, missing) in shards.iter().zip(&mut missing) {
            let same = shard.stages().iter().find(|other| other.name() == stage.name());
            let part = same.and_then(Stage::slot).context("the shards are of another recipe")?;
            match part.state(args.keep_stages) {
                State::Done => parts.push(part.folder().to_owned()),
                _ => missing.push(stage.name()),
            }
        }
        if parts.len() < shards.len() {
            continue;
        }
        let facts = same_answers(&parts)?;
        if folder.is_dir() {
            // Of fewer samples, changed, or half merged: the shards hold all of it.
            slot.discard(&graph.out.join(slot::DISCARDED))?;
        }
        let cannot_write = || format!("cannot write {}", folder.display());
        slot.begin().with_context(cannot_write)?;
        provenance::write(folder, &facts).with_context(cannot_write)?;
        for split in &evaluation.splits {
            let dirs: Vec<PathBuf> = parts.iter().map(|part| part.join(split)).collect();
            merged(&dirs, &folder.join(split))?;
        }
        slot.ended(Outcome::Complete.as_str().to_owned()).with_context(cannot_write)?;
        slot.finish(&graph.deviations(stage)).with_context(cannot_write)?;
        eprintln!("{}: {count} shards merged", stage.name());
    }
    Ok(name_missing(&missing, &absolute(&graph.out)?.join(FOLDER)))
}

/// The graphs of the shards, as their jobs make them.
fn shard_graphs(
    args: &Args,
    recipe: &Recipe,
    graph: &Graph,
    options: &GraphOptions,
    count: u16,
) -> anyhow::Result<Vec<Graph>> {
    let (model, _) = served(graph);
    let graphs = (1..=count).map(|number| {
        let shard: Shard = format!("{number}/{count}").parse().map_err(|error| anyhow::anyhow!("{error}"))?;
        let options = GraphOptions {
            out: graph.out.join(FOLDER).join(format!("shard-{number}")),
            selection: host::selection(args, Some(shard)),
            limit: None,
            model: model.clone().or(options.model.clone()),
            own_engine: true,
            ..options.clone()
        };
        Ok(recipe.graph(&options)?)
    });
    graphs.collect()
}

/// What answered the shards, which has to be the same.
fn same_answers(parts: &[PathBuf]) -> anyhow::Result<Provenance> {
    let first = parts.first().map(|part| provenance::read(part)).unwrap_or_default();
    for part in parts {
        let differences = provenance::differences(&first, &provenance::read(part));
        ensure!(
            differences.is_empty(),
            "{} and {} were answered by different models or engines: {}",
            parts[0].display(),
            part.display(),
            differences.join("; ")
        );
    }
    Ok(first)
}

/// Merges the shards of a run.
fn merged(dirs: &[PathBuf], out: &Path) -> anyhow::Result<()> {
    let merged = merge(dirs, out)?;
    ensure!(merged.summary.complete, "{}: records are missing although every shard is done", out.display());
    Ok(())
}

fn name_missing(missing: &[Vec<&str>], folder: &Path) -> Exit {
    let failed: Vec<usize> = (0..missing.len()).filter(|&index| !missing[index].is_empty()).collect();
    if failed.is_empty() {
        return Exit::Ok;
    }
    for &index in &failed {
        let (number, log) = (index + 1, folder.join(format!("evaluate-{}.log", index + 1)));
        eprintln!(
            "shard {number}/{} is not done: {}; see {}",
            missing.len(),
            missing[index].join(", "),
            log.display()
        );
    }
    let numbers: Vec<String> = failed.iter().map(|index| (index + 1).to_string()).collect();
    eprintln!(
        "run them again, then this: sbatch --array={} {}",
        numbers.join(","),
        folder.join("evaluate.sbatch").display()
    );
    Exit::Incomplete
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_get_the_flags_that_are_not_the_launchers() {
        let words = "-v reproduce --out slurm paravt-8b --launcher slurm --shards=4 --sbatch-option --partition=gpu --limit 2 --plan --only paravt-8b,reproduce --model m --own-engine --data reproduce";
        let kept = forwarded(words.split(' ').map(str::to_owned), "paravt-8b");
        assert_eq!(kept.join(" "), "-v --limit 2 --only paravt-8b,reproduce --data reproduce");
    }
}
