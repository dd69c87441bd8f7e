#![forbid(unsafe_code)]
//! The `paravt-bench` command: parses flags into typed plans and wires tasks, backends and reports.

mod commands;
mod exit;
mod launch;
mod registry;

use clap::{Parser, Subcommand};
use exit::Exit;

/// Benchmark and reproducibility suite for long-video multimodal models.
#[derive(Parser)]
#[command(name = "paravt-bench", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Ask a model one question about one video; its tool calls are shown as they happen.
    Ask(Box<commands::ask::Args>),
    /// Hold a run against a baseline: pass, fail or undecided.
    Check(commands::check::Args),
    /// Compare two runs on the same samples.
    Compare(commands::compare::Args),
    /// Run case files of upstream outputs against this implementation.
    Conformance(commands::conformance::Args),
    /// Say what data is there and what is missing, or make a small data root.
    Data(commands::data::Args),
    /// Say what this machine has and what each backend can use.
    Doctor(commands::doctor::Args),
    /// Write the sampled frames of a video as PNG files.
    Frames(commands::frames::Args),
    /// Answer one conversation with a backend.
    Generate(commands::generate::Args),
    /// Join the shards of a run.
    Merge(commands::merge::Args),
    /// Import and show the texts around a sample.
    Protocol(commands::protocol::Args),
    /// Print tables of finished runs beside the published numbers.
    Report(commands::report::Args),
    /// Run a recipe.
    Reproduce(commands::reproduce::Args),
    /// Evaluate a model on one or more splits.
    Run(commands::run::Args),
    /// List the benchmarks.
    Tasks(commands::data::TasksArgs),
}

fn main() -> std::process::ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Ask(args) => commands::ask::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Compare(args) => commands::compare::run(&args),
        Command::Conformance(args) => commands::conformance::run(&args),
        Command::Data(args) => commands::data::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Frames(args) => commands::frames::run(&args),
        Command::Generate(args) => commands::generate::run(&args),
        Command::Merge(args) => commands::merge::run(&args),
        Command::Protocol(args) => commands::protocol::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Reproduce(args) => commands::reproduce::run(&args),
        Command::Run(args) => commands::run::run(&args),
        Command::Tasks(args) => commands::data::tasks(&args),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("error: {error:#}");
            Exit::Usage.into()
        }
    }
}
