//! `paravt-bench report`: finished runs beside the published numbers, for people and machines.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use paravt_reports::page::Thumbnails;
use paravt_reports::study::Study;
use paravt_reports::{Format, Json, Markdown, Report, Terminal, export, find_runs, page};

use crate::exit::Exit;

/// Flags of `report`.
#[derive(clap::Args)]
pub struct Args {
    /// Run directories, or folders of them.
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// Row of the published table to hold the runs against, e.g. `ParaVT-8B` [default: the row that
    /// the recipe of the run names].
    #[arg(long, value_name = "MODEL")]
    paper_row: Option<String>,
    /// Folder for the page (index.html), report.json, report.md and every table as CSV, JSON, Markdown,
    /// LaTeX and Parquet [default: none, the report is only printed].
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// With -o: decode small frames of every sample's overview and crops and show them in the page.
    #[arg(long, requires = "out")]
    frames: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let Some(dir) = &args.out else {
        // Without the page no transcript is needed, and no run is kept.
        let report = Report::read(&args.runs, args.paper_row.as_deref())?;
        print!("{}", Terminal.render(&report));
        return Ok(exit(&report));
    };
    write(&args.runs, args.paper_row.as_deref(), dir, args.frames, None)
}

/// Writes page and tables of runs into a folder, and prints the report.
pub fn write(
    runs: &[PathBuf],
    paper_row: Option<&str>,
    dir: &Path,
    frames: bool,
    study: Option<Study>,
) -> anyhow::Result<Exit> {
    let runs = find_runs(runs)?;
    let report = Report { study, ..Report::build(&runs, paper_row)? };
    print!("{}", Terminal.render(&report));
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    export::write_all(&report.tables()?, &dir.join("tables"))?;
    let mut thumbnails = Thumbnails::default();
    if frames {
        thumbnails = Thumbnails::write(&runs, dir)
            .with_context(|| format!("cannot write frames into {}", dir.display()))?;
        if thumbnails.unreadable > 0 {
            eprintln!("{} videos cannot be read: no frames of them in the page", thumbnails.unreadable);
        }
    }
    for (name, text) in [
        ("index.html", page::page(&report, &runs, &thumbnails)?),
        ("report.json", Json.render(&report)),
        ("report.md", Markdown.render(&report)),
    ] {
        let path = dir.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(exit(&report))
}

fn exit(report: &Report) -> Exit {
    if report.complete() { Exit::Ok } else { Exit::Incomplete }
}
