//! `paravt-bench merge`: shards of one run become one run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use paravt_suite::evaluate::merge;
use paravt_suite::journal;

use crate::exit::Exit;

/// Flags of `merge`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Shards: the folders DIR of every `run --shard I/N --out DIR`, or of one split the run directories DIR/TASK.
    #[arg(required = true, num_args = 1..)]
    shards: Vec<PathBuf>,
    /// Folder to write, empty or absent: a run directory of one split; from folders DIR, one run directory for each
    /// split, OUT/TASK.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let is_run = |path: &PathBuf| path.join(journal::MANIFEST).is_file();
    if args.shards.iter().all(is_run) {
        return one(&args.shards, &args.out);
    }
    if let Some(run) = args.shards.iter().find(|path| is_run(path)) {
        bail!(
            "{}: one run among folders of runs; name the run directories of one split, or folders only",
            run.display()
        );
    }
    let splits = splits(&args.shards)?;
    let is_empty = std::fs::read_dir(&args.out).map_or(true, |mut entries| entries.next().is_none());
    ensure!(is_empty, "{}: not empty; choose another --out", args.out.display());
    let mut worst = Exit::Ok;
    for (split, shards) in &splits {
        worst = worst.worse(one(shards, &args.out.join(split))?);
    }
    Ok(worst)
}

/// The run directories of each split in the folders that `run --shard` wrote.
fn splits(folders: &[PathBuf]) -> anyhow::Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut splits: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for folder in folders {
        let entries = std::fs::read_dir(folder);
        let entries =
            entries.map_err(|error| anyhow::anyhow!("{}: cannot read: {error}", folder.display()))?;
        let mut runs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        runs.retain(|path| path.join(journal::MANIFEST).is_file());
        ensure!(
            !runs.is_empty(),
            "{}: no run directory, and none directly below it (it has a manifest.json)",
            folder.display()
        );
        for run in runs {
            let split = journal::read_manifest(&run)?.task.name;
            splits.entry(split).or_default().push(run);
        }
    }
    Ok(splits)
}

/// Merges the shards of one split.
fn one(shards: &[PathBuf], out: &Path) -> anyhow::Result<Exit> {
    let merged = merge(shards, out)?;
    for shard in merged.missing {
        eprintln!("{}: shard {}/{} is missing", out.display(), shard + 1, merged.shards);
    }
    println!(
        "{}: {} records of {} expected{}",
        out.display(),
        merged.records,
        merged.expected,
        if merged.summary.complete { "" } else { ": INCOMPLETE" }
    );
    Ok(if merged.summary.complete { Exit::Ok } else { Exit::Incomplete })
}
