//! A study as tables and for a terminal.

use super::{
    ALL, Answer, ArmScore, Finding, MORE_SERIES, PairedEffect, Predicted, Question, SERIES, Study, Tested,
    value_at,
};
use crate::decide::unseen;
use crate::export;
use crate::table::{ColumnFormat, Pick, Table, col, interval};
use crate::terminal::{Lines, Text, Tone, counted};

/// Effects, predictions, scores, effort and curves.
pub fn tables(study: &Study) -> Vec<Table> {
    vec![effects(rows(study)), predictions(study), arms(study), effort(study), curves(study), steps(study)]
}

/// A line for each condition of each prediction.
pub(crate) fn predictions(study: &Study) -> Table {
    let conditions = study.predicted.iter().zip(1..).flat_map(|(one, number)| {
        one.tested.iter().enumerate().map(move |(place, tested)| (number, one, tested, place == 0))
    });
    let rows: Vec<(usize, &Predicted, &Tested, bool)> = conditions.collect();
    // What is said of the claim stands beside its first condition.
    let once = |row: &(usize, &Predicted, &Tested, bool), text: Option<String>| text.filter(|_| row.3);
    Table::of("predictions", "Predictions", &rows)
        .count("claim", "claim", |row| row.0)
        .text("title", "what is claimed", |row| once(row, Some(row.1.prediction.title.clone())))
        .text("figure", "figure", |row| row.2.test.figure.clone())
        .text("a", "A", |row| row.2.test.a.clone())
        .text("b", "B", |row| row.2.test.b.clone())
        .count("seeds", "seeds", |row| row.2.seeds.len())
        .real("a_value", "A", |row| row.2.a)
        .real("b_value", "B", |row| row.2.b)
        .text("judged", "judged", |row| {
            Some(
                match (&row.2.test.a, row.2.test.ratio) {
                    (None, _) => "B",
                    (_, true) => "B / A",
                    (_, false) => "B - A",
                }
                .to_owned(),
            )
        })
        .real("value", "value", |row| row.2.value)
        .ends([("low", "low"), ("high", "high")], |row| row.2.interval)
        .ends([("family_low", "family, low"), ("family_high", "high")], |row| row.2.in_family)
        .text("holds_where", "holds where", |row| row.2.test.holds.to_string())
        .text("fails_where", "fails where", |row| row.2.test.fails.to_string())
        .text("finding", "finding", |row| once(row, Some(row.1.finding.as_str().to_owned())))
        .text("in_family", "in the family", |row| once(row, Some(row.1.in_family.as_str().to_owned())))
        .text("expected", "expected", |row| once(row, row.1.prediction.expected.clone()))
        .text("paper", "the paper", |row| once(row, row.1.prediction.paper.clone()))
        .table()
}

/// What a page and a terminal show of [`predictions`].
pub(crate) const PREDICTED: [Pick; 12] = [
    col("claim"),
    col("title"),
    col("figure"),
    col("a"),
    col("b"),
    col("a_value"),
    col("b_value"),
    interval("low", "high", "95 % by seed"),
    col("holds_where"),
    col("finding"),
    col("in_family"),
    col("expected"),
];

/// The curves of the summary, step by step.
fn steps(study: &Study) -> Table {
    let steps = |one: &super::Trained| {
        let longest = one.curves.series.values().max_by_key(|points| points.len()).into_iter().flatten();
        longest.map(|point| point.0).collect::<Vec<f64>>()
    };
    let rows: Vec<(&super::Trained, f64)> =
        study.trainings.iter().flat_map(|one| steps(one).into_iter().map(move |step| (one, step))).collect();
    let value =
        |(one, step): &(&super::Trained, f64), series: &str| value_at(one.curves.series.get(series)?, *step);
    let table = Table::of("steps", "Training, step by step", &rows)
        .text("training", "training", |(one, _)| one.name.clone())
        .count("seed", "seed", |(one, _)| one.seed as usize)
        .count("step", "step", |(_, step)| *step as usize);
    SERIES
        .iter()
        .chain(&MORE_SERIES)
        .fold(table, |table, series| table.real(series, series, |row| value(row, series)))
        .table()
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
    effect: &'a PairedEffect,
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
        .share_ends([("video_low_points", "by video, low"), ("video_high_points", "high")], |row| {
            row.effect.by_video
        })
        .share_ends([("seed_low_points", "by seed, low"), ("seed_high_points", "high")], |row| {
            row.effect.by_seed
        })
        .text("expected", "expected", |row| Some(row.expected()?.0))
        .text("finding", "finding", |row| Some(row.expected()?.1.as_str().to_owned()))
        .text("paper", "the paper", |row| once(row, &row.answer.question.paper))
        .for_views()
        .text("found", "expected", |row| {
            row.expected().map(|(expected, finding)| format!("{expected}: {}", finding.as_str()))
        })
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
        .shown_as(ColumnFormat::Whole)
        .real("seconds", "latency (s)", |(.., effort)| effort.seconds)
        .table()
}

