//! What the page's template is filled with.

use std::collections::BTreeMap;

use minijinja::{Value, context};

use super::{PageError, charts};
use crate::cells::{Cell, Verdict};
use crate::compare::compare;
use crate::gate::Entry;
use crate::runs::Run;
use crate::table::{Kind, Table};
use crate::{Report, compare};

/// Text in which nothing is invisible: characters that turn the reading direction or control a
/// terminal are shown by their code.
pub fn visible(text: &str) -> String {
    let hidden = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    if !text.chars().any(hidden) {
        return text.to_owned();
    }
    text.chars().fold(String::new(), |mut out, c| {
        if hidden(c) {
            out.push_str(&format!("⟨U+{:04X}⟩", c as u32));
        } else {
            out.push(c);
        }
        out
    })
}

/// What the runs say, in one sentence, and its kind for the colour.
pub fn headline(report: &Report) -> Value {
    let count = |wanted: fn(&Verdict) -> bool| {
        report
            .cells
            .iter()
            .filter(|cell| cell.paper.as_ref().is_some_and(|paper| wanted(&paper.verdict)))
            .count()
    };
    let reproduced = count(|verdict| *verdict == Verdict::Reproduced);
    let below = count(|verdict| *verdict == Verdict::Below);
    let above = count(|verdict| *verdict == Verdict::Above);
    let apart = count(|verdict| matches!(verdict, Verdict::NotComparable(_)));
    let mut parts = Vec::new();
    for (count, what) in
        [(reproduced, "reproduced"), (below, "below"), (above, "above"), (apart, "not comparable")]
    {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    if !report.not_run.is_empty() {
        parts.push(format!("{} not run", report.not_run.len()));
    }
    let kind = match (below, reproduced + above) {
        (1.., _) => "below",
        (0, 1..) => "reproduced",
        _ => "apart",
    };
    let text = if report.cells.iter().any(|cell| cell.paper.is_some()) {
        format!("Published scores: {}", parts.join(", "))
    } else {
        "No published number is named for these runs".to_owned()
    };
    context! { kind, text }
}

/// The tables by name, ready for the template.
pub fn tables(report: &Report) -> Result<BTreeMap<&'static str, Value>, PageError> {
    let tables = report.tables()?;
    Ok(tables.iter().map(|table| (table.name, shown(table))).collect())
}

fn shown(table: &Table) -> Value {
    // A column that says nothing takes room from those that do.
    let rows = table.shown();
    let used: Vec<usize> =
        (0..table.headings.len()).filter(|&column| rows.iter().any(|row| !row[column].is_empty())).collect();
    let columns: Vec<Value> = used
        .iter()
        .map(|&column| {
            let heading = &table.headings[column];
            context! { title => heading.title, number => heading.kind.is_number() }
        })
        .collect();
    let cell = |row: &[String], column: usize| {
        let class = match table.headings[column].name {
            "verdict" => verdict_class(&row[column]),
            _ if table.headings[column].kind == Kind::Text => "",
            _ => "number",
        };
        context! { text => visible(&row[column]), class }
    };
    let rows: Vec<Vec<Value>> =
        rows.iter().map(|row| used.iter().map(|&column| cell(row, column)).collect()).collect();
    context! { title => visible(&table.title), columns, rows }
}

/// The class that colours a verdict; its words stay the information.
fn verdict_class(verdict: &str) -> &'static str {
    let verdict = verdict.trim_start_matches("INCOMPLETE ");
    match verdict.split([':', ' ']).next() {
        Some("reproduced") => "verdict reproduced",
        Some("below") => "verdict below",
        Some("above") => "verdict above",
        _ => "verdict apart",
    }
}

/// One section per run.
pub fn splits(report: &Report) -> Vec<Value> {
    report.cells.iter().enumerate().map(|(index, cell)| split(report, index, cell)).collect()
}

