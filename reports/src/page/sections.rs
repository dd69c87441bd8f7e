//! Sections of the page for its template.

use std::collections::BTreeMap;

use minijinja::{Value, context};

use super::methods;
use super::names::Names;
use super::visible::visible;
use crate::Report;
use crate::cells::Cell;
use crate::claims;
use crate::compare::{self, Flip, Pair};
use crate::contrast::Contrast;
use crate::decide::Verdict;
use crate::paper::{PaperError, PaperNumbers};
use crate::published;
use crate::runs::Run;
use crate::section::Section;
use crate::sections;
use crate::study::{self, Finding};
use crate::table::{Table, View, ViewColumn, col, interval};
use crate::tables;
use crate::terminal::{counted, percent};
use crate::tone::Tone;

/// Conclusions of the runs, each in a sentence, and the kinds for their colours: the first expectation of a study, the
/// scores beside the published ones, and what the runs answer among themselves.
pub(super) fn headlines(report: &Report) -> Vec<Value> {
    if let Some(found) = found(report) {
        return vec![found];
    }
    let contrasts = contrasts(report);
    let mut lines: Vec<Value> = contrasts.iter().take(SENTENCES).map(answer).collect();
    if contrasts.len() > SENTENCES {
        let more = counted(contrasts.len() - SENTENCES, "more comparison");
        lines.push(context! { kind => "apart", text => format!("{more} below") });
    }
    if report.is_beside_published() {
        lines.insert(0, beside_published(report));
    } else if lines.is_empty() {
        lines.extend(report.cells.iter().take(SENTENCES).map(score));
    }
    lines
}

/// Comparisons that the head of the page says in full.
const SENTENCES: usize = 3;

/// What the runs answer among themselves; a study has its own questions.
pub(super) fn contrasts(report: &Report) -> &[Contrast] {
    if report.study.is_some() { &[] } else { &report.contrasts }
}

fn answer(contrast: &Contrast) -> Value {
    let kind = match contrast.tone() {
        Tone::Better => "reproduced",
        Tone::Bad => "worse",
        _ => "apart",
    };
    context! { kind, text => visible(&contrast.sentence()) }
}

/// A score, where there is nothing to hold it against.
fn score(cell: &Cell) -> Value {
    let value = cell.score().map_or_else(|| "no score".to_owned(), percent);
    let interval = cell.interval.map(|(low, high)| format!(" (95 %: {} to {})", percent(low), percent(high)));
    let samples = counted(cell.summary.headline().n, "sample");
    let text = format!("{}: {value}{}, {samples}", cell.title, interval.unwrap_or_default());
    context! { kind => "apart", text => visible(&text) }
}

/// How many scores are as published.
fn beside_published(report: &Report) -> Value {
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
    context! { kind, text => format!("Published scores: {}", parts.join(", ")) }
}

/// Tables of a study that the page shows whole, by name.
pub(super) fn of_study(tables: &[Table]) -> BTreeMap<&'static str, Value> {
    let shown = tables.iter().filter(|table| matches!(table.name, "effort" | "arms" | "curves"));
    shown.map(|table| (table.name, html(&table.whole()))).collect()
}

/// The tables with a section of their own; what is explained stands next to the scores.
pub(super) fn own(report: &Report) -> Vec<Value> {
    let mut all = sections::ALL;
    all.sort_by_key(|section| section.facts.is_none());
    let shown = |section: Section| {
        let Section { link, under, facts, .. } = section;
        let table = section.on_page(report).map(|view| html(&view));
        context! { link, under, table, facts => facts.map(|facts| facts(report)) }
    };
    all.into_iter().map(shown).collect()
}

/// The published table with what may stand in it, and apart from it what may not.
pub(super) fn published(report: &Report) -> Result<Value, PaperError> {
    let lines = published::lines(report, &PaperNumbers::embedded()?);
    let (apart, lines): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.comparable == Some(false));
    let (ours, n_apart) = (lines.iter().any(|line| line.comparable.is_some()), apart.len());
    let shown = |lines: &[_]| html(&published::table(lines).whole());
    Ok(context! { table => shown(&lines), apart => shown(&apart), ours, n_apart })
}

