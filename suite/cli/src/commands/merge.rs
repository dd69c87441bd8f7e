//! `paravt-bench merge`: shards of one run become one run.

use std::path::PathBuf;

use paravt_suite::evaluate::merge;

use crate::exit::Exit;

/// Flags of `merge`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run directories of all shards: DIR/TASK of each `run --shard I/N --out DIR`.
    #[arg(required = true, num_args = 1..)]
    shards: Vec<PathBuf>,
    /// Run directory to write; must be empty or absent.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let merged = merge(&args.shards, &args.out)?;
    for shard in merged.missing {
        let shard = format!("{}/{}", shard + 1, merged.shards);
        eprintln!(
            "shard {shard} is missing: run it with --shard {shard}, then merge all into another folder"
        );
    }
    println!(
        "{}: {} records of {} expected{}",
        args.out.display(),
        merged.records,
        merged.expected,
        if merged.summary.complete { "" } else { ": INCOMPLETE" }
    );
    Ok(if merged.summary.complete { Exit::Ok } else { Exit::Incomplete })
}
