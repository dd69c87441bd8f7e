//! `paravt-bench tasks` and `paravt-bench data`.

pub(crate) mod fetch;
pub(crate) mod materialize;
mod progress;
mod report;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use clap::Subcommand;
use clap::builder::RangedU64ValueParser;
use paravt_media::Depth;
use paravt_nano::{WorldOptions, make_world};
use paravt_reports::terminal::{Detail, Text};
use paravt_suite::task::{DataCheck, Inspect, Task as _, TaskSpec};

use crate::commands::data::progress::CountedDecoding;
use crate::exit::{Exit, OrPreflight as _};
use crate::output::{self, Printed};
use crate::registry::{DataArgs, TaskFiles};

/// Flags of `data`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List what is missing or damaged, and what to download for it.
    Check(Check),
    /// Download, verify and unpack rows, videos, training data and models.
    Fetch(fetch::Args),
    /// Generate a small data root with synthetic videos for all seven splits.
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
    /// Decode the first, two middle and the last frame of every video, as the readers of all profiles do, instead of only
    /// reading its header; results are kept in the cache folder until a file changes.
    #[arg(long, alias = "deep")]
    decode: bool,
    /// With --decode: seconds that one video may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    decode_timeout: u64,
    /// List every missing or damaged file, the folders searched, and the SHA-256 of the annotations.
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
    /// Folder to write; pass it to other commands with --data.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Videos per benchmark.
    #[arg(long, value_name = "N", default_value_t = WorldOptions::default().videos, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    videos: usize,
    /// Questions per video.
    #[arg(long, value_name = "N", default_value_t = WorldOptions::default().questions, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    questions: usize,
    /// Seed of all videos and questions.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// Flags of `tasks`.
#[derive(clap::Args)]
pub(crate) struct TasksArgs {
    #[command(flatten)]
    files: TaskFiles,
    #[command(flatten)]
    printed: Printed,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.action {
        Action::Check(args) => check(args),
        Action::Fetch(args) => fetch::run(args),
        Action::Materialize(args) => materialize::run(args),
        Action::Make(args) => {
            let started = Instant::now();
            let options = WorldOptions {
                videos: args.videos,
                questions: args.questions,
                seed: args.seed,
                first: false,
            };
            let out = args.out.display();
            std::fs::create_dir_all(&args.out).with_context(|| format!("cannot make {out}"))?;
            // In a folder that is there, the disk and FFmpeg alone decide whether it succeeds.
            make_world(&args.out, &options).map_err(anyhow::Error::from).or_preflight()?;
            println!(
                "{}: generated in {:.1} s; pass it to other commands with --data",
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
    let tasks = args.files.and(&names)?;
    let root = args.data.root_of(&tasks)?;
    let decoding = args.decode.then(|| CountedDecoding::new(args.decode_timeout));
    let how: &dyn Inspect = match &decoding {
        Some(decoding) => decoding,
        None => &Depth::Header,
    };
    let checks: Vec<DataCheck> = tasks.iter().map(|task| task.check(&root, how)).collect();
    if let Some(decoding) = decoding {
        decoding.end();
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&checks)?);
    } else {
        output::show(&report::page(&checks, &root, args.verbose > 0));
        // On standard error: advice, no part of the report.
        let published = |check: &&DataCheck| paravt_tasks::named(&check.task).is_some();
        let published: Vec<DataCheck> = checks.iter().filter(published).cloned().collect();
        if let Some(command) = report::fetch_command(&published, &root) {
            eprintln!("hint: `{command}` downloads what is missing");
        }
    }
    Ok(if checks.iter().all(DataCheck::is_complete) { Exit::Ok } else { Exit::Finding })
}

/// Lists the benchmarks.
pub(crate) fn tasks(args: &TasksArgs) -> anyhow::Result<Exit> {
    let own = args.files.and(&[])?;
    let specs: Vec<&TaskSpec> =
        paravt_tasks::all().iter().copied().chain(own).map(|task| task.spec()).collect();
    let json =
        || serde_json::to_string_pretty(&specs).expect("plain structs with string keys serialise") + "\n";
    args.printed.print(|detail| listed(&specs, detail), json);
    Ok(Exit::Ok)
}

/// One line per split; in full with where its data come from.
fn listed(specs: &[&TaskSpec], detail: Detail) -> Text {
    let mut text = Text::default();
    let width = specs.iter().map(|spec| spec.name.len()).max().unwrap_or_default();
    text.line(format!("{:<width$} {:<27} {:>5} {:>6} metric", "task", "benchmark", "rows", "videos"));
    for spec in specs {
        let known = |count: usize| if count == 0 { "?".to_owned() } else { count.to_string() };
        let (rows, videos) = (known(spec.expected_rows), known(spec.expected_videos));
        let metric = spec.metric.label();
        text.line(format!("{:<width$} {:<27} {rows:>5} {videos:>6} {metric}", spec.name, spec.title));
        if detail == Detail::Full {
            let repository = spec.hub.repos.first().map_or("none", String::as_str);
            let gated = if spec.hub.gated { "; gated: accept the terms on the hub first" } else { "" };
            text.line(format!("    {repository}: {}{gated}", spec.hub.license));
        }
    }
    if detail == Detail::Brief {
        text.line("-v lists repositories and licences");
    }
    text
}