/// The claims that were judged, those whose runs do not measure them, and those without a run.
pub(super) fn claims(report: &Report) -> Result<Value, PaperError> {
    let (open, found): (Vec<_>, Vec<_>) =
        report.claims.iter().partition(|claim| claim.verdict == Verdict::NotRun);
    let (apart, judged): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|claim| matches!(claim.verdict, Verdict::NotComparable(_)));
    let (n_judged, n_apart, n_open) = (judged.len(), apart.len(), open.len());
    let shown = |claims: &[_]| html(&tables::claims(claims).whole());
    Ok(context! {
        judged => shown(&judged), apart => shown(&apart), open => shown(&open),
        n_judged, n_apart, n_open, n => report.claims.len(), defects => claims::defects(&report.claims)?,
    })
}

/// Planned comparisons: answers, and split by split where there are several.
pub(super) fn study(report: &Report) -> Option<Value> {
    let study =
        report.study.as_ref().filter(|study| !study.answers.is_empty() || !study.predicted.is_empty())?;
    let title = "Planned comparisons";
    let [answers, splits] = study::by_split(study);
    let answers = html(&answers.view(&[&study::ASKED[..], &study::EXPECTED, &study::FIGURES].concat()));
    let splits = splits.view(&[&study::ASKED[..], &[col("split")], &study::FIGURES].concat());
    let splits = View { title: format!("{title}, split by split"), ..splits };
    let predicted =
        (!study.predicted.is_empty()).then(|| html(&study::predictions(study).view(&study::PREDICTED)));
    // Of one seed the comparisons have said it.
    let over_seeds = study.scores.iter().any(|score| score.seeds > 1);
    Some(
        context! { title, answers, predicted, over_seeds, splits => (splits.rows > 0).then(|| html(&splits)) },
    )
}

