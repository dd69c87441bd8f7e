//! A report for a terminal, as Markdown and as JSON.

use std::fmt::Write as _;

use paravt_suite::printable::printable_line;
use paravt_suite::profile::Profile;

use crate::export::escape;
use crate::table::{Kind, tenths};
use crate::terminal::{Detail, Text, Tone, counted, percent, percent_interval};
use crate::{Cell, Comparison, Report, Verdict, study};

fn range(interval: Option<(f64, f64)>) -> String {
    interval.map_or_else(|| "-".to_owned(), percent_interval)
}

/// The verdict with its reasons; INCOMPLETE stands wherever the score does.
pub(crate) fn verdict(cell: &Cell) -> String {
    let mark = if cell.complete() { "" } else { "INCOMPLETE " };
    match &cell.paper {
        Some(paper) => {
            let caveats: String = caveats(cell).iter().map(|caveat| format!(" ({caveat})")).collect();
            format!("{mark}{}{caveats}", paper.verdict)
        }
        None => format!("{mark}no published number named").trim().to_owned(),
    }
}

/// The same, and nothing where no number is published to judge a complete run by.
pub(crate) fn judged(cell: &Cell) -> String {
    if cell.paper.is_none() && cell.complete() { String::new() } else { verdict(cell) }
}

/// Basis of a comparable run's verdict, where that is little.
fn caveats(cell: &Cell) -> Vec<String> {
    let Some(paper) = cell.paper.as_ref().filter(|_| cell.is_comparable()) else { return Vec::new() };
    let weak = paper.weak.then(|| format!("weak: {} videos", cell.videos));
    let unverified = (!paper.data_verified).then(|| "data not verified".to_owned());
    weak.into_iter().chain(unverified).collect()
}

/// Failed and incomplete samples beside a score.
pub(crate) fn losses(cell: &Cell) -> String {
    let parts = lost(cell);
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

fn lost(cell: &Cell) -> Vec<String> {
    let summary = &cell.summary;
    let counts = [
        (summary.n_unparsed, "unparsed"),
        (summary.n_errors, "failed"),
        (summary.n_frame_loss, "frame loss"),
        (cell.lost.aborted, "aborted"),
        (summary.n_truncated, "truncated"),
        (summary.n_dropped_calls, "dropped calls"),
    ];
    counts.iter().filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}")).collect()
}

/// The report for a terminal: one line per run; with [`Detail::Full`] a section for each.
pub fn terminal(report: &Report, detail: Detail) -> Text {
    let mut text = Text::default();
    text.line(format!(
        "{:<SPLIT$} {:>5} {:>13} {:>5} {:>5} {:>6}  verdict",
        "split", "score", "95 %", "N", "paper", "diff"
    ));
    let mut runs: Vec<(&str, Profile)> = Vec::new();
    for cell in &report.cells {
        if !runs.contains(&(&cell.run, cell.profile)) {
            runs.push((&cell.run, cell.profile));
        }
    }
    for (run, profile) in runs {
        text.line(format!("run: {run}, profile {profile}"));
        let of_run = |cell: &&Cell| cell.run == run && cell.profile == profile;
        report.cells.iter().filter(of_run).for_each(|cell| row(&mut text, cell));
    }
    if !report.not_run.is_empty() {
        text.line(format!("not run: {}", report.not_run.join(", ")));
    }
    if let Some(line) = report.left_out() {
        text.toned("", &line, Tone::Bad, "");
    }
    match detail {
        Detail::Brief => text.line("with -v: reasons, breakdowns, tool use and cost of each run"),
        Detail::Full => report.cells.iter().for_each(|cell| section(&mut text, cell)),
    }
    text
}

/// Columns of the longest title of a published split.
const SPLIT: usize = 25;

fn row(text: &mut Text, cell: &Cell) {
    let (published, difference) = match &cell.paper {
        Some(paper) => (Kind::Percent.number(paper.published), difference(cell, paper)),
        None => ("-".to_owned(), "-".to_owned()),
    };
    let (word, tone) = short_verdict(cell);
    let (n, score) = (cell.n(), cell.score().map_or_else(|| "-".to_owned(), percent));
    let (title, interval) = (printable_line(&cell.title), range(cell.interval));
    let numbers =
        format!("{title:<SPLIT$} {score:>5} {interval:>13} {n:>5} {published:>5} {difference:>6}  ");
    text.toned(&numbers, word, tone, "");
    let mut notes = counts(cell);
    notes.extend(lost(cell));
    notes.extend(caveats(cell));
    if cell.torn_bytes > 0 {
        notes.push("last record incomplete, left out".to_owned());
    }
    if !notes.is_empty() {
        text.line(format!("  {}", notes.join(", ")));
    }
}

/// Our score minus the published one; empty before the first scored sample.
pub(crate) fn difference(cell: &Cell, paper: &Comparison) -> String {
    let shown = cell.score().filter(|_| !matches!(paper.verdict, Verdict::NotComparable(_)));
    shown.map_or_else(|| "-".to_owned(), |_| Kind::Points.number(paper.difference))
}

