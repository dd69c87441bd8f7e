//! The command line as a manifest shows it: from its parsed flags, values masked unless known to be
//! harmless.

use std::any::TypeId;
use std::ffi::OsString;
use std::path::Path;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

/// Shown in the place of a value that may hold a secret or a path of the machine.
const MASK: &str = "…";

/// Flags of free text that hold neither.
const HARMLESS: [&str; 15] = [
    "tasks",
    "only",
    "ids",
    "shard",
    "profile",
    "mode",
    "protocol",
    "recipe",
    "redo",
    "until",
    "serving",
    "retry_errors",
    "device",
    "dtype",
    "label",
];

/// The words of a command line without what may be a secret or name a machine.
pub(crate) fn shown(command: &Command, words: impl IntoIterator<Item = OsString>) -> Vec<String> {
    let mut shown = vec![command.get_name().to_owned()];
    let Ok(matches) = command.clone().try_get_matches_from(words) else { return shown };
    let (mut command, mut matches) = (command, &matches);
    while let Some((name, below)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else { break };
        shown.push(name.to_owned());
        (command, matches) = (found, below);
    }
    for argument in command.get_arguments() {
        shown.extend(words_of(argument, matches));
    }
    shown
}

fn words_of(argument: &Arg, matches: &ArgMatches) -> Vec<String> {
    let id = argument.get_id().as_str();
    let given = matches.try_contains_id(id).unwrap_or(false)
        && matches.value_source(id) == Some(ValueSource::CommandLine);
    if !given {
        return Vec::new();
    }
    let name = argument.get_long().map(|long| format!("--{long}"));
    if !matches!(argument.get_action(), ArgAction::Set | ArgAction::Append) {
        return name.into_iter().collect();
    }
    let values: Vec<String> = matches
        .get_raw(id)
        .into_iter()
        .flatten()
        .map(|value| match id {
            _ if !is_harmless(argument) => MASK.to_owned(),
            // A name, or a file of which only the name is shown.
            "protocol" | "recipe" => {
                Path::new(value).file_name().unwrap_or_default().to_string_lossy().into_owned()
            }
            _ => value.to_string_lossy().into_owned(),
        })
        .collect();
    match name {
        Some(name) if values.is_empty() => vec![name],
        Some(name) => vec![name, values.join(",")],
        None => values,
    }
}

/// A number, one of a fixed set of words, or a flag that is known to hold neither secret nor path.
fn is_harmless(argument: &Arg) -> bool {
    let parser = argument.get_value_parser();
    let counts = [TypeId::of::<u8>(), TypeId::of::<u16>(), TypeId::of::<u32>(), TypeId::of::<u64>()];
    let mut numbers = counts.into_iter().chain([TypeId::of::<usize>(), TypeId::of::<f64>()]);
    parser.possible_values().is_some()
        || numbers.any(|number| parser.type_id() == number)
        || HARMLESS.contains(&argument.get_id().as_str())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::shown;
    use crate::Cli;

    fn line(words: &[&str]) -> String {
        let words = std::iter::once("/opt/bin/paravt-bench").chain(words.iter().copied());
        shown(&Cli::command(), words.map(Into::into)).join(" ")
    }

    #[test]
    fn settings_are_shown_and_whatever_may_be_private_is_not() {
        let shown = line(&[
            "run",
            "mlvu",
            "lvbench",
            "--base-url",
            "http://a:K1@h1/v1,http://b:K2@h2/v1?key=K3",
            "--model=/home/me/model",
            "--out",
            "/home/me/runs",
            "--data=/mnt/K4",
            "--profile=strict",
            "--nframes",
            "8",
            "--temperature=0.5",
            "--channel",
            "video",
            "--shard",
            "1/2",
            "--resume",
            "--protocol=/home/me/mine.toml",
        ]);
        for word in [
            "mlvu lvbench",
            "--profile strict",
            "--nframes 8",
            "--temperature 0.5",
            "--channel video",
            "--protocol mine.toml",
        ] {
            assert!(shown.contains(word), "`{word}` in {shown}");
        }
        assert!(shown.contains("--resume") && shown.contains("--base-url …"), "{shown}");
        for secret in ["K1", "K2", "K3", "K4", "h1", "/home", "/opt"] {
            assert!(!shown.contains(secret), "`{secret}` in {shown}");
        }
    }

    #[test]
    fn a_line_that_does_not_parse_shows_nothing() {
        assert_eq!(line(&["run", "--nonsense", "http://a:K1@h1"]), "paravt-bench");
    }
}