/// The first expectation of a study, in one sentence.
fn found(report: &Report) -> Option<Value> {
    let answers = &report.study.as_ref()?.answers;
    let (answer, finding) = answers.iter().find_map(|answer| Some((answer, answer.finding?)))?;
    let effect = answer.effects.first()?;
    let text = format!(
        "{}: {}; expected at least {:+.0}: {}",
        answer.question.title,
        effect.words(),
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

/// A view whose first column is said once, above the rows that have it.
pub(super) fn under_first(view: &View) -> Value {
    context! { spans => true, ..html(view) }
}

/// A view for the template. A column that says nothing takes room from those that do.
pub(super) fn html(view: &View) -> Value {
    let used: Vec<&ViewColumn> =
        view.columns.iter().filter(|column| column.texts.iter().any(|text| !text.is_empty())).collect();
    let columns: Vec<Value> = used
        .iter()
        .map(|column| context! { name => column.name, title => column.title, group => column.group, number => column.is_number })
        .collect();
    let groups: Vec<Value> = used
        .chunk_by(|a, b| a.group == b.group)
        .map(|of| context! { title => of[0].group, span => of.len() })
        .collect();
    let groups = if groups.len() > 1 { groups } else { Vec::new() };
    let cell = |column: &ViewColumn, row: usize| {
        let class = match &column.tones {
            Some(tones) => tones[row].class(),
            // Words behind a number are folded: one long cell would widen its column for all others.
            None if column.is_number && column.texts[row].len() > 24 => "number long",
            None if column.is_number => "number",
            None => "",
        };
        context! { text => visible(&column.texts[row]), class }
    };
    let row = |row| used.iter().map(|column| cell(column, row)).collect::<Vec<_>>();
    context! { name => view.name, title => visible(&view.title), columns, groups, rows => (0..view.rows).map(row).collect::<Vec<_>>() }
}

/// The comparisons among the runs, with the flips in which B made a tool call; `None` without any.
pub(super) fn compared(report: &Report, runs: &[&Run]) -> Option<Table> {
    let with_crops = |pair: &Pair| {
        let records = runs.get(pair.positions[1]).map_or(&[][..], |run| &run.records[..]);
        let calls: BTreeMap<&str, usize> = records
            .iter()
            .map(|record| (record.sample.uid.as_str(), record.transcript.tool_calls.len()))
            .collect();
        let cropped = |flip: &&Flip| calls.get(flip.uid.as_str()).is_some_and(|calls| *calls > 0);
        let count = |gained| pair.flipped.iter().filter(|flip| flip.gained == gained).filter(cropped).count();
        Some([count(true), count(false)])
    };
    let contrasts = contrasts(report);
    (!contrasts.is_empty()).then(|| compare::comparison(contrasts, with_crops))
}

/// The same in the columns that fit a page, and what each comparison says.
pub(super) fn comparisons(report: &Report, runs: &[&Run]) -> Option<Value> {
    let contrasts = contrasts(report);
    let table = compared(report, runs)?;
    // Of one comparison every row is of the same.
    let table = match contrasts {
        [_] => html(&table.view(&compare::PAGE[1..])),
        _ => under_first(&table.view(&compare::PAGE)),
    };
    let sides = |contrast: &Contrast| {
        let Contrast { question, is_ordered, a, b, also, apart, .. } = contrast;
        // Without an order the question is of the names.
        let named = a.as_ref().zip(b.as_ref()).filter(|_| *is_ordered || contrasts.len() == 1);
        let named = named.map(|(a, b)| format!("A {a}, B {b}"));
        let also = (!also.is_empty()).then(|| format!("also differs: {}", also.join("; ")));
        let apart = (!apart.is_empty()).then(|| format!("left out: {}", apart.join("; ")));
        let facts: Vec<String> = [named, also, apart].into_iter().flatten().collect();
        (!facts.is_empty()).then(|| (visible(question), visible(&facts.join(". "))))
    };
    Some(context! { table, sides => contrasts.iter().filter_map(sides).collect::<Vec<_>>() })
}

/// Runs with more than a tenth of their replies unread.
pub(super) fn unread(report: &Report) -> Vec<Value> {
    let of_cell = |cell: &Cell| {
        let unread = cell.summary.unread.as_ref()?;
        let examples: Vec<(String, String)> =
            unread.examples.iter().map(|(uid, text)| (visible(uid), visible(text))).collect();
        let run = visible(&format!("{}, {}", cell.title, cell.run));
        Some(context! { run, n => unread.n, of => unread.of, examples })
    };
    report.cells.iter().filter_map(of_cell).collect()
}

/// The scores in the columns that fit a page, a row for each run under its split; the exported table has all.
pub(super) fn scores(report: &Report, names: &Names) -> Value {
    let score = [
        col("split"),
        col("run"),
        col("score_percent").or("-"),
        interval("low_percent", "high_percent", "95 %"),
        col("n"),
        col("chance"),
    ];
    let rest = [col("judged"), col("errors"), col("also")];
    let paper = [col("published_percent"), col("difference").flush(true)];
    let beside = if report.is_of_paper() { &paper[..] } else { &[][..] };
    let mut view = tables::scores(report).view(&[&score, beside, &rest].concat());
    view.columns[1].texts = names.shown();
    report.not_run.iter().for_each(|split| view.push([("split", split), ("judged", "not run")]));
    under_first(&view)
}

/// Engine, number type and hardware behind the scores.
pub(super) fn setups(report: &Report, runs: &[&Run]) -> Table {
    Table::of("setups", "Measured with", &methods::setups(report, runs))
        .text("runs", "runs", |row| row[0].clone())
        .text("engine", "engine", |row| row[1].clone())
        .text("dtype", "dtype", |row| row[2].clone())
        .text("model_on", "model on", |row| row[3].clone())
        .text("harness_on", "harness on", |row| row[4].clone())
        .table()
}
