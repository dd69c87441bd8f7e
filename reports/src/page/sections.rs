//! Sections of the page for its template.

use std::collections::BTreeMap;

use minijinja::{Value, context};

use super::charts;
use super::methods;
use super::visible::visible;
use crate::Report;
use crate::cells::Cell;
use crate::compare::Pair;
use crate::runs::Run;
use crate::study::{Answer, Effect, Finding, Question};
use crate::table::{Datum, Kind, Table};
use crate::tables::NOT_COMPARABLE;
use crate::terminal::{percent, percent_interval, points, points_interval};

/// Conclusion of the runs in one sentence, and its kind for the colour.
pub(super) fn headline(report: &Report, pairs: &BTreeMap<usize, Pair>) -> Value {
    if let Some(found) = found(report) {
        return found;
    }
    if !pairs.is_empty() && report.cells.iter().all(|cell| cell.paper.is_none()) {
        return compared_in_short(pairs);
    }
    let count = |word: &str| {
        let verdicts = report.cells.iter().filter_map(|cell| Some(cell.paper.as_ref()?.verdict.as_str()));
        verdicts.filter(|verdict| *verdict == word).count()
    };
    let counts =
        ["reproduced", "worse", "better", "inconclusive", "not comparable"].map(|word| (count(word), word));
    let named = counts.iter().filter(|(count, _)| *count > 0);
    let mut parts: Vec<String> = named.map(|(count, what)| format!("{count} {what}")).collect();
    if !report.not_run.is_empty() {
        parts.push(format!("{} not run", report.not_run.len()));
    }
    parts.extend(report.left_out().map(|line| visible(&line)));
    let [(reproduced, _), (worse, _), (better, _), ..] = counts;
    let kind = match (worse, reproduced + better) {
        (1.., _) => "worse",
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

/// Runs of one split against its first, counted by verdict.
fn compared_in_short(pairs: &BTreeMap<usize, Pair>) -> Value {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for pair in pairs.values() {
        *counts.entry(pair.verdict.as_str()).or_default() += 1;
    }
    let kind = match (counts.get("worse"), counts.get("better")) {
        (Some(_), _) => "worse",
        (None, Some(_)) => "reproduced",
        _ => "apart",
    };
    let parts: Vec<String> = counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
    context! { kind, text => format!("Runs against the first of their split: {}", parts.join(", ")) }
}

/// The tables by name, ready for the template.
pub(super) fn tables(tables: &[Table]) -> BTreeMap<&'static str, Value> {
    tables.iter().map(|table| (table.name, shown(table))).collect()
}

/// The published table with what may stand in it, and apart from it what may not.
pub(super) fn published(tables: &[Table]) -> Value {
    let Some(table) = tables.iter().find(|table| table.name == "published") else { return Value::UNDEFINED };
    let is_apart = |row: &Vec<String>| row.iter().any(|cell| cell == NOT_COMPARABLE);
    let (apart, rows): (Vec<_>, Vec<_>) = table.shown().into_iter().partition(is_apart);
    let ours = rows.iter().any(|row| row.last().is_some_and(|cell| !cell.is_empty()));
    let n_apart = apart.len();
    context! { table => shown_rows(table, rows), apart => shown_rows(table, apart), ours, n_apart }
}

/// The claims that were judged, those whose runs do not measure them, and those without a run.
pub(super) fn claims(tables: &[Table]) -> Value {
    let Some(table) = tables.iter().find(|table| table.name == "claims") else { return Value::UNDEFINED };
    let not_run = |row: &[String]| row.iter().any(|cell| cell == "not run");
    let refused = |row: &[String]| row.iter().any(|cell| cell.starts_with("not comparable"));
    let (open, found): (Vec<_>, Vec<_>) = table.shown().into_iter().partition(|row| not_run(row));
    let (apart, judged): (Vec<_>, Vec<_>) = found.into_iter().partition(|row| refused(row));
    let (n_judged, n_apart, n_open) = (judged.len(), apart.len(), open.len());
    context! {
        judged => shown_rows(table, judged), apart => shown_rows(table, apart),
        open => shown_rows(table, open), n_judged, n_apart, n_open, n => n_judged + n_apart + n_open,
    }
}

/// Planned comparisons: answers, and split by split where there are several.
pub(super) fn study(report: &Report) -> Option<Value> {
    let study = report.study.as_ref().filter(|study| !study.answers.is_empty())?;
    let figures = |answer: &Answer, effect: &Effect| {
        [
            answer.seeds.len().to_string(),
            effect.pairs.to_string(),
            percent(effect.a),
            percent(effect.b),
            points(effect.difference),
            effect.by_video.map(points_interval).unwrap_or_default(),
            effect.by_seed.map(points_interval).unwrap_or_default(),
        ]
    };
    const FIGURES: [&str; 7] = ["seeds", "pairs", "A, %", "B, %", "B - A", "95 % by video", "95 % by seed"];
    let asked = |answer: &Answer| {
        let Question { title, a, b, .. } = &answer.question;
        [title.clone(), a.clone(), b.clone()]
    };
    let (mut answers, mut splits) = (Vec::new(), Vec::new());
    for answer in &study.answers {
        for (number, effect) in answer.effects.iter().enumerate() {
            let mut row = asked(answer).to_vec();
            if number == 0 {
                let expected = answer.question.at_least.zip(answer.finding);
                row.push(expected.map_or_else(String::new, |(points, finding)| {
                    format!("at least {points:+.0}: {}", finding.as_str())
                }));
                row.push(answer.question.paper.clone().unwrap_or_default());
                row.extend(figures(answer, effect));
                answers.push(row);
            } else {
                row.push(effect.split.clone().unwrap_or_default());
                row.extend(figures(answer, effect));
                splits.push(row);
            }
        }
    }
    let title = "Planned comparisons";
    let titles = [&["question", "A", "B", "expected", "the paper"][..], &FIGURES].concat();
    let answers = simple(title, &titles, 5, answers);
    let titles = [&["question", "A", "B", "split"][..], &FIGURES].concat();
    let splits = (!splits.is_empty()).then(|| simple("Split by split", &titles, 4, splits));
    Some(context! { title, answers, splits })
}

/// The first expectation of a study, in one sentence.
fn found(report: &Report) -> Option<Value> {
    let answers = &report.study.as_ref()?.answers;
    let (answer, finding) = answers.iter().find_map(|answer| Some((answer, answer.finding?)))?;
    let effect = answer.effects.first()?;
    let interval = effect.by_video.map_or_else(
        || "no interval from one video".to_owned(),
        |interval| format!("95 % by video {}", points_interval(interval)),
    );
    let text = format!(
        "{}: {} points on the {} ({interval}); expected at least {:+.0}: {}",
        answer.question.title,
        points(effect.difference),
        effect.split.as_deref().unwrap_or(crate::study::ALL),
        answer.question.at_least.unwrap_or_default(),
        finding.as_str()
    );
    let kind = match finding {
        Finding::Holds => "reproduced",
        Finding::Fails => "worse",
        Finding::Open => "apart",
    };
    Some(context! { kind, text => visible(&text) })
}

fn shown(table: &Table) -> Value {
    shown_rows(table, table.shown())
}

fn shown_rows(table: &Table, rows: Vec<Vec<String>>) -> Value {
    // A column that says nothing takes room from those that do.
    // The wide table of tool use leaves out what stands beside the scores.
    let beside_scores =
        |column: usize| table.name == "tools" && matches!(table.headings[column].name, "profile" | "mode");
    let used: Vec<usize> = (0..table.headings.len())
        .filter(|&column| rows.iter().any(|row| !row[column].is_empty()) && !beside_scores(column))
        .collect();
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
        Some("worse") => "verdict worse",
        Some("better") => "verdict better",
        _ => "verdict apart",
    }
}

