//! The verdict of the gate for a terminal, as Markdown and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::{Check, Status, Verdict};
use crate::export::escape;
use crate::order::group_by;
use crate::terminal::{Detail, Text, Tone, counted};

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
    verdict.contrasts.iter().for_each(|contrast| text.line(contrast.sentence()));
    for (group, checks) in group_by(verdict.checks.iter().map(|check| (check.group.as_str(), check))) {
        match detail {
            Detail::Full => full(&mut text, group, &checks),
            Detail::Brief => brief(&mut text, group, &checks),
        }
    }
    if detail == Detail::Brief {
        text.line("with -v: every check with its numbers");
    }
    text
}

fn full(text: &mut Text, group: &str, checks: &[&Check]) {
    text.line(group);
    for check in checks {
        let rest = format!(" {:<16} {}", check.name, check.message);
        text.toned("  ", &padded(check.status), tone(check.status), &rest);
    }
}

fn brief(text: &mut Text, group: &str, checks: &[&Check]) {
    let open = checks.iter().filter(|check| check.status > Status::Pass);
    for check in open.clone() {
        let rest = format!(" {group}, {}: {}", check.name, check.message);
        text.toned("", &padded(check.status), tone(check.status), &rest);
    }
    if open.count() == 0 {
        let count = |status| checks.iter().filter(|check| check.status == status).count();
        let worst = checks.iter().map(|check| check.status).max().unwrap_or(Status::Skipped);
        let passed = counted(count(Status::Pass), "check");
        let rest = match count(Status::Skipped) {
            0 => format!(" {group}: {passed}"),
            skipped => format!(" {group}: {passed}, {skipped} skipped"),
        };
        text.toned("", &padded(worst), tone(worst), &rest);
    }
}

fn padded(status: Status) -> String {
    format!("{:<9}", status.as_str())
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
    let mut out = format!("**{word}{rest}**\n\n");
    for contrast in &verdict.contrasts {
        let _ = writeln!(out, "{}\n", escape(&contrast.sentence()));
    }
    out.push_str("| | split | check | |\n|---|---|---|---|\n");
    for check in &verdict.checks {
        let (group, name) = (escape(&check.group), escape(&check.name));
        let _ =
            writeln!(out, "| {} | {group} | {name} | {} |", check.status.as_str(), escape(&check.message));
    }
    out
}
