//! `paravt-bench audit`: sample files of other harnesses.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::builder::RangedU64ValueParser;
use paravt_interop::audit::{self, Audit, audit};
use paravt_interop::import::{self, Columns, Imported, Log, Split};
use paravt_reports::compare::{self, compare};
use paravt_reports::{Run, export, name_runs};
use paravt_suite::journal::MANIFEST;
use paravt_suite::profile::Profile;
use paravt_suite::sample::Sample;
use paravt_suite::task::{Task as _, TaskSpec};

use crate::exit::Exit;
use crate::output::Printed;
use crate::registry::{DataArgs, TaskFiles};

/// Flags of `audit`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Sample files of lmms-eval, lm-eval, VLMEvalKit (xlsx, tsv, json) or Inspect (json, eval), or plain tables (CSV,
    /// TSV, JSON, JSONL, Parquet) with --columns. Files joined by commas are parts of one log; two logs are also
    /// compared sample by sample.
    #[arg(required = true, value_name = "FILE[,FILE]")]
    logs: Vec<PathBuf>,
    /// Mapping of the columns of plain tables, a TOML file: one for all logs, or one per log in their order [default:
    /// none].
    #[arg(long, value_name = "FILE")]
    columns: Vec<PathBuf>,
    /// Split of the rows, e.g. videomme: gold answers, options and videos are taken from its data, and what is missing
    /// is counted [default: none, the files alone].
    #[arg(long, value_name = "NAME")]
    split: Option<String>,
    /// Rows that there should be [default: those of --split, or as many as the file says].
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    expected: Option<usize>,
    /// Write the table of the audit, and each log as a run directory scored by the corrected rules, to DIR [default:
    /// none, print only].
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    files: TaskFiles,
    #[command(flatten)]
    printed: Printed,
    #[command(flatten)]
    data: DataArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if args.split.is_none() {
        args.data.check_unused(&args.files, "--split")?;
    }
    let split = args.split.as_deref().map(|name| load(args, name)).transpose()?;
    let logs = read(args)?;
    let mut imported = Vec::with_capacity(logs.len());
    for log in &logs {
        let joined = match &split {
            Some((spec, samples)) => import::join(log, &spec.name, samples)?,
            None => Vec::new(),
        };
        let split = split.as_ref().map(|(spec, samples)| Split { spec, samples, joined: &joined });
        imported.push(import::run(log, split, args.expected));
    }
    let audits = logs.iter().zip(&imported).map(|(log, imported)| audit(log, imported, args.expected));
    let audits = audits.collect::<Result<Vec<Audit>, _>>()?;
    for audit in &audits {
        let samples = audit.rows - audit.duplicates - audit.unknown;
        if let Some(expected) = args.expected.filter(|expected| *expected < samples) {
            bail!(
                "--expected {expected}: {} has rows of {samples} samples; correct the number, or leave it out",
                audit.log
            );
        }
    }
    let comparison = pair(&mut imported)?;
    if let Some(dir) = &args.out {
        write(dir, &audits, &imported)?;
    }
    args.printed.print(
        |detail| {
            let mut text = audit::terminal(&audits, detail);
            if let Some(comparison) = &comparison {
                text.line("");
                text.append(compare::terminal(comparison, detail));
            }
            text
        },
        || {
            let json = serde_json::json!({ "audits": audits, "comparison": comparison });
            format!("{json:#}\n")
        },
    );
    Ok(if audits.iter().any(Audit::has_finding) { Exit::Finding } else { Exit::Ok })
}

/// A split of the build or of a task file, with all its samples.
fn load(args: &Args, name: &str) -> anyhow::Result<(TaskSpec, Vec<Sample>)> {
    let tasks = args.files.and(&[])?;
    let task = match tasks.iter().find(|task| task.spec().name == name) {
        Some(task) => *task,
        None => paravt_tasks::select(&[name])?[0],
    };
    let dataset = task.load(&args.data.root_of(&[task])?, Profile::Strict)?;
    Ok((task.spec().clone(), dataset.samples))
}

fn read(args: &Args) -> anyhow::Result<Vec<Log>> {
    let columns = args.columns.iter().map(|path| Columns::read(path)).collect::<Result<Vec<_>, _>>()?;
    ensure!(
        columns.len() < 2 || columns.len() == args.logs.len(),
        "--columns: {} mappings for {} logs; give one for all, or one per log",
        columns.len(),
        args.logs.len()
    );
    let log = |(number, files): (usize, &PathBuf)| -> anyhow::Result<Log> {
        let columns = columns.get(number).or(columns.first());
        Ok(import::read(&parts(files)?, columns)?)
    };
    args.logs.iter().enumerate().map(log).collect()
}

/// The files of a log: the one of that name, else those that commas join.
fn parts(log: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if log.exists() {
        return Ok(vec![log.to_owned()]);
    }
    let parts: Vec<&[u8]> = log.as_os_str().as_bytes().split(|byte| *byte == b',').collect();
    ensure!(
        parts.iter().all(|part| !part.is_empty()),
        "`{}`: a file without a name beside a comma; name the files of the log",
        log.display()
    );
    Ok(parts.into_iter().map(|part| PathBuf::from(OsStr::from_bytes(part))).collect())
}

/// Two logs of one data set, sample by sample.
fn pair(imported: &mut [Imported]) -> anyhow::Result<Option<compare::RunComparison>> {
    name_runs(imported.iter_mut().map(|one| (one.run.path.clone(), &mut one.run.manifest)));
    let [a, b] = imported else { return Ok(None) };
    let (one, other) = (&a.run, &b.run);
    if one.records.is_empty() || other.records.is_empty() {
        return Ok(None);
    }
    let tasks = [one, other].map(|run| run.manifest.task.name.as_str());
    if tasks[0] != tasks[1] {
        eprintln!(
            "not compared: one log is of {}, the other of {}; name the split with --split",
            tasks[0], tasks[1]
        );
        return Ok(None);
    }
    Ok(Some(compare(std::slice::from_ref(one), std::slice::from_ref(other))?))
}

/// Writes the audits' table and the runs.
fn write(dir: &Path, audits: &[Audit], imported: &[Imported]) -> anyhow::Result<()> {
    let folder =
        |number: usize, run: &Run| dir.join("runs").join(number.to_string()).join(&run.manifest.task.name);
    let runs = (1..).zip(imported).map(|(number, one)| (folder(number, &one.run), &one.run));
    let runs: Vec<(PathBuf, &Run)> = runs.filter(|(_, run)| !run.records.is_empty()).collect();
    if let Some((folder, _)) = runs.iter().find(|(folder, _)| folder.join(MANIFEST).exists()) {
        bail!("{}: already holds a run; choose another --out", folder.display());
    }
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    export::write_all(&[audit::table(audits)], &dir.join("tables"))?;
    for (folder, run) in runs {
        import::write(&folder, run)?;
        eprintln!("{}: {} records, imported", folder.display(), run.records.len());
    }
    Ok(())
}
