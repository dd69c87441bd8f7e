//! `paravt-bench tasks` and `paravt-bench data`.

pub mod fetch;
pub mod materialize;
mod progress;
mod report;

use std::path::PathBuf;
use std::time::Instant;

use clap::Subcommand;
use paravt_media::Depth;
use paravt_nano::{WorldOptions, make_world};
use paravt_suite::task::{DataCheck, Task as _, TaskSpec};

use crate::exit::Exit;
use crate::registry::{DataArgs, TaskFiles};

/// Flags of `data`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show what is there, what is missing or damaged, and what would provide it.
    Check(Check),
    /// Download rows, videos, training data and models; unpack and verify them.
    Fetch(fetch::Args),
    /// Generate a small data root with all seven splits.
    Make(Make),
    /// Write training rows with absolute paths and report on their media.
    #[command(hide = true)]
    Materialize(materialize::Args),
}

#[derive(clap::Args)]
struct Check {
    /// Splits (`tasks` lists them) [default: all; none with --task].
    tasks: Vec<String>,
    #[command(flatten)]
    files: TaskFiles,
    /// Decode frames of every video, not only its header.
    #[arg(long)]
    deep: bool,
    /// List every missing or damaged file, the places looked at, and the SHA-256 of the annotations.
    #[arg(long, short, action = clap::ArgAction::Count, conflicts_with = "json")]
    verbose: u8,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    data: DataArgs,
}

#[derive(clap::Args)]
struct Make {
    /// Folder for the data root; use it with --data.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Videos per benchmark.
    #[arg(long, value_name = "N", default_value_t = WorldOptions::default().videos)]
    videos: usize,
    /// Questions per video.
    #[arg(long, value_name = "N", default_value_t = WorldOptions::default().questions)]
    questions: usize,
    /// Seed that all videos and questions follow from.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// Flags of `tasks`.
#[derive(clap::Args)]
pub struct TasksArgs {
    #[command(flatten)]
    files: TaskFiles,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.action {
        Action::Check(args) => check(args),
        Action::Fetch(args) => fetch::run(args),
        Action::Materialize(args) => materialize::run(args),
        Action::Make(args) => {
            let started = Instant::now();
            let options = WorldOptions { videos: args.videos, questions: args.questions, seed: args.seed };
            make_world(&args.out, &options)?;
            println!(
                "made {} in {:.1} s; use it with --data",
                args.out.display(),
                started.elapsed().as_secs_f64()
            );
            Ok(Exit::Ok)
        }
    }
}

fn check(args: &Check) -> anyhow::Result<Exit> {
    let all = args.tasks.is_empty() && args.files.is_empty();
    let names = if all { vec!["all".to_owned()] } else { args.tasks.clone() };
    let root = args.data.root()?;
    let depth = if args.deep { Depth::Frames } else { Depth::Header };
    let tasks = args.files.and(&names)?;
    let checks: Vec<DataCheck> = tasks.iter().map(|task| task.check(&root, depth)).collect();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&checks)?);
    } else {
        report::lines(&checks, &root, args.verbose > 0).iter().for_each(|line| println!("{line}"));
        // On standard error: advice, no part of the report.
        let published = |check: &&DataCheck| paravt_tasks::named(&check.task).is_some();
        let published: Vec<DataCheck> = checks.iter().filter(published).cloned().collect();
        if let Some(command) = report::fetch_command(&published, &root) {
            eprintln!("`{command}` fetches what is missing");
        }
    }
    Ok(if checks.iter().all(DataCheck::is_complete) { Exit::Ok } else { Exit::Finding })
}

/// Lists the benchmarks.
pub fn tasks(args: &TasksArgs) -> anyhow::Result<Exit> {
    let own = args.files.and(&[])?;
    println!(
        "{:<15} {:<27} {:>5} {:>6}  {:<13} {:<32} license",
        "name", "benchmark", "rows", "videos", "metric", "repository"
    );
    for task in paravt_tasks::all().iter().copied().chain(own) {
        let spec: &TaskSpec = task.spec();
        let metric = spec.metric.label();
        println!(
            "{:<15} {:<27} {:>5} {:>6}  {metric:<13} {:<32} {}{}",
            spec.name,
            spec.title,
            spec.expected_rows,
            spec.expected_videos,
            spec.hub.repos.first().map_or("–", String::as_str),
            spec.hub.license,
            if spec.hub.gated { "; gated: accept the terms on the hub first" } else { "" }
        );
    }
    Ok(Exit::Ok)
}