/// One section per run.
pub(super) fn splits(report: &Report) -> Vec<Value> {
    report.cells.iter().enumerate().map(|(index, cell)| split(report, index, cell)).collect()
}

fn split(report: &Report, index: usize, cell: &Cell) -> Value {
    let summary = &cell.summary;
    let interval = |tag: &str, label: &str| {
        let key = (index as u32, tag.to_owned(), label.to_owned());
        report.details.breakdowns.get(&key).and_then(|found| found.interval)
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
    let percent = |share: f64| format!("{} %", percent(share));
    let mut facts = vec![(summary.headline().name, cell.score().map_or_else(|| "-".to_owned(), percent))];
    facts.extend(cell.interval.map(|interval| ("95 % interval".to_owned(), percent_interval(interval))));
    facts.push(("N".to_owned(), crate::show::n(cell)));
    facts.extend(
        summary.recall_at.iter().map(|(threshold, value)| (format!("R@{threshold}"), percent(*value))),
    );
    if let Some(open) = &summary.open_ended {
        facts.push((open.label.clone(), format!("{} over {}", percent(open.value), open.n)));
    }
    facts.push(("errors".to_owned(), crate::show::losses(cell)));
    facts.extend(summary.flags.iter().map(|(flag, count)| (format!("flagged {flag}"), count.to_string())));
    let facts: Vec<(String, String)> =
        facts.iter().map(|(name, value)| (visible(name), visible(value))).collect();
    context! {
        title => visible(&cell.title),
        under => visible(&format!("{} · {}", cell.profile, cell.run)),
        verdict => visible(&crate::show::judged(cell)),
        class => verdict_class(&crate::show::verdict(cell)),
        facts,
        breakdowns,
    }
}

/// Runs of one split and profile against the first of them, in the columns that fit a page.
pub(super) fn comparisons(runs: &[&Run], pairs: &BTreeMap<usize, Pair>) -> Option<Value> {
    let rows: Vec<Vec<String>> = pairs.iter().map(|(&index, pair)| compared(pair, runs[index])).collect();
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
        "B against A",
        "detectable",
        "wrong to right",
        "with crops",
        "right to wrong",
        "with crops",
        "extra tokens",
        "extra latency, s",
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
    vec![
        pair.title.clone(),
        pair.name_a.clone(),
        pair.name_b.clone(),
        pair.n.to_string(),
        percent(pair.a),
        percent(pair.b),
        points(pair.difference),
        pair.interval.map_or_else(String::new, points_interval),
        pair.p_holm.map_or_else(String::new, |p| Kind::Probability.show(&Datum::Real(p))),
        pair.verdict.to_string(),
        pair.detectable.map_or_else(String::new, percent),
        pair.flips.gained.to_string(),
        with_crops(true),
        pair.flips.lost.to_string(),
        with_crops(false),
        format!("{:+.0}", pair.extra_tokens),
        format!("{:+.2}", pair.extra_seconds),
    ]
}

/// The scores in the columns that fit a page; the exported table has all.
pub(super) fn scores(report: &Report) -> Value {
    let row = |cell: &Cell| {
        let paper = cell.paper.as_ref();
        vec![
            cell.title.clone(),
            format!("{} · {}", cell.profile, cell.run),
            cell.score().map_or_else(|| "-".to_owned(), percent),
            cell.interval.map_or_else(String::new, percent_interval),
            crate::show::n(cell),
            paper.map_or_else(String::new, |paper| Kind::Percent.number(paper.published)),
            paper.map_or_else(String::new, |paper| crate::show::difference(cell, paper)),
            crate::show::losses(cell),
            crate::show::judged(cell),
        ]
    };
    let titles = ["split", "run", "score", "95 %", "N", "published", "difference", "errors", "verdict"];
    let mut rows: Vec<Vec<String>> = report.cells.iter().map(row).collect();
    rows.extend(report.not_run.iter().map(|split| {
        let mut row = vec![String::new(); titles.len()];
        row[0].clone_from(split);
        row[titles.len() - 1] = "not run".to_owned();
        row
    }));
    simple("Scores", &titles, 2, rows)
}

/// Engine, number type and hardware behind the scores.
pub(super) fn setups(report: &Report, runs: &[&Run]) -> Value {
    let titles = ["runs", "engine", "dtype", "model on", "harness on"];
    simple("Measured with", &titles, titles.len(), methods::setups(report, runs))
}

/// A table of texts; columns from `numbers` on are flush right, a last one called `verdict` is coloured.
fn simple(title: &str, titles: &[&str], numbers: usize, rows: Vec<Vec<String>>) -> Value {
    let class = |column: usize, text: &str| match titles[column] {
        "verdict" | "B against A" => verdict_class(text),
        "losses" => "",
        _ if column >= numbers => "number",
        _ => "",
    };
    // A column that says nothing takes room from those that do.
    let used: Vec<usize> =
        (0..titles.len()).filter(|&column| rows.iter().any(|row| !row[column].is_empty())).collect();
    let columns: Vec<Value> = used
        .iter()
        .map(|&column| (column, titles[column]))
        .map(|(column, title)| context! { title, number => class(column, "") == "number" })
        .collect();
    let cells = |row: Vec<String>| -> Vec<Value> {
        let cell = |&column: &usize| {
            let text = &row[column];
            context! { text => visible(text), class => class(column, text) }
        };
        used.iter().map(cell).collect()
    };
    context! { title, columns, rows => rows.into_iter().map(cells).collect::<Vec<_>>() }
}
