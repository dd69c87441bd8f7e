//! `paravt-bench data`.

use crate::exit::Exit;

/// Flags of `data`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: &Args) -> anyhow::Result<Exit> {
    Ok(Exit::Ok)
}

/// Flags of `tasks`.
#[derive(clap::Args)]
pub struct TasksArgs {}

/// Lists the benchmarks.
pub fn tasks(_args: &TasksArgs) -> anyhow::Result<Exit> {
    Ok(Exit::Ok)
}
