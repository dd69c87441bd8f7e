//! A study as tables and for a terminal.

use super::{Answer, Effect, Finding, Question, Study};
use crate::export;
use crate::table::{Kind, Pick, Table, col, interval};
use crate::terminal::{Lines, Text, Tone, counted};

/// Name of the mean of all splits.
pub const ALL: &str = "mean of the splits";

/// Effects, effort and curves.
pub fn tables(study: &Study) -> Vec<Table> {
    vec![effects(rows(study)), effort(study), curves(study)]
}

fn rows(study: &Study) -> Vec<Row<'_>> {
    let answers = study.answers.iter();
    let effects = answers.flat_map(|answer| (0..).zip(&answer.effects).map(move |effect| (answer, effect)));
    effects.map(|(answer, (number, effect))| Row { answer, effect, is_first: number == 0 }).collect()
}

/// Effects on the mean of all splits, or on the only one; and those split by split where there are several.
pub(crate) fn by_split(study: &Study) -> [Table; 2] {
    let (answers, splits) = rows(study).into_iter().partition(|row| row.is_first);
    [effects(answers), effects(splits)]
}

/// An effect of an answer.
struct Row<'a> {
    answer: &'a Answer,
    effect: &'a Effect,
    /// What is asked and found is said once, beside the mean.
    is_first: bool,
}

impl Row<'_> {
    /// The finding beside its expectation.
    fn expected(&self) -> Option<(String, Finding)> {
        let (points, finding) = self.answer.question.at_least.zip(self.answer.finding)?;
        self.is_first.then(|| (format!("at least {points:+.0}"), finding))
    }
}

fn effects(rows: Vec<Row<'_>>) -> Table {
    let once = |row: &Row<'_>, text: &Option<String>| text.clone().filter(|_| row.is_first);
    Table::of("study", "Planned comparisons", &rows)
        .text("question", "question", |row| row.answer.question.title.clone())
        .text("split", "split", |row| row.effect.split.as_deref().unwrap_or(ALL).to_owned())
        .text("a", "A", |row| row.answer.question.a.clone())
        .text("b", "B", |row| row.answer.question.b.clone())
        .count("seeds", "seeds", |row| row.answer.seeds.len())
        .count("pairs", "pairs", |row| row.effect.pairs)
        .share("a_percent", "A, %", |row| row.effect.a)
        .share("b_percent", "B, %", |row| row.effect.b)
        .share("difference_points", "B - A", |row| row.effect.difference)
        .share("video_low_points", "by video, low", |row| Some(row.effect.by_video?.0))
        .share("video_high_points", "high", |row| Some(row.effect.by_video?.1))
        .share("seed_low_points", "by seed, low", |row| Some(row.effect.by_seed?.0))
        .share("seed_high_points", "high", |row| Some(row.effect.by_seed?.1))
        .text("expected", "expected", |row| Some(row.expected()?.0))
        .text("finding", "finding", |row| Some(row.expected()?.1.as_str().to_owned()))
        .text("paper", "the paper", |row| once(row, &row.answer.question.paper))
        .text("found", "expected", |row| {
            row.expected().map(|(expected, finding)| format!("{expected}: {}", finding.as_str()))
        })
        .beside()
        .table()
}

/// The question on a page.
pub(crate) const ASKED: [Pick; 3] = [col("question"), col("a"), col("b")];
/// What was expected, on a page.
pub(crate) const EXPECTED: [Pick; 2] = [col("found"), col("paper")];
/// The numbers on a page.
pub(crate) const FIGURES: [Pick; 7] = [
    col("seeds"),
    col("pairs"),
    col("a_percent"),
    col("b_percent"),
    col("difference_points"),
    BY_VIDEO,
    BY_SEED,
];
const BY_VIDEO: Pick = interval("video_low_points", "video_high_points", "95 % by video");
const BY_SEED: Pick = interval("seed_low_points", "seed_high_points", "95 % by seed");

