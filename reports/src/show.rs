//! A report for a terminal, as Markdown and as JSON.

use std::fmt::Write as _;

use paravt_suite::backend::Memory;
use paravt_suite::printable::printable_line;

use crate::export::{self, escape};
use crate::multiplicity::Multiplicity;
use crate::order::group_by;
use crate::prices::Price;
use crate::rows::Spread;
use crate::table::{col, interval, tenths};
use crate::terminal::{Detail, Lines, Text, Tone, counted, percent};
use crate::{Cell, Report, cell_text, published, sections, study, tables};

/// The report for a terminal: one line per run; with [`Detail::Full`] a section for each.
pub fn terminal(report: &Report, detail: Detail) -> Text {
    let score = [
        col("split"),
        col("score_percent").or("-"),
        interval("low_percent", "high_percent", "95 %").or("-"),
        col("n"),
    ];
    let paper = [
        col("published_percent").titled("paper").or("-"),
        col("difference").titled("diff").or("-").flush(true),
        col("word"),
    ];
    let own = [col("chance").or("-"), col("state")];
    let (beside, widths) = if report.is_of_paper() {
        (&paper[..], &[SPLIT, 5, 13, 5, 5, 6][..])
    } else {
        (&own[..], &[SPLIT, 5, 13, 5, 6][..])
    };
    let view = tables::scores(report).view(&[&score, beside].concat());
    let lines = Lines::of(&view, widths);
    let mut text = Text::default();
    text.line(lines.header());
    let rows = report.cells.iter().enumerate().map(|(row, cell)| ((&cell.run, cell.profile), (row, cell)));
    for ((run, profile), rows) in group_by(rows) {
        text.line(format!("run: {run}, profile {profile}"));
        for (row, cell) in rows {
            lines.row(&mut text, row);
            notes(&mut text, cell);
        }
    }
    published::show(&mut text, report);
    if report.study.is_none() {
        report.contrasts.iter().for_each(|contrast| text.line(contrast.sentence()));
    }
    sections::ALL.iter().for_each(|section| (section.show)(&mut text, report));
    if !report.not_run.is_empty() {
        text.line(format!("not run: {}", report.not_run.join(", ")));
    }
    if let Some(line) = Multiplicity::of(report).line() {
        text.line(line);
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

fn notes(text: &mut Text, cell: &Cell) {
    let mut notes = cell_text::counts(cell);
    notes.extend(cell_text::lost(cell));
    notes.extend(cell_text::caveats(cell));
    if cell.torn_bytes > 0 {
        notes.push("last record incomplete, left out".to_owned());
    }
    if !notes.is_empty() {
        text.line(format!("  {}", notes.join(", ")));
    }
    for line in cell
        .summary
        .unread
        .iter()
        .flat_map(|unread| unread.to_string().lines().map(str::to_owned).collect::<Vec<_>>())
    {
        text.line(format!("  {line}"));
    }
}

fn section(text: &mut Text, cell: &Cell) {
    let summary = &cell.summary;
    text.line("");
    text.line(format!("{} ({}, {})", cell.title, cell.profile, cell.run));
    let (metric, score) = (&summary.headline().name, cell.score().map_or_else(|| "-".to_owned(), percent));
    text.line(format!(
        "  {metric} {score} over N {}; errors: {}",
        cell_text::n(cell),
        cell_text::losses(cell)
    ));
    let (word, tone) = cell_text::short_verdict(cell);
    let verdict = cell_text::verdict(cell);
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
    for metric in summary.further() {
        text.line(format!("  {}: {}", metric.name, percent(metric.value)));
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
    let thoughts = summary.reasoning_tokens.map(|tokens| format!(" ({tokens} of reasoning)"));
    text.line(format!(
        "  cost: {} prompt and {} completion tokens{}, latencies of {:.1} s in all",
        summary.prompt_tokens,
        summary.completion_tokens,
        thoughts.unwrap_or_default(),
        tenths(summary.sample_seconds)
    ));
    let Spread { n, p50, p99, .. } = cell.digest.first_token;
    if n > 0 {
        let token = cell.digest.token;
        text.line(format!(
            "  first token of {}: median {p50:.2} s, p99 {p99:.2} s; per token after it: median {:.1} ms, p99 {:.1} ms",
            counted(n, "model call"),
            1e3 * token.p50,
            1e3 * token.p99
        ));
    }
    if let Some(Memory { planned, peak }) = cell.memory {
        let peak = peak.map(|peak| format!(", {:.1} GiB at its peak", tables::gib(peak)));
        text.line(format!("  memory: {:.1} GiB planned{}", tables::gib(planned), peak.unwrap_or_default()));
    }
    if let Some(Price { currency, tokens, gpus }) = &cell.price {
        let amount = |name: &str, price: &Option<f64>| Some(format!("{name} {:.2} {currency}", (*price)?));
        let amounts: Vec<_> =
            [amount("tokens", tokens), amount("GPUs", gpus)].into_iter().flatten().collect();
        if !amounts.is_empty() {
            text.line(format!("  price: {}", amounts.join(", ")));
        }
    }
    if summary.n_reassembled > 0 {
        text.line(format!(
            "  {} reassembled from what the server took apart",
            counted(summary.n_reassembled, "reply")
        ));
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
    let score = [
        col("split"),
        col("profile"),
        col("run"),
        col("score_percent").or("-"),
        interval("low_percent", "high_percent", "95 %").or("-"),
        col("n_of").flush(true),
        col("errors"),
    ];
    let paper = [
        col("published_percent").titled("paper"),
        col("difference").titled("diff").flush(true),
        col("judged"),
    ];
    let own = [col("chance"), col("state")];
    let beside = if report.is_of_paper() { &paper[..] } else { &own[..] };
    let mut view = tables::scores(report).view(&[&score, beside].concat());
    report.not_run.iter().for_each(|split| view.push([("split", split), ("judged", "not run")]));
    let mut out = export::markdown(&view);
    for contrast in report.contrasts.iter().filter(|_| report.study.is_none()) {
        let _ = writeln!(out, "\n{}", escape(&contrast.sentence()));
    }
    if let Some(line) = report.left_out() {
        let _ = writeln!(out, "\n{}", escape(&line));
    }
    for section in &sections::ALL {
        let Some(table) = section.of(report) else { continue };
        let _ =
            write!(out, "\n{}\n\n{}", escape(&table.title), export::markdown(&table.view(section.markdown)));
    }
    if let Some(study) = &report.study {
        out.push_str(&study::markdown(study));
    }
    out
}