/// Caveats of a score and its N: a headline that is a mean over groups, missing samples, samples that are not scored or
/// were not selected.
pub(crate) fn counts(cell: &Cell) -> Vec<String> {
    let summary = &cell.summary;
    let mut counts = Vec::new();
    if summary.n_recorded != summary.n_expected {
        counts.push(format!("{} of {} recorded", summary.n_recorded, counted(summary.n_expected, "sample")));
    } else if summary.n_recorded != cell.n() {
        let counted = counted(summary.n_recorded, "recorded sample");
        counts.push(format!("{} of {counted} count in the score", cell.n()));
    }
    if summary.n_expected < cell.split_rows {
        counts.push(format!("selection: {} of {} samples", summary.n_expected, cell.split_rows));
    }
    counts.extend(cell.headline_note());
    counts
}

/// N with what it leaves open.
pub(crate) fn n(cell: &Cell) -> String {
    match counts(cell).join("; ") {
        counts if counts.is_empty() => cell.n().to_string(),
        counts => format!("{} ({counts})", cell.n()),
    }
}

/// One word or two; the reasons follow in the run's own section.
fn short_verdict(cell: &Cell) -> (&'static str, Tone) {
    match &cell.paper {
        _ if !cell.complete() => ("INCOMPLETE", Tone::Open),
        None => ("no paper value", Tone::Plain),
        Some(paper) => (paper.verdict.as_str(), Tone::of(&paper.verdict)),
    }
}

fn section(text: &mut Text, cell: &Cell) {
    let summary = &cell.summary;
    text.line("");
    text.line(format!("{} ({}, {})", cell.title, cell.profile, cell.run));
    let (metric, score) = (summary.headline().name, cell.score().map_or_else(|| "-".to_owned(), percent));
    text.line(format!("  {metric} {score} over N {}; errors: {}", n(cell), losses(cell)));
    let (word, tone) = short_verdict(cell);
    let verdict = verdict(cell);
    match verdict.strip_prefix(word) {
        Some(reasons) => text.toned("  ", word, tone, reasons),
        None => text.line(format!("  {verdict}")),
    }
    if cell.torn_bytes > 0 {
        text.line("  the last record is torn and left out; resume the run to redo it");
    }
    if summary.n != summary.n_expected {
        let over = percent(summary.value_over_expected);
        text.line(format!("  over all {} expected: {over}", summary.n_expected));
    }
    for (threshold, value) in &summary.recall_at {
        text.line(format!("  R@{threshold}: {}", percent(*value)));
    }
    if let Some(open) = &summary.open_ended {
        text.line(format!("  {}: {} over N {}", open.label, percent(open.value), open.n));
    }
    for breakdown in &summary.breakdowns {
        text.line(format!("  {}", breakdown.title));
        for group in &breakdown.groups {
            let (label, value) = (printable_line(&group.label), percent(group.value));
            text.line(format!("    {label:<32} {value:>6}  N {}", group.n));
        }
    }
    effort(text, cell);
}

fn effort(text: &mut Text, cell: &Cell) {
    let (summary, tools) = (&cell.summary, &cell.summary.tools);
    text.line(format!(
        "  tools: {:.2} calls per sample, {} % of samples, {} failed crops, {} malformed, {} forced answers",
        tools.calls_per_sample,
        percent(tools.share_with_calls),
        tools.crop_failures,
        tools.malformed,
        tools.forced
    ));
    text.line(format!(
        "  cost: {} prompt and {} completion tokens, latencies of {:.1} s in all",
        summary.prompt_tokens,
        summary.completion_tokens,
        tenths(summary.sample_seconds)
    ));
    if summary.n_rebuilt > 0 {
        text.line(format!("  {} put together from parts of the server", counted(summary.n_rebuilt, "reply")));
    }
    for (flag, count) in &summary.flags {
        text.line(format!("  flagged {flag}: {count}"));
    }
}

/// The report for machines: every number there is.
pub fn json(report: &Report) -> String {
    serde_json::to_string_pretty(report).expect("plain structs with string keys serialise") + "\n"
}

/// The report for a pull request.
pub fn markdown(report: &Report) -> String {
    let mut out = String::from(
        "| split | profile | run | score | 95 % | N | errors | paper | diff | verdict |\n\
         |---|---|---|--:|--:|--:|---|--:|--:|---|\n",
    );
    for cell in &report.cells {
        let (published, difference) = match &cell.paper {
            Some(paper) => (Kind::Percent.number(paper.published), difference(cell, paper)),
            None => (String::new(), String::new()),
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {published} | {difference} | {} |",
            escape(&cell.title),
            cell.profile,
            escape(&cell.run),
            cell.score().map_or_else(|| "-".to_owned(), percent),
            range(cell.interval),
            n(cell),
            losses(cell),
            escape(&judged(cell)),
        );
    }
    for split in &report.not_run {
        let _ = writeln!(out, "| {split} | | | | | | | | | not run |");
    }
    if let Some(line) = report.left_out() {
        let _ = writeln!(out, "\n{}", escape(&line));
    }
    if let Some(study) = &report.study {
        out.push_str(&study::markdown(study));
    }
    out
}
