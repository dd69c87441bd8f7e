#![deny(unsafe_code)]
//! The `paravt-bench` command: parses flags into typed plans and wires tasks, backends and reports.

// First: its macros stand in for the standard ones in all modules below.
#[macro_use]
mod output;

mod allocator;
mod command_line;
mod commands;
mod engines;
mod exit;
mod failure;
mod launch;
mod limits;
mod logging;
mod progress;
mod registry;
mod short_help;
mod signals;
mod threads;
mod thumbnails;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use threads::Workload;

/// Printed below the commands; lines of at most 80 columns, since clap breaks them without their indent.
const AFTER_HELP: &str = "\
Start with:
  paravt-bench reproduce paravt-nano   train, evaluate and report; no GPU needed
  paravt-bench doctor                  what this machine can run
  paravt-bench run --help              evaluate a model behind a server

Exit codes:
  0    success
  1    a finding: a failed case, a missing file, a run worse than its baseline
  2    wrong usage or bad input: flags, a damaged file, a run that cannot be
       continued
  3    a precondition does not hold: no data, no server or model, no space, no
       permission, a run directory that another process is writing
  4    samples missing or failed (also where the disk filled up during the run),
       a check that cannot decide
  130  Ctrl-C";

/// Benchmark and reproducibility suite for long-video multimodal models.
#[derive(Parser)]
#[command(name = "paravt-bench", version, about, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Log to standard error; -vv logs more [default: warnings only].
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Print no progress: results, warnings and errors only.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Colour of the output; auto: on a terminal, unless NO_COLOR is set.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: clap::ColorChoice,
}

#[derive(Subcommand)]
enum Command {
    /// Run a recipe: train, serve, evaluate and report, stage by stage.
    Reproduce(Box<commands::reproduce::Args>),
    /// Show how far a recipe is, or runs: stages, times, errors, what to do next.
    Status(commands::status::Args),
    /// Evaluate a model on one or more splits.
    Run(Box<commands::run::Args>),
    /// Print or write scores of runs beside the published numbers.
    Report(commands::report::Args),
    /// Compare two runs sample by sample.
    Compare(commands::compare::Args),
    /// Write runs as files of other harnesses.
    Export(commands::export::Args),
    /// Compare runs with a baseline: pass, fail or undecided.
    Check(commands::check::Args),
    /// Audit sample files of other harnesses, and compare two of them.
    Audit(commands::audit::Args),
    /// Check, download or generate the data of benchmarks.
    Data(commands::data::Args),
    /// List splits with benchmark, size and metric.
    Tasks(commands::data::TasksArgs),
    /// Import, list and show prompt texts.
    Protocol(commands::protocol::Args),
    /// Check this machine: GPUs, libraries, backends, needs of a recipe.
    Doctor(commands::doctor::Args),
    /// Ask a model one question about one video.
    Ask(Box<commands::ask::Args>),
    /// Answer conversations from JSON files.
    Generate(Box<commands::generate::Args>),
    /// Write the sampled frames of a video as PNG files.
    Frames(commands::frames::Args),
    /// Merge the shards of a run into one run directory.
    Merge(commands::merge::Args),
    /// Print the completion script of a shell.
    #[command(hide = true)]
    Completions(commands::completions::Args),
    /// Write manual pages, one per command.
    #[command(hide = true)]
    Man(commands::man::Args),
}

fn main() -> std::process::ExitCode {
    let matches = short_help::shortened(Cli::command()).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    output::configure(cli.color, cli.quiet);
    logging::start(cli.verbose);
    let workload = match &cli.command {
        Command::Reproduce(args) if args.trains() => Workload::Training,
        Command::Reproduce(_) | Command::Run(_) | Command::Ask(_) | Command::Generate(_) => {
            Workload::Inference
        }
        _ => Workload::Files,
    };
    allocator::configure(workload);
    threads::configure(workload);
    let result = match cli.command {
        Command::Ask(args) => commands::ask::run(&args),
        Command::Audit(args) => commands::audit::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Compare(args) => commands::compare::run(&args),
        Command::Completions(args) => commands::completions::run(&args, Cli::command()),
        Command::Data(args) => commands::data::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Export(args) => commands::export::run(&args),
        Command::Frames(args) => commands::frames::run(&args),
        Command::Generate(args) => commands::generate::run(&args),
        Command::Man(args) => commands::man::run(&args, Cli::command()),
        Command::Merge(args) => commands::merge::run(&args),
        Command::Protocol(args) => commands::protocol::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Reproduce(args) => commands::reproduce::run(&args),
        Command::Run(args) => commands::run::run(&args),
        Command::Status(args) => commands::status::run(&args),
        Command::Tasks(args) => commands::data::tasks(&args),
    };
    let result = match (result, output::failure()) {
        (Ok(_), Some(error)) => Err(anyhow::Error::new(error).context("cannot write to standard output")),
        (result, _) => result,
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            failure::print(&error);
            exit::code(&error).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use clap::builder::ValueRange;

    use super::Cli;

    /// Says what every option of a command and of those below it lacks.
    fn unclear(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        for argument in command.get_arguments().filter(|argument| !argument.is_global_set()) {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            let name = format!("{path} {}", argument.get_id());
            if help.is_empty() {
                found.push(format!("{name}: no help"));
            }
            let takes_value = argument.get_num_args() != Some(ValueRange::EMPTY);
            let says_default = !argument.get_default_values().is_empty() || help.contains("[default: ");
            if takes_value && !argument.is_required_set() && !says_default {
                found.push(format!("{name}: no default"));
            }
        }
        for below in command.get_subcommands() {
            unclear(below, &format!("{path} {}", below.get_name()), found);
        }
    }

    #[test]
    fn every_option_is_explained_with_its_default() {
        let mut command = Cli::command();
        command.build();
        let mut found = Vec::new();
        unclear(&command, "paravt-bench", &mut found);
        assert!(found.is_empty(), "{found:#?}");
    }
}