/// A line for each arm, and below it one for each of its seeds.
fn arms(study: &Study) -> Table {
    let rows: Vec<(&ArmScore, Option<(u64, f64)>)> = study
        .scores
        .iter()
        .flat_map(|score| {
            let seeds = score.of_seeds.iter().map(move |seed| (score, Some(*seed)));
            std::iter::once((score, None)).chain(seeds)
        })
        .collect();
    Table::of("arms", "Scores over seeds", &rows)
        .text("arm", "arm", |(score, _)| score.arm.clone())
        .count("seed", "seed", |(_, seed)| seed.map(|(seed, _)| seed as usize))
        .count("seeds", "seeds", |(score, seed)| seed.is_none().then_some(score.seeds))
        .share("score_percent", "score, %", |(score, seed)| seed.map_or(score.mean, |(_, of_seed)| of_seed))
        .share_ends([("low_percent", "95 % by seed, low"), ("high_percent", "high")], |(score, seed)| {
            score.interval.filter(|_| seed.is_none())
        })
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
    for one in &study.predicted {
        text.line("");
        text.toned(&format!("{}: ", one.prediction.title), one.finding.as_str(), tone(one.finding), "");
        for tested in &one.tested {
            let Tested { test, a, b, value, interval, .. } = tested;
            let from = match (&test.a, a) {
                (Some(name), Some(a)) => format!(" against {a:.3} of {name}"),
                _ => String::new(),
            };
            let interval = interval.map_or_else(
                || match tested.seeds.len() {
                    1 => "no interval from one seed".to_owned(),
                    _ => "no interval: all seeds are equal".to_owned(),
                },
                |(low, high)| format!("{low:.3} to {high:.3}"),
            );
            text.line(format!("  {} {b:.3} of {}{from}", test.figure, test.b));
            text.line(format!("    {value:.3} ({interval}); holds {}, fails {}", test.holds, test.fails));
        }
    }
    let view = curves(study).view(&[
        col("training"),
        col("series"),
        col("first").titled("first"),
        col("mean"),
        col("peak"),
        col("end"),
    ]);
    let longest = study.trainings.iter().map(|one| one.name.len()).max().unwrap_or_default();
    let widths = [longest.max(18), 15, 5, 5, 5, 12];
    let lines = Lines::of(&view, &widths);
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
    if answer.seeds.len() > 1 {
        text.line(format!("  {}", unseen_failures(answer.seeds.len())));
    }
    if let (Some(points), Some(finding)) = (answer.question.at_least, answer.finding) {
        text.toned(&format!("  at least {points:+.0} points: "), finding.as_str(), tone(finding), "");
    }
    if let Some(paper) = &answer.question.paper {
        text.line(format!("  the paper: {paper}"));
    }
}

/// What an interval over this many seeds leaves out.
pub(crate) fn unseen_failures(seeds: usize) -> String {
    let share = 100.0 * unseen(seeds);
    format!("where {share:.0} % of all trainings fail, {seeds} seeds show none 5 times in 100")
}

fn tone(finding: Finding) -> Tone {
    match finding {
        Finding::Holds => Tone::Good,
        Finding::Fails => Tone::Bad,
        Finding::Open => Tone::Open,
    }
}
