//! What `-h` shows of the commands with many flags: those that most calls need. `--help` shows all.

use clap::{Arg, Command};

/// Commands with many flags, and the ids of those that `-h` shows.
const COMMON: [(&str, &[&str]); 4] = [
    (
        "run",
        &[
            "tasks", "out", "data", "base_url", "model", "device", "mode", "protocol", "nframes", "limit",
            "concurrency", "resume", "dry_run",
        ],
    ),
    (
        "reproduce",
        &[
            "recipe", "out", "plan", "yes", "until", "only", "redo", "data", "base_url", "model", "limit",
            "launcher", "seed",
        ],
    ),
    ("ask", &["video", "question", "base_url", "model", "device", "mode", "protocol", "nframes"]),
    ("generate", &["messages", "base_url", "model", "device"]),
];

/// The command line whose `-h` fits one screen.
pub(crate) fn shortened(command: Command) -> Command {
    let command = command.mut_arg("color", |color| color.hide_short_help(true));
    COMMON.iter().fold(command, |command, (name, common)| {
        command.mut_subcommand(name, |command| {
            let shown = |argument: &Arg| common.contains(&argument.get_id().as_str());
            command.mut_args(|argument| {
                let rare = !shown(&argument);
                argument.hide_short_help(rare)
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::{COMMON, shortened};
    use crate::Cli;

    #[test]
    fn every_common_flag_exists_and_each_screen_holds_them() {
        let mut command = shortened(Cli::command());
        command.build();
        for (name, common) in COMMON {
            let below = command.find_subcommand_mut(name).unwrap();
            for id in common {
                assert!(below.get_arguments().any(|argument| argument.get_id() == *id), "{name}: {id}");
            }
            let lines = below.clone().term_width(80).render_help().to_string().lines().count();
            assert!(lines <= 60, "{name} -h: {lines} lines");
        }
    }
}
