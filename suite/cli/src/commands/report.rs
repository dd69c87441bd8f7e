//! `paravt-bench report`: finished runs beside the published numbers.

mod serve;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use paravt_files::write_atomic;
use paravt_reports::page::Thumbnails;
use paravt_reports::tables::records;
use paravt_reports::terminal::counted;
use paravt_reports::{Damaged, Prices, Report, Run, export, json, markdown, page, readable_runs, terminal};
use paravt_suite::data::DataRoot;
use paravt_suite::task::Benchmark;

use crate::exit::Exit;
use crate::launch;
use crate::output::Printed;
use crate::registry::{DataArgs, TaskFiles};
use crate::thumbnails;

/// Flags of `report`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run directories, or folders of them.
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// Row of the published table to compare with, e.g. `ParaVT-8B` [default: the row of the run's recipe].
    #[arg(long, value_name = "MODEL")]
    paper_row: Option<String>,
    /// Write the page (index.html), report.json, report.md, every table as CSV, JSON, Markdown, LaTeX and Parquet, and
    /// one row per sample and per tool call as CSV and Parquet to DIR [default: none, print only].
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// With -o: show small frames of every sample's overview and crops in the page. Videos are read from the data root;
    /// paths in a run are never opened.
    #[arg(long, requires = "out")]
    frames: bool,
    /// TOML file with prices of a million tokens by model, and of a GPU hour; adds what each run cost [default: none].
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Show the runs in a browser on this machine while they run: progress, rate, remaining time, errors, latest samples.
    /// Listens on 127.0.0.1 alone and writes nothing [default: off; without a number: port 8600].
    #[arg(
        long,
        value_name = "PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "8600",
        conflicts_with_all = ["out", "frames", "json", "verbose", "prices", "paper_row", "task_files", "data", "hf_home"]
    )]
    serve: Option<u16>,
    #[command(flatten)]
    files: TaskFiles,
    #[command(flatten)]
    printed: Printed,
    #[command(flatten)]
    data: DataArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if let Some(port) = args.serve {
        return serve::serve(&args.runs, port);
    }
    if !args.frames {
        args.data.check_unused(&args.files, "--frames")?;
    }
    let row = args.paper_row.as_deref();
    let prices = args.prices.as_deref().map(Prices::read).transpose()?;
    let report = match &args.out {
        // Without the page no transcript is needed, and no run is kept.
        None => {
            let report = Report::read(&args.runs, row)?;
            warn_of(&report.damaged);
            priced(report, prices.as_ref())
        }
        Some(dir) => {
            let root = args.frames.then(|| args.data.root()).transpose()?;
            let tasks = [paravt_tasks::all(), &args.files.and(&[])?].concat();
            let root = root.as_ref().map(|root| (root, &*tasks));
            write(&args.runs, dir, root, |runs| Ok(priced(Report::build(runs, row)?, prices.as_ref())))?
        }
    };
    args.printed.print(|detail| terminal(&report, detail), || json(&report));
    Ok(exit(&report))
}

/// The report with what its runs cost; a model that the prices lack is named.
fn priced(report: Report, prices: Option<&Prices>) -> Report {
    let Some(prices) = prices else { return report };
    let report = report.priced(prices);
    for model in report.unpriced() {
        launch::warn(&format!("--prices: no price for the tokens of the model `{model}`"));
    }
    report
}

/// Writes page and tables of runs into a folder. `frames` is the data root, with the tasks, whose videos the
/// page shows frames of; `build` makes the report of the runs that can be read.
pub(crate) fn write(
    runs: &[PathBuf],
    dir: &Path,
    frames: Option<(&DataRoot, &[&Benchmark])>,
    build: impl FnOnce(&[Run]) -> anyhow::Result<Report>,
) -> anyhow::Result<Report> {
    let (runs, damaged) = readable_runs(runs)?;
    warn_of(&damaged);
    let report = Report { damaged, ..build(&runs)? };
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let tables = dir.join("tables");
    export::write_all(&[report.tables()?, page::tables(&report, &runs)].concat(), &tables)?;
    export::write_long(&records(&runs), &tables)?;
    let mut thumbnails = Thumbnails::default();
    if let Some((root, tasks)) = frames {
        thumbnails = thumbnails::write(&runs, root, tasks, dir)?;
        if thumbnails.unreadable > 0 {
            let videos = counted(thumbnails.unreadable, "video");
            eprintln!("{videos} cannot be read: no frames of these in the page");
        }
        if thumbnails.unknown > 0 {
            let videos = counted(thumbnails.unknown, "video");
            eprintln!(
                "{videos} not in the data root: no frames of these in the page; name the root with --data"
            );
        }
    }
    for (name, text) in [
        ("index.html", page::page(&report, &runs, &thumbnails)?),
        ("report.json", json(&report)),
        ("report.md", markdown(&report)),
    ] {
        let path = dir.join(name);
        write_atomic(&path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(report)
}

/// Names the runs that a report leaves out.
fn warn_of(damaged: &[Damaged]) {
    damaged.iter().for_each(|run| launch::warn(&format!("left out of the report: {}", run.why)));
}

/// The exit code of a report: runs are complete or not.
pub(crate) fn exit(report: &Report) -> Exit {
    if report.complete() { Exit::Ok } else { Exit::Incomplete }
}
