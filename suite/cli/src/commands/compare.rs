//! `paravt-bench compare`: two runs on the same samples.

use std::path::PathBuf;

use anyhow::Context as _;
use paravt_reports::compare::{compare, markdown, tables, terminal};
use paravt_reports::{export, find_runs};

use crate::exit::Exit;

/// Flags of `compare`.
#[derive(clap::Args)]
pub struct Args {
    /// Run directory A, or a folder of runs.
    a: PathBuf,
    /// Run directory B, or a folder of runs: what changes is said of B.
    b: PathBuf,
    /// Also write compare.md and the tables in every format here.
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let read = |path: &PathBuf| find_runs(std::slice::from_ref(path));
    let ablation = compare(&read(&args.a)?, &read(&args.b)?)?;
    print!("{}", terminal(&ablation));
    if let Some(dir) = &args.out {
        export::write_all(&tables(&ablation)?, &dir.join("tables"))?;
        let path = dir.join("compare.md");
        std::fs::write(&path, markdown(&ablation)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(Exit::Ok)
}