fn split(report: &Report, index: usize, cell: &Cell) -> Value {
    let summary = &cell.summary;
    let interval = |tag: &str, label: &str| {
        let key = (index as u32, tag.to_owned(), label.to_owned());
        report.details.breakdowns.get(&key).map(|found| found.interval)
    };
    let breakdowns: Vec<Value> = summary
        .breakdowns
        .iter()
        .filter(|breakdown| !breakdown.groups.is_empty())
        .map(|breakdown| {
            let chart = charts::breakdown(&cell.title, &summary.metric, breakdown, |label| {
                interval(&breakdown.tag, label)
            });
            context! { title => visible(&breakdown.title), svg => chart }
        })
        .collect();
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let mut facts = vec![(summary.metric.clone(), percent(summary.value))];
    if let Some((low, high)) = cell.interval {
        facts.push(("95 % interval".to_owned(), format!("{:.1} to {:.1}", 100.0 * low, 100.0 * high)));
    }
    facts.push((
        "N".to_owned(),
        format!("{} ({} of {} recorded)", summary.n, summary.n_recorded, summary.n_expected),
    ));
    if let Some((tag, value)) = &summary.macro_average {
        facts.push((format!("mean over {tag}"), percent(*value)));
    }
    facts.extend(
        summary.recall_at.iter().map(|(threshold, value)| (format!("R@{threshold}"), percent(*value))),
    );
    if let Some(open) = &summary.open_ended {
        facts.push((open.label.clone(), format!("{} over {}", percent(open.value), open.n)));
    }
    facts.push(("losses".to_owned(), crate::forms::losses(cell)));
    facts.extend(summary.flags.iter().map(|(flag, count)| (format!("flagged {flag}"), count.to_string())));
    let facts: Vec<(String, String)> =
        facts.iter().map(|(name, value)| (visible(name), visible(value))).collect();
    context! {
        title => visible(&cell.title),
        under => visible(&format!("{} · {} · {}", cell.profile, cell.mode, cell.model)),
        verdict => visible(&crate::forms::verdict(cell)),
        class => verdict_class(&crate::forms::verdict(cell)),
        facts,
        breakdowns,
    }
}

/// Runs of one split and profile against the first of them.
pub fn comparisons(runs: &[&Run]) -> Result<Vec<Value>, PageError> {
    let mut shown_tables = Vec::new();
    for (index, second) in runs.iter().enumerate() {
        let same = |run: &&&Run| {
            run.manifest.task.name == second.manifest.task.name
                && run.manifest.plan.profile == second.manifest.plan.profile
        };
        let Some(first) = runs[..index].iter().find(same) else { continue };
        // Two runs without a sample in common have nothing to compare; the rest of the page stands.
        let Ok(ablation) = compare(std::slice::from_ref(first), std::slice::from_ref(second)) else {
            continue;
        };
        let tables = compare::tables(&ablation).map_err(crate::ReportError::from)?;
        shown_tables.extend(tables.first().map(shown));
    }
    Ok(shown_tables)
}

/// Where each run comes from and the command that repeats it.
pub fn provenance(runs: &[&Run]) -> Vec<Value> {
    runs.iter()
        .map(|run| {
            let manifest = &run.manifest;
            let plan = serde_json::to_string(&manifest.plan).unwrap_or_default();
            let mut facts = vec![
                ("binary".to_owned(), manifest.binary.clone()),
                ("model".to_owned(), format!("{} by {}", manifest.backend.model, manifest.backend.name)),
                ("profile and mode".to_owned(), format!("{}, {}", manifest.plan.profile, manifest.plan.mode)),
                ("plan".to_owned(), plan),
                ("protocol".to_owned(), format!("{} {}", manifest.protocol, manifest.protocol_hash)),
                (
                    "protocol source".to_owned(),
                    format!("{} {}", manifest.protocol_source.repository, manifest.protocol_source.commit),
                ),
                ("seed".to_owned(), manifest.plan.seed.map_or("none".to_owned(), |seed| seed.to_string())),
                (
                    "machine".to_owned(),
                    format!(
                        "{}, {} cores, FFmpeg {}",
                        manifest.host.platform, manifest.host.cores, manifest.host.ffmpeg
                    ),
                ),
            ];
            facts.extend(manifest.data.iter().map(|(name, hash)| (format!("data {name}"), hash.clone())));
            facts.extend(
                manifest.data_revision.iter().map(|revision| ("data revision".to_owned(), revision.clone())),
            );
            facts.extend(manifest.backend.details.iter().map(|(name, value)| (name.clone(), value.clone())));
            let facts: Vec<(String, String)> =
                facts.iter().map(|(name, value)| (visible(name), visible(value))).collect();
            let command: Vec<String> = manifest.command.iter().map(|word| quote(word)).collect();
            context! {
                title => visible(&manifest.task.title),
                facts,
                command => visible(&command.join(" ")),
            }
        })
        .collect()
}

/// A word as a POSIX shell takes it.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The checks of a history, newest first.
pub fn history(entries: &[Entry]) -> Vec<Value> {
    let score = |entry: &Entry| {
        let scores = entry
            .scores
            .iter()
            .map(|score| format!("{} {:.1} ({:+.1})", score.task, score.score, score.difference));
        scores.collect::<Vec<_>>().join(", ")
    };
    entries
        .iter()
        .enumerate()
        .rev()
        .map(|(index, entry)| {
            context! {
                number => index + 1,
                commit => visible(&entry.commit),
                status => entry.status.as_str(),
                scores => visible(&score(entry)),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stays_invisible() {
        assert_eq!(visible("a\u{202e}b\u{0}\n"), "a⟨U+202E⟩b⟨U+0000⟩\n");
        assert_eq!(visible("héé 日本"), "héé 日本");
    }

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(quote("--out=a/b"), "--out=a/b");
        assert_eq!(quote("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(quote(""), "''");
    }
}
