//! Export formats: one type each behind one method.

use std::fmt::Write as _;

use paravt_suite::printable::{printable, printable_line};

use crate::export::escape;
use crate::{Cell, Report};

/// A format that a report can be written in.
pub trait Format {
    /// The report as text.
    fn render(&self, report: &Report) -> String;
}

/// For a terminal of [`COLUMNS`] columns.
pub struct Terminal;
/// For machines: every number there is.
pub struct Json;
/// For pull requests.
pub struct Markdown;

/// No line of the terminal form is longer.
pub const COLUMNS: usize = 100;

fn percent(value: f64) -> String {
    format!("{:.1}", 100.0 * value)
}

fn range(interval: Option<(f64, f64)>) -> String {
    interval.map_or_else(|| "-".to_owned(), |(low, high)| format!("{}-{}", percent(low), percent(high)))
}

/// The verdict in a few words; INCOMPLETE stands wherever the score does.
pub fn verdict(cell: &Cell) -> String {
    let mark = if cell.complete() { "" } else { "INCOMPLETE " };
    match &cell.paper {
        Some(paper) => format!("{mark}{}{}{}", paper.verdict, weak(cell), unverified(cell)),
        None => format!("{mark}no published number named").trim().to_owned(),
    }
}

/// Says that a verdict rests on few videos.
fn weak(cell: &Cell) -> String {
    let weak = cell.paper.as_ref().is_some_and(|paper| paper.weak) && cell.is_comparable();
    if weak { format!(" (weak: {} videos)", cell.videos) } else { String::new() }
}

/// Says that nothing but counts ties a verdict to the published data.
fn unverified(cell: &Cell) -> &'static str {
    let verified = cell.paper.as_ref().is_none_or(|paper| paper.data_verified);
    if verified || !cell.is_comparable() { "" } else { " (data not verified)" }
}

/// Losses that belong beside a score, or nothing.
pub fn losses(cell: &Cell) -> String {
    let summary = &cell.summary;
    let mut parts = Vec::new();
    for (count, name) in [
        (summary.n_unparsed, "unparsed"),
        (summary.n_errors, "failed"),
        (summary.n_frame_loss, "frame loss"),
        (cell.lost.aborted, "aborted"),
        (summary.n_truncated, "truncated"),
        (summary.n_dropped_calls, "dropped calls"),
        (summary.n_rebuilt, "rebuilt"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {name}"));
        }
    }
    if parts.is_empty() { "nothing lost".to_owned() } else { parts.join(", ") }
}

impl Format for Terminal {
    fn render(&self, report: &Report) -> String {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "{:<25} {:>7} {:>5} {:>11} {:>9} {:>5} {:>6} verdict",
            "split", "profile", "score", "95 %", "N", "paper", "diff"
        );
        for cell in &report.cells {
            let n = format!("{}/{}", cell.summary.n_recorded, cell.summary.n_expected);
            let (published, difference) = match &cell.paper {
                Some(paper) => (format!("{:.1}", paper.published), format!("{:+.1}", paper.difference)),
                None => ("-".to_owned(), "-".to_owned()),
            };
            let _ = writeln!(
                out,
                "{:<25} {:>7} {:>5} {:>11} {n:>9} {published:>5} {difference:>6} {}",
                printable_line(&cell.title),
                cell.profile.as_str(),
                percent(cell.summary.value),
                range(cell.interval),
                short_verdict(cell),
            );
        }
        for split in &report.not_run {
            let _ = writeln!(out, "{split:<25} not run");
        }
        for cell in &report.cells {
            out.push('\n');
            details(&mut out, cell);
        }
        fold_lines(&out)
    }
}

/// Reasons follow in the split's own section; the overview has room for one word or two.
fn short_verdict(cell: &Cell) -> String {
    let verdict = match &cell.paper {
        Some(paper) => paper.verdict.as_str(),
        None => "no paper value",
    };
    format!("{}{verdict}", if cell.complete() { "" } else { "INCOMPLETE " })
}

/// Text for a terminal: no line longer than [`COLUMNS`], and no control character or change of the
/// reading direction that came with a model's name, a label or a server's words.
pub fn fold_lines(text: &str) -> String {
    printable(text).lines().fold(String::new(), |folded, line| folded + &fold(line))
}

