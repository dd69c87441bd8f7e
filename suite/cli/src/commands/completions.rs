//! `paravt-bench completions`: the script with which a shell completes commands and flags.

use clap_complete::Shell;

use crate::exit::Exit;

/// Folders that the shells read; lines of at most 80 columns.
const FOLDERS: &str = "\
Examples:
  paravt-bench completions bash \\
    > ~/.local/share/bash-completion/completions/paravt-bench
  paravt-bench completions fish > ~/.config/fish/completions/paravt-bench.fish
  paravt-bench completions zsh > DIR/_paravt-bench    # a folder DIR of $fpath";

/// Flags of `completions`.
#[derive(clap::Args)]
#[command(after_help = FOLDERS)]
pub(crate) struct Args {
    /// Shell to write for.
    shell: Shell,
}

/// Runs the command: the script goes to standard output.
pub(crate) fn run(args: &Args, mut command: clap::Command) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "paravt-bench", &mut script);
    // clap_complete 4.6.11 takes the dash of the program's name for a command in one half of the bash script.
    print!("{}", String::from_utf8(script)?.replace("paravt__subcmd__bench", "paravt__bench"));
    Ok(Exit::Ok)
}
