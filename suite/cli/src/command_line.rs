//! The command line from its parsed flags: as a manifest shows it, values masked unless known to be harmless, and as
//! another call repeats it.

use std::any::TypeId;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Command};

/// Shown in the place of a value that may hold a secret or a path of the machine.
const MASK: &str = "…";

/// Flags of free text that hold neither.
const HARMLESS: [&str; 15] = [
    "tasks", "only", "ids", "shard", "profile", "mode", "protocol", "recipe", "redo", "until", "serving",
    "retry_errors", "device", "dtype", "label",
];

/// The words of a command line without what may be a secret or name a machine.
pub(crate) fn mask_argv(command: &Command, words: impl IntoIterator<Item = OsString>) -> Vec<String> {
    let masked = |argument: &Arg, value: &OsStr| match argument.get_id().as_str() {
        _ if !is_harmless(argument) => MASK.to_owned(),
        // A name, or a file of which only the name is shown.
        "protocol" | "recipe" => {
            Path::new(value).file_name().unwrap_or_default().to_string_lossy().into_owned()
        }
        _ => value.to_string_lossy().into_owned(),
    };
    let mut shown = vec![command.get_name().to_owned()];
    if let Some((names, given)) = parsed(command, words, masked) {
        shown.extend(names);
        for Given { name, values, .. } in given {
            match name {
                Some(name) if values.is_empty() => shown.push(name),
                // Behind a blank it would be a flag.
                Some(name) if values[0].starts_with('-') => {
                    shown.push(format!("{name}={}", values.join(",")))
                }
                Some(name) => shown.extend([name, values.join(",")]),
                None => shown.extend(values),
            }
        }
    }
    shown
}

/// The flags of a command line for another call of the same command: all but those of `without`, named by their ids.
pub(crate) fn argv_without(
    command: &Command,
    words: impl IntoIterator<Item = OsString>,
    without: &[&str],
) -> Vec<String> {
    let (_, given) =
        parsed(command, words, |_, value| value.to_string_lossy().into_owned()).unwrap_or_default();
    let flags = given.into_iter().filter(|given| !without.contains(&given.id.as_str()));
    let words = |Given { name, values, delimiter, times, .. }: Given| {
        let Some(name) = name else { return Vec::new() };
        match (values.as_slice(), delimiter) {
            ([], _) => vec![name; times],
            (values, Some(delimiter)) => vec![format!("{name}={}", values.join(&delimiter.to_string()))],
            (values, None) => values.iter().map(|value| format!("{name}={value}")).collect(),
        }
    };
    flags.flat_map(words).collect()
}

/// Ids and names of the flags that stand on a command line.
pub(crate) fn given(command: &Command, words: impl IntoIterator<Item = OsString>) -> Vec<(String, String)> {
    let (_, given) = parsed(command, words, |_, _| String::new()).unwrap_or_default();
    given.into_iter().filter_map(|Given { id, name, .. }| Some((id, name?))).collect()
}

/// An argument that stands on the command line.
struct Given {
    id: String,
    /// `--name`; `None` for one without a name.
    name: Option<String>,
    values: Vec<String>,
    delimiter: Option<char>,
    /// How often it stands there, where that counts (`-vv`).
    times: usize,
}

/// Names of the subcommands, and what was given to the last; `None` for a line that does not parse.
fn parsed(
    command: &Command,
    words: impl IntoIterator<Item = OsString>,
    value: impl Fn(&Arg, &OsStr) -> String,
) -> Option<(Vec<String>, Vec<Given>)> {
    let mut command = command.clone();
    // Hands flags of all commands down.
    command.build();
    let matches = command.try_get_matches_from_mut(words).ok()?;
    let (mut command, mut matches, mut names) = (&command, &matches, Vec::new());
    while let Some((name, below)) = matches.subcommand() {
        names.push(name.to_owned());
        (command, matches) = (command.find_subcommand(name)?, below);
    }
    let is_given = |argument: &&Arg| {
        let id = argument.get_id().as_str();
        matches.try_contains_id(id).unwrap_or(false)
            && matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    let given = command.get_arguments().filter(is_given).map(|argument| {
        let id = argument.get_id().to_string();
        let has_values = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
        let raw = matches.get_raw(&id).into_iter().flatten().filter(|_| has_values);
        let times = match argument.get_action() {
            ArgAction::Count => usize::from(matches.get_count(&id)),
            _ => 1,
        };
        Given {
            times,
            name: argument.get_long().map(|long| format!("--{long}")),
            values: raw.map(|raw| value(argument, raw)).collect(),
            delimiter: argument.get_value_delimiter(),
            id,
        }
    });
    let given = given.collect();
    Some((names, given))
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

    use super::{argv_without, mask_argv};
    use crate::Cli;

    fn line(words: &[&str]) -> String {
        let words = std::iter::once("/opt/bin/paravt-bench").chain(words.iter().copied());
        mask_argv(&Cli::command(), words.map(Into::into)).join(" ")
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
            "mlvu lvbench", "--profile strict", "--nframes 8", "--temperature 0.5", "--channel video",
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
    fn a_repeated_line_has_every_flag_but_those_left_out() {
        let words = "-vv reproduce --out slurm paravt-8b --launcher slurm --sbatch-option --partition=gpu --limit 2 \
                     --only paravt-8b,reproduce --model m --own-engine --data reproduce";
        let words = std::iter::once("paravt-bench").chain(words.split_whitespace()).map(Into::into);
        let kept = argv_without(
            &Cli::command(),
            words,
            &["out", "launcher", "sbatch_option", "model", "own_engine"],
        );
        assert_eq!(
            kept.join(" "),
            "--only=paravt-8b,reproduce --data=reproduce --limit=2 --verbose --verbose"
        );
    }

    #[test]
    fn a_line_that_does_not_parse_shows_nothing() {
        assert_eq!(line(&["run", "--nonsense", "http://a:K1@h1"]), "paravt-bench");
    }
}
