//! The verdict of the gate for a terminal, as Markdown and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::{Check, Status, Verdict};
use crate::export::escape;
use crate::terminal::{Detail, Text, Tone};

fn headline(status: Status) -> (&'static str, &'static str) {
    match status {
        Status::Fail => ("FAIL", ": worse than the baseline"),
        Status::Undecided => ("UNDECIDED", ": a check could not be decided"),
        Status::Pass | Status::Skipped => ("pass", ": no regression"),
    }
}

fn tone(status: Status) -> Tone {
    match status {
        Status::Fail => Tone::Bad,
        Status::Undecided => Tone::Open,
        Status::Pass => Tone::Good,
        Status::Skipped => Tone::Plain,
    }
}

/// The verdict for a terminal: one line per run that passed and one per check that did not; with
/// [`Detail::Full`] every check.
pub fn terminal(verdict: &Verdict, detail: Detail) -> Text {
    let mut text = Text::default();
    let (word, rest) = headline(verdict.status());
    text.toned("", word, tone(verdict.status()), rest);
    match detail {
        Detail::Full => verdict.checks.iter().for_each(|check| line(&mut text, check)),
        Detail::Brief => brief(&mut text, verdict),
    }
    text
}

fn line(text: &mut Text, check: &Check) {
    let status = format!("{:<9}", check.status.as_str());
    let rest = format!(" {:<15} {:<16} {}", check.group, check.name, check.message);
    text.toned("", &status, tone(check.status), &rest);
}

fn brief(text: &mut Text, verdict: &Verdict) {
    let mut groups: Vec<&str> = Vec::new();
    for check in &verdict.checks {
        if !groups.contains(&check.group.as_str()) {
            groups.push(&check.group);
        }
    }
    for group in groups {
        let checks = || verdict.checks.iter().filter(|check| check.group == group);
        let open: Vec<&Check> = checks().filter(|check| check.status > Status::Pass).collect();
        open.iter().for_each(|check| line(text, check));
        if open.is_empty() {
            let count = |status| checks().filter(|check| check.status == status).count();
            let worst = checks().map(|check| check.status).max().unwrap_or(Status::Skipped);
            let rest = match (count(Status::Pass), count(Status::Skipped)) {
                (passed, 0) => format!(" {group:<15} {passed} checks"),
                (passed, skipped) => format!(" {group:<15} {passed} checks, {skipped} skipped"),
            };
            text.toned("", &format!("{:<9}", worst.as_str()), tone(worst), &rest);
        }
    }
    text.line("with -v: every check with its numbers");
}

/// The verdict for machines: the status of the whole and every check.
pub fn json(verdict: &Verdict) -> String {
    #[derive(Serialize)]
    struct Whole<'a> {
        status: Status,
        #[serde(flatten)]
        verdict: &'a Verdict,
    }
    let whole = Whole { status: verdict.status(), verdict };
    serde_json::to_string_pretty(&whole).expect("plain structs with string keys serialise") + "\n"
}

/// The verdict for a pull request.
pub fn markdown(verdict: &Verdict) -> String {
    let (word, rest) = headline(verdict.status());
    let mut out = format!("**{word}{rest}**\n\n| | split | check | |\n|---|---|---|---|\n");
    for check in &verdict.checks {
        let (group, name) = (escape(&check.group), escape(&check.name));
        let _ =
            writeln!(out, "| {} | {group} | {name} | {} |", check.status.as_str(), escape(&check.message));
    }
    out
}
