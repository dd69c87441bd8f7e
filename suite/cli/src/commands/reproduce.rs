//! `paravt-bench reproduce`.

use crate::exit::Exit;

/// Flags of `reproduce`.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: &Args) -> anyhow::Result<Exit> {
    Ok(Exit::Ok)
}
