//! What the page's template is filled with.

use std::collections::BTreeMap;

use minijinja::{Value, context};

use super::{PageError, charts};
use crate::Report;
use crate::cells::{Cell, Verdict};
use crate::compare::{Pair, compare};
use crate::gate::Entry;
use crate::runs::Run;
use crate::table::{Datum, Kind, Table};

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

/// The claims that were judged and those that no run at hand tells about.
pub fn claims(report: &Report) -> Result<Value, PageError> {
    let tables = report.tables()?;
    let Some(table) = tables.iter().find(|table| table.name == "claims") else { return Ok(Value::UNDEFINED) };
    let not_run = |row: &[String]| row.iter().any(|cell| cell == "not run");
    let (open, judged): (Vec<_>, Vec<_>) = table.shown().into_iter().partition(|row| not_run(row));
    let (n_judged, n_open) = (judged.len(), open.len());
    Ok(context! {
        judged => shown_rows(table, judged), open => shown_rows(table, open), n_judged, n_open,
    })
}

fn shown(table: &Table) -> Value {
    shown_rows(table, table.shown())
}

fn shown_rows(table: &Table, rows: Vec<Vec<String>>) -> Value {
    // A column that says nothing takes room from those that do.
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

/// Runs of one split and profile against the first of them, in the columns that fit a page.
pub fn comparisons(runs: &[&Run]) -> Option<Value> {
    let mut rows = Vec::new();
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
        rows.extend(ablation.splits.iter().map(|pair| compared(pair, second)));
    }
    let titles = [
        "split",
        "A",
        "B",
        "pairs",
        "A, %",
        "B, %",
        "B - A",
        "95 %",
        "p (Holm)",
        "detectable",
        "wrong to right",
        "with crops",
        "right to wrong",
        "with crops",
        "extra tokens",
        "extra s",
    ];
    (!rows.is_empty()).then(|| simple("Runs of one split against its first", &titles, 3, rows))
}

fn compared(pair: &Pair, second: &Run) -> Vec<String> {
    let cropped = |uid: &str| {
        let record = second.records.iter().find(|record| record.sample.uid == uid);
        record.is_some_and(|record| !record.transcript.tool_calls.is_empty())
    };
    let with_crops = |gained: bool| {
        pair.flipped.iter().filter(|flip| flip.gained == gained && cropped(&flip.uid)).count().to_string()
    };
    let points = |share: f64| format!("{:+.1}", 100.0 * share);
    vec![
        pair.title.clone(),
        pair.name_a.clone(),
        pair.name_b.clone(),
        pair.n.to_string(),
        format!("{:.1}", 100.0 * pair.a),
        format!("{:.1}", 100.0 * pair.b),
        points(pair.mean.difference),
        format!("{} to {}", points(pair.interval.0), points(pair.interval.1)),
        Kind::Probability.show(&Datum::Real(pair.p_holm)),
        format!("{:.1}", 100.0 * pair.detectable),
        pair.flips.gained.to_string(),
        with_crops(true),
        pair.flips.lost.to_string(),
        with_crops(false),
        format!("{:+.0}", pair.extra_tokens),
        format!("{:+.2}", pair.extra_seconds),
    ]
}

/// The scores in the columns that fit a page; the exported table has all.
pub fn scores(report: &Report) -> Value {
    let row = |cell: &Cell| {
        let summary = &cell.summary;
        let interval = cell.interval.map(|(low, high)| format!("{:.1} to {:.1}", 100.0 * low, 100.0 * high));
        let n = match summary.n == summary.n_recorded && summary.complete {
            true => summary.n.to_string(),
            false => format!("{} ({} of {})", summary.n, summary.n_recorded, summary.n_expected),
        };
        let paper = cell.paper.as_ref();
        vec![
            cell.title.clone(),
            format!("{} · {} · {}", cell.profile, cell.mode, cell.model),
            format!("{:.1}", 100.0 * summary.value),
            interval.unwrap_or_default(),
            n,
            paper.map_or_else(String::new, |paper| format!("{:.1}", paper.published)),
            paper.map_or_else(String::new, |paper| format!("{:+.1}", paper.difference)),
            crate::forms::losses(cell),
            crate::forms::verdict(cell),
        ]
    };
    let titles = ["split", "run", "score", "95 %", "N", "published", "difference", "losses", "verdict"];
    let mut rows: Vec<Vec<String>> = report.cells.iter().map(row).collect();
    rows.extend(report.not_run.iter().map(|split| {
        let mut row = vec![String::new(); titles.len()];
        row[0].clone_from(split);
        row[titles.len() - 1] = "not run".to_owned();
        row
    }));
    simple("Scores", &titles, 2, rows)
}

/// A table of texts; columns from `numbers` on are flush right, a last one called `verdict` is coloured.
fn simple(title: &str, titles: &[&str], numbers: usize, rows: Vec<Vec<String>>) -> Value {
    let class = |column: usize, text: &str| match titles[column] {
        "verdict" => verdict_class(text),
        "losses" => "",
        _ if column >= numbers => "number",
        _ => "",
    };
    let columns: Vec<Value> = titles
        .iter()
        .enumerate()
        .map(|(column, title)| context! { title => *title, number => class(column, "") == "number" })
        .collect();
    let cells = |row: Vec<String>| -> Vec<Value> {
        let cell = |(column, text): (usize, &String)| context! { text => visible(text), class => class(column, text) };
        row.iter().enumerate().map(cell).collect()
    };
    context! { title, columns, rows => rows.into_iter().map(cells).collect::<Vec<_>>() }
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
                title => visible(&format!("{} · {} · {}", manifest.task.title, manifest.plan.profile, manifest.plan.mode)),
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
