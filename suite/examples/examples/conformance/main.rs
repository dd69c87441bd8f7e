//! Recorded outputs of the released code against this build.
//!
//! `cargo run --release --example conformance -- [--show N] FILES`: the files are JSON of extraction, tool calls, rewards,
//! prompt hashes or test vectors (`suite/examples/tests/data`, `ci/compare/protocols --keep`). Exit code 1 for a difference, 2 for a
//! file that cannot be used or a function that is not here.

mod compare;
mod extraction;
mod prompts;
mod rewards;
mod toolcalls;
mod vectors;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Parser as _;
use paravt_files::read_text;
use paravt_python::{PyValue, loads};
use serde_json::Value;

/// Bytes that a file of cases may have.
const MAX_FILE: u64 = 256 << 20;

#[derive(clap::Parser)]
struct Args {
    /// JSON files of recorded outputs: extraction, tool calls, rewards, prompt hashes, or test vectors.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Differences to print for each function.
    #[arg(long, value_name = "N", default_value_t = 3)]
    show: usize,
}

/// One case: right when expected and got are equal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Case {
    /// The upstream's function.
    pub function: String,
    /// Printable form of the function's input.
    pub input: String,
    /// The upstream's output.
    pub expected: Value,
    /// Output of this build; `None` where it has no such function, or none for this input.
    pub got: Option<Value>,
}

/// Failed and unknown cases of one file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    failed: usize,
    unknown: usize,
}

/// A file that cannot be used does not keep the others from being run, and neither it nor an unknown function is ever
/// skipped in silence.
fn main() -> ExitCode {
    let args = Args::parse();
    let (mut failed, mut unusable) = (0, 0);
    for file in &args.files {
        match check(file).with_context(|| file.display().to_string()) {
            Ok(cases) => {
                let tally = print(file, &cases, args.show);
                failed += tally.failed;
                unusable += tally.unknown;
            }
            Err(error) => {
                eprintln!("error: {error:#}");
                unusable += 1;
            }
        }
    }
    match (unusable, failed) {
        (0, 0) => ExitCode::SUCCESS,
        (0, _) => ExitCode::from(1),
        _ => ExitCode::from(2),
    }
}

/// The cases of one file; its kind follows from its content.
fn check(file: &Path) -> anyhow::Result<Vec<Case>> {
    let text = read_text(file, MAX_FILE).context("cannot be read")?;
    // Python wrote these files: they may hold NaN, lone surrogates and integers of any size.
    let content = loads(&text).context("not JSON")?;
    if let PyValue::List(items) = &content {
        if items.is_empty() {
            bail!("expected cases, found an empty list");
        }
        return items.iter().map(function_case).collect();
    }
    let content = content.to_json();
    let kind = [
        (["user", "system"], prompts::cases as fn(&Value) -> anyhow::Result<Vec<Case>>),
        (["configs", "cases"], rewards::cases),
    ]
    .into_iter()
    .find(|(keys, _)| keys.iter().all(|key| content.get(key).is_some()));
    match kind {
        Some((_, cases)) => cases(&content),
        None if vectors::are_in(&content) => Ok(vectors::cases(&content)),
        None => bail!("expected a list of function cases, reward cases, prompt hashes or vectors"),
    }
}

/// A case `{"fn", "input", "output"}`; a function that is not known fails.
fn function_case(case: &PyValue) -> anyhow::Result<Case> {
    let Some(PyValue::Str(function)) = case.get("fn") else { bail!("a case has no `fn`") };
    let input = case.get("input").with_context(|| format!("a case of `{function}` has no `input`"))?;
    let expected = case.get("output").with_context(|| format!("a case of `{function}` has no `output`"))?;
    let plain = input.to_json();
    let got = extraction::call(function, input)
        .or_else(|| toolcalls::call(function, &plain))
        .or_else(|| rewards::call(function, &plain));
    Ok(Case { function: function.clone(), input: plain.to_string(), expected: expected.to_json(), got })
}

/// Prints counts per function and the first differences.
fn print(file: &Path, cases: &[Case], show: usize) -> Tally {
    let mut by_function: BTreeMap<&str, (usize, Vec<&Case>)> = BTreeMap::new();
    let mut tally = Tally::default();
    for case in cases {
        let entry = by_function.entry(&case.function).or_default();
        tally.unknown += usize::from(case.got.is_none());
        if case.got.as_ref().is_some_and(|got| compare::same(&case.expected, got)) {
            entry.0 += 1;
        } else {
            tally.failed += 1;
            entry.1.push(case);
        }
    }
    println!("{}", file.display());
    for (function, (passed, differing)) in by_function {
        println!("  {function}: {passed} passed, {} failed", differing.len());
        for case in differing.iter().take(show) {
            println!("    input    {}", case.input);
            println!("    expected {}", case.expected);
            match &case.got {
                Some(got) => println!("    got      {got}"),
                None => {
                    println!(
                        "    got      nothing: this build has no function `{function}`, or none for this input"
                    )
                }
            }
        }
    }
    println!("  {} passed, {} failed", cases.len() - tally.failed, tally.failed);
    tally
}
