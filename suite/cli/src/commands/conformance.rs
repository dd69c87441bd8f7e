//! `paravt-bench conformance`: upstream outputs against this implementation.

mod compare;
mod extraction;
mod prompts;
mod rewards;
mod toolcalls;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::exit::Exit;

/// Flags of `conformance`.
#[derive(clap::Args)]
pub struct Args {
    /// Case files (extraction, tool calls, rewards, prompt hashes).
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Differences shown per function.
    #[arg(long, default_value_t = 3)]
    show: usize,
}

/// One case: right when expected and got are equal.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The upstream's function.
    pub function: String,
    /// What went in, for people.
    pub input: String,
    /// The upstream's output.
    pub expected: Value,
    /// Ours.
    pub got: Value,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut failed = 0;
    for file in &args.files {
        let cases = check(file).with_context(|| file.display().to_string())?;
        failed += print(file, &cases, args.show);
    }
    Ok(if failed == 0 { Exit::Ok } else { Exit::Finding })
}

/// The cases of one file; what it holds is told from its content.
fn check(file: &Path) -> anyhow::Result<Vec<Case>> {
    let bytes = std::fs::read(file).context("cannot be read")?;
    let content: Value = serde_json::from_slice(&bytes).context("is no JSON")?;
    if let Value::Array(items) = &content {
        return items.iter().map(function_case).collect();
    }
    if content.get("user").is_some() && content.get("system").is_some() {
        return prompts::cases(&content);
    }
    if content.get("configs").is_some() && content.get("cases").is_some() {
        return rewards::cases(&content);
    }
    bail!("is of no known kind: a list of function cases, reward cases or prompt hashes is needed")
}

/// A case `{"fn", "input", "output"}`; a function that is not known fails.
fn function_case(case: &Value) -> anyhow::Result<Case> {
    let function = case["fn"].as_str().context("a case has no `fn`")?;
    let (input, expected) = (&case["input"], &case["output"]);
    let got = extraction::call(function, input)
        .or_else(|| toolcalls::call(function, input))
        .or_else(|| rewards::call(function, input))
        .unwrap_or_else(|| Value::String(format!("no function `{function}` here, or not for this input")));
    Ok(Case { function: function.to_owned(), input: input.to_string(), expected: expected.clone(), got })
}

/// Prints counts per function and the first differences; returns the number of failures.
fn print(file: &Path, cases: &[Case], show: usize) -> usize {
    let mut by_function: BTreeMap<&str, (usize, Vec<&Case>)> = BTreeMap::new();
    for case in cases {
        let entry = by_function.entry(&case.function).or_default();
        if compare::same(&case.expected, &case.got) {
            entry.0 += 1;
        } else {
            entry.1.push(case);
        }
    }
    println!("{}", file.display());
    let mut failed = 0;
    for (function, (passed, differing)) in by_function {
        failed += differing.len();
        println!("  {function}: {passed} passed, {} failed", differing.len());
        for case in differing.iter().take(show) {
            println!("    input    {}", case.input);
            println!("    expected {}", case.expected);
            println!("    got      {}", case.got);
        }
    }
    println!("  {} passed, {failed} failed", cases.len() - failed);
    failed
}
