//! A recipe as Slurm jobs, by the flags of the command.

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use clap::{CommandFactory as _, ValueEnum};
use paravt_files::quote_path;
use paravt_reproduce::cluster::{After, Call, Job, Options, Submitted};
use paravt_reproduce::graph::Graph;
use paravt_reproduce::{GraphOptions, Recipe, slot};

use super::{Args, host};
use crate::command_line;
use crate::exit::{Exit, OrPreflight as _};

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

/// Flags that the jobs get otherwise or not at all.
const OWN: [&str; 11] = [
    "launcher", "shards", "node_gpus", "sbatch_option", "cpu_option", "merge_shards", "out", "model",
    "own_engine", "skip_preflight", "plan",
];

fn jobs(args: &Args, recipe: &Recipe, graph: &Graph) -> anyhow::Result<(Vec<Job>, Options)> {
    ensure!(
        !recipe.is_in_process(),
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
    let call = Call {
        program: std::env::current_exe().context("cannot find the program of this process")?,
        recipe: &args.recipe,
        flags: command_line::argv_without(&crate::Cli::command(), std::env::args_os(), &OWN),
        model: args.backend.model(),
        only: &args.only,
        own_engine: args.own_engine,
        skip_preflight: args.skip_preflight,
        shards: args.cluster.shards,
    };
    let options = Options {
        recipe: graph.recipe.clone(),
        folder: paravt_reproduce::cluster::folder(graph)?,
        dir: std::env::current_dir().context("cannot find the working directory")?,
        sbatch: args.cluster.sbatch_option.clone(),
        cpu: args.cluster.cpu_option.clone(),
        gpus: args.cluster.node_gpus,
    };
    Ok((call.jobs(graph)?, options))
}

/// Prints the scripts.
pub(super) fn plan(args: &Args, recipe: &Recipe, graph: &Graph) -> anyhow::Result<()> {
    let (jobs, options) = jobs(args, recipe, graph)?;
    for job in &jobs {
        let after = match job.after {
            After::Nothing => "",
            After::Success => ", after the job before it has succeeded",
            After::End => ", after the job before it has ended",
        };
        println!("\n# {}{after}", quote_path(&options.folder.join(job.file())));
        print!("{}", job.script(&options)?);
    }
    Ok(())
}

/// Writes the scripts and submits them.
pub(super) fn submit(args: &Args, recipe: &Recipe, graph: &Graph) -> anyhow::Result<Exit> {
    let (jobs, options) = jobs(args, recipe, graph)?;
    let scripts = paravt_reproduce::cluster::write(&jobs, &options)?;
    let submitted = paravt_reproduce::cluster::submit(&jobs, &scripts, &options.folder);
    let submitted = submitted.map_err(anyhow::Error::from).or_preflight()?;
    for (job, Submitted { name, id }) in jobs.iter().zip(&submitted) {
        let elements = job.array.map(|elements| format!(", {elements} elements")).unwrap_or_default();
        println!("{name:<10} job {id}{elements}; log {}", options.folder.join(job.log("N")).display());
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
    let selection = |shard| host::selection(args, Some(shard));
    let shards = paravt_reproduce::cluster::shards(recipe, graph, options, count, &selection)?;
    let missing =
        paravt_reproduce::cluster::merge(graph, &shards, &args.only, args.keep_stages, &mut |stage| {
            eprintln!("{}: {count} shards merged", stage.name());
        })?;
    Ok(name_missing(&missing, &paravt_reproduce::cluster::folder(graph)?))
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
        quote_path(&folder.join("evaluate.sbatch"))
    );
    Exit::Incomplete
}
