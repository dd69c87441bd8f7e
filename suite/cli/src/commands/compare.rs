//! `paravt-bench compare`: two runs on the same samples.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use paravt_files::write_atomic;
use paravt_reports::compare::{self, compare_counted, json, markdown, tables, terminal};
use paravt_reports::page::{self, Thumbnails};
use paravt_reports::tables::records;
use paravt_reports::{Cell, Report, Run, RunDigest, count_runs, export, find_runs, name_runs};

use crate::exit::Exit;
use crate::output::Printed;

/// Flags of `compare`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run directory A, or a folder of runs.
    a: PathBuf,
    /// Run directory B, or a folder of runs; differences are B minus A. Where the manifests give an order (with the tool
    /// and without, more frames and fewer), they decide which is B.
    b: PathBuf,
    /// Write a page of both runs (index.html), compare.md and the tables to DIR [default: none, print only].
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also say where the inputs part: text, frames, their size and bytes, prompt tokens.
    #[arg(long)]
    inputs: bool,
    #[command(flatten)]
    printed: Printed,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    write(args)?;
    Ok(Exit::Ok)
}

/// Refuses a folder with two runs of a split: which of them is meant?
fn one_of_each(folder: &Path, runs: &[RunDigest]) -> anyhow::Result<()> {
    for (number, run) in runs.iter().enumerate() {
        let task = &run.manifest.task.name;
        if let Some(other) = runs[..number].iter().find(|other| other.manifest.task.name == *task) {
            anyhow::bail!(
                "{}: two runs of {task}, {} and {}; name one of their folders",
                folder.display(),
                other.path.display(),
                run.path.display()
            );
        }
    }
    Ok(())
}

/// The runs with their records, in the order in which they are compared.
fn with_records(args: &Args) -> anyhow::Result<Vec<Run>> {
    let mut runs = find_runs(std::slice::from_ref(&args.a))?;
    runs.extend(find_runs(std::slice::from_ref(&args.b))?);
    name_runs(runs.iter_mut().map(|run| (run.path.clone(), &mut run.manifest)));
    Ok(runs)
}

/// Prints the comparison of two runs or folders of runs, and writes it into a folder.
fn write(args: &Args) -> anyhow::Result<()> {
    let Args { a, b, out, inputs, printed } = args;
    let mut counted = count_runs(&[a.to_owned()])?;
    one_of_each(a, &counted)?;
    let first = counted.len();
    counted.extend(count_runs(&[b.to_owned()])?);
    one_of_each(b, &counted[first..])?;
    name_runs(counted.iter_mut().map(|run| (run.path.clone(), &mut run.manifest)));
    let mut ablation = compare_counted(&counted[..first], &counted[first..])?;
    drop(counted);
    // Only what shows single samples needs their records.
    let runs = if *inputs || out.is_some() { with_records(args)? } else { Vec::new() };
    if *inputs {
        let (first, second) = runs.split_at(first);
        ablation.inputs = match ablation.is_swapped {
            true => compare::inputs(second, first),
            false => compare::inputs(first, second),
        };
    }
    printed.print(|detail| terminal(&ablation, detail), || json(&ablation));
    let Some(dir) = out else { return Ok(()) };
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let report = Report::build(&runs, None)?;
    let beside = page::tables(&report, &runs).into_iter().filter(|table| table.name != "comparison");
    let all = [tables(&ablation), report.tables()?, beside.collect()].concat();
    export::write_all(&all, &dir.join("tables"))?;
    export::write_long(&records(&runs), &dir.join("tables"))?;
    // A flip opens with both transcripts.
    let link = |task: &str, uid: &str| {
        let second_is_b = !ablation.is_swapped;
        let of = |is_b: bool| {
            move |cell: &Cell| (cell.position >= first) == (is_b == second_is_b) && cell.task == task
        };
        let [a, b] = [false, true].map(|is_b| report.cells.iter().position(of(is_b)));
        Some(format!("index.html{}", page::address(&report, b?, a, uid)))
    };
    for (name, text) in [
        ("compare.md", markdown(&ablation, link)),
        ("index.html", page::page(&report, &runs as &[Run], &Thumbnails::default())?),
    ] {
        let path = dir.join(name);
        write_atomic(&path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