fn effort(study: &Study) -> Table {
    let both = study.answers.iter().flat_map(|Answer { question, effort: [a, b], .. }| {
        [(question, &question.a, a), (question, &question.b, b)]
    });
    Table::of("effort", "Cost per answer", &both.collect::<Vec<_>>())
        .text("question", "question", |(question, ..)| question.title.clone())
        .text("arm", "arm", |(_, arm, _)| (*arm).clone())
        .real("turns", "turns", |(.., effort)| effort.turns)
        .real("calls", "calls", |(.., effort)| effort.calls)
        .real("tokens", "tokens", |(.., effort)| effort.tokens)
        .shown_as(Kind::Whole)
        .real("seconds", "latency (s)", |(.., effort)| effort.seconds)
        .table()
}

fn curves(study: &Study) -> Table {
    Table::of("curves", "Training summary", &study.curves)
        .text("training", "training", |curve| curve.training.clone())
        .text("title", "what it is", |curve| curve.title.clone())
        .text("series", "curve", |curve| curve.series.clone())
        .count("seeds", "seeds", |curve| curve.seeds)
        .real("first", "first step", |curve| curve.first)
        .real("mean", "mean", |curve| curve.mean)
        .ends([("mean_low", "low"), ("mean_high", "high")], |curve| curve.interval)
        .real("peak", "peak", |curve| curve.peak)
        .real("end", "last quarter", |curve| curve.end)
        .text("paper", "the paper", |curve| curve.paper.clone())
        .table()
}

/// Questions, effects and findings as Markdown.
pub(crate) fn markdown(study: &Study) -> String {
    if study.answers.is_empty() {
        return String::new();
    }
    let [_seeds, figures @ ..] = FIGURES;
    let picks = [&ASKED[..], &[col("split")], &figures, &[col("expected"), col("finding")]].concat();
    format!("\n## Planned comparisons\n\n{}", export::markdown(&effects(rows(study)).view(&picks)))
}

/// The study for a terminal.
pub fn terminal(study: &Study) -> Text {
    let mut text = Text::default();
    for answer in &study.answers {
        section(&mut text, answer);
    }
    let view = curves(study).view(&[
        col("training"),
        col("series"),
        col("first").titled("first"),
        col("mean"),
        col("peak"),
        col("end"),
    ]);
    let lines = Lines::of(&view, &[18, 16, 6, 6, 6, 13]);
    if view.rows > 0 {
        text.line("");
        text.line(lines.header());
    }
    (0..view.rows).for_each(|row| lines.row(&mut text, row));
    text
}

fn section(text: &mut Text, answer: &Answer) {
    let Question { title, a, b, .. } = &answer.question;
    text.line("");
    text.line(format!("{title}: {b} against {a}, {}", counted(answer.seeds.len(), "seed")));
    let rows = answer.effects.iter().map(|effect| Row { answer, effect, is_first: false }).collect();
    let view = effects(rows).view(&[
        col("split"),
        col("pairs"),
        col("a_percent"),
        col("b_percent"),
        col("difference_points"),
        BY_VIDEO.or("-").flush(false),
        BY_SEED.or("-").flush(false).titled("by seed"),
    ]);
    let lines = Lines::of(&view, &[18, 5, 6, 6, 6, 15]).indented("  ");
    text.line(lines.header());
    (0..view.rows).for_each(|row| lines.row(text, row));
    let [a, b] = &answer.effort;
    text.line(format!(
        "  an answer took {:.1} turns, {:.1} calls, {:.0} tokens in A; {:.1}, {:.1}, {:.0} in B",
        a.turns, a.calls, a.tokens, b.turns, b.calls, b.tokens
    ));
    if let (Some(points), Some(finding)) = (answer.question.at_least, answer.finding) {
        let tone = match finding {
            Finding::Holds => Tone::Good,
            Finding::Fails => Tone::Bad,
            Finding::Open => Tone::Open,
        };
        text.toned(&format!("  at least {points:+.0} points: "), finding.as_str(), tone, "");
    }
    if let Some(paper) = &answer.question.paper {
        text.line(format!("  the paper: {paper}"));
    }
}
