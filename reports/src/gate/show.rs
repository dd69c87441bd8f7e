//! The verdict for a terminal and for a pull request.

use std::fmt::Write as _;

use super::{Status, Verdict};
use crate::export::escape;
use crate::forms::fold_lines;

fn headline(status: Status) -> &'static str {
    match status {
        Status::Fail => "FAIL: worse than the baseline",
        Status::Undecided => "UNDECIDED: a check could not be decided",
        Status::Pass | Status::Skipped => "pass: no regression",
    }
}

/// The verdict for a terminal.
pub fn terminal(verdict: &Verdict) -> String {
    let mut out = format!("{}\n", headline(verdict.status()));
    for check in &verdict.checks {
        let (group, name, status) = (&check.group, &check.name, check.status.as_str());
        let _ = writeln!(out, "{status:<9} {group:<15} {name:<16} {}", check.message);
    }
    fold_lines(&out)
}

/// The verdict for a pull request.
pub fn markdown(verdict: &Verdict) -> String {
    let mut out = format!("**{}**\n\n| | split | check | |\n|---|---|---|---|\n", headline(verdict.status()));
    for check in &verdict.checks {
        let (group, name) = (escape(&check.group), escape(&check.name));
        let _ =
            writeln!(out, "| {} | {group} | {name} | {} |", check.status.as_str(), escape(&check.message));
    }
    out
}