/// A line, broken at spaces where it is too long; what follows is indented further.
fn fold(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line.to_owned();
    while let Some((limit, _)) = rest.char_indices().nth(COLUMNS) {
        let indent = rest.len() - rest.trim_start().len();
        let space = match rest[limit..].starts_with(' ') {
            true => Some(limit),
            false => rest[..limit].rfind(' ').filter(|at| *at > indent),
        };
        let at = space.unwrap_or(limit);
        out.push_str(rest[..at].trim_end());
        out.push('\n');
        rest = format!("{:indent$}{}", "", rest[at..].trim_start(), indent = FOLDED_INDENT);
    }
    out + &rest + "\n"
}

/// Spaces before the second line of a folded one.
const FOLDED_INDENT: usize = 6;

fn details(out: &mut String, cell: &Cell) {
    let summary = &cell.summary;
    let (title, run) = (printable_line(&cell.title), printable_line(&cell.run));
    let _ = writeln!(out, "{title} ({}, {run})", cell.profile);
    let _ = writeln!(
        out,
        "  {} {} over N {}; {}",
        summary.metric,
        percent(summary.value),
        summary.n,
        losses(cell)
    );
    let _ = writeln!(out, "  {}", verdict(cell));
    if cell.torn_bytes > 0 {
        let _ = writeln!(out, "  the last record is torn and left out; resume the run to redo it");
    }
    if summary.n != summary.n_expected {
        let _ = writeln!(
            out,
            "  over all {} expected: {}",
            summary.n_expected,
            percent(summary.value_over_expected)
        );
    }
    if let Some((tag, value)) = &summary.macro_average {
        let _ = writeln!(out, "  mean over {tag}: {}", percent(*value));
    }
    for (threshold, value) in &summary.recall_at {
        let _ = writeln!(out, "  R@{threshold}: {}", percent(*value));
    }
    if let Some(open) = &summary.open_ended {
        let _ = writeln!(out, "  {}: {} over N {}", open.label, percent(open.value), open.n);
    }
    for breakdown in &summary.breakdowns {
        let _ = writeln!(out, "  {}", breakdown.title);
        for group in &breakdown.groups {
            let label = printable_line(&group.label);
            let _ = writeln!(out, "    {label:<32} {:>6}  N {}", percent(group.value), group.n);
        }
    }
    let tools = &summary.tools;
    let _ = writeln!(
        out,
        "  tools: {:.2} calls a sample, {} % of samples, {} failed crops, {} malformed, {} forced answers",
        tools.calls_per_sample,
        percent(tools.share_with_calls),
        tools.crop_failures,
        tools.malformed,
        tools.forced
    );
    let _ = writeln!(
        out,
        "  cost: {} prompt and {} completion tokens, {:.1} sample seconds",
        summary.prompt_tokens, summary.completion_tokens, summary.sample_seconds
    );
    for (flag, count) in &summary.flags {
        let _ = writeln!(out, "  flagged {}: {count}", printable_line(flag));
    }
}

impl Format for Json {
    fn render(&self, report: &Report) -> String {
        // Plain structs with string keys: serialising them cannot fail.
        serde_json::to_string_pretty(report).unwrap_or_default() + "\n"
    }
}

impl Format for Markdown {
    fn render(&self, report: &Report) -> String {
        let mut out = String::from(
            "| split | profile | score | 95 % | N | lost | paper | diff | verdict |\n\
             |---|---|--:|--:|--:|---|--:|--:|---|\n",
        );
        for cell in &report.cells {
            let (published, difference) = match &cell.paper {
                Some(paper) => (format!("{:.1}", paper.published), format!("{:+.1}", paper.difference)),
                None => (String::new(), String::new()),
            };
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {}/{} | {} | {published} | {difference} | {} |",
                escape(&cell.title),
                cell.profile,
                percent(cell.summary.value),
                range(cell.interval),
                cell.summary.n_recorded,
                cell.summary.n_expected,
                losses(cell),
                escape(&verdict(cell)),
            );
        }
        for split in &report.not_run {
            let _ = writeln!(out, "| {split} | | | | | | | | not run |");
        }
        out
    }
}
