//! A study as tables and for a terminal.

use arrow_schema::ArrowError;

use super::{Answer, Curve, Effect, Finding, Question, Study};
use crate::export::escape;
use crate::table::{Kind, Table, count, real, text};
use crate::terminal::{Text, Tone, counted, percent, points, points_interval};

/// Name of the mean of all splits.
pub const ALL: &str = "mean of the splits";

/// Effects, effort and curves.
///
/// # Errors
/// Columns of unequal length, which would be a mistake in this file.
pub fn tables(study: &Study) -> Result<Vec<Table>, ArrowError> {
    Ok(vec![effects(study)?, effort(study)?, curves(study)?])
}

fn split(effect: &Effect) -> &str {
    effect.split.as_deref().unwrap_or(ALL)
}

fn effects(study: &Study) -> Result<Table, ArrowError> {
    let rows: Vec<(&Answer, &Effect)> = study
        .answers
        .iter()
        .flat_map(|answer| answer.effects.iter().map(move |effect| (answer, effect)))
        .collect();
    let words = |value: &dyn Fn(&Answer, &Effect) -> Option<String>| {
        rows.iter().map(|(answer, effect)| value(answer, effect)).collect::<Vec<_>>()
    };
    let each = |value: &dyn Fn(&Effect) -> Option<f64>| {
        rows.iter().map(|(_, effect)| value(effect).map(|share| 100.0 * share)).collect::<Vec<_>>()
    };
    // What is asked and found is said once, beside the mean.
    let once = |value: fn(&Answer) -> Option<String>| {
        words(&|answer, effect| (answer.effects.first() == Some(effect)).then(|| value(answer)).flatten())
    };
    Table::new(
        "study",
        "Planned comparisons",
        vec![
            text("question", "question", words(&|answer, _| Some(answer.question.title.clone()))),
            text("split", "split", words(&|_, effect| Some(split(effect).to_owned()))),
            text("a", "A", words(&|answer, _| Some(answer.question.a.clone()))),
            text("b", "B", words(&|answer, _| Some(answer.question.b.clone()))),
            count("seeds", "seeds", rows.iter().map(|(answer, _)| Some(answer.seeds.len() as u64)).collect()),
            count("pairs", "pairs", rows.iter().map(|(_, effect)| Some(effect.pairs as u64)).collect()),
            real("a_percent", "A, %", Kind::Percent, each(&|effect| Some(effect.a))),
            real("b_percent", "B, %", Kind::Percent, each(&|effect| Some(effect.b))),
            real("difference_points", "B - A", Kind::Points, each(&|effect| Some(effect.difference))),
            real(
                "video_low_points",
                "by video, low",
                Kind::Points,
                each(&|effect| effect.by_video.map(|by| by.0)),
            ),
            real("video_high_points", "high", Kind::Points, each(&|effect| effect.by_video.map(|by| by.1))),
            real(
                "seed_low_points",
                "by seed, low",
                Kind::Points,
                each(&|effect| effect.by_seed.map(|by| by.0)),
            ),
            real("seed_high_points", "high", Kind::Points, each(&|effect| effect.by_seed.map(|by| by.1))),
            text(
                "expected",
                "expected",
                once(|answer| answer.question.at_least.map(|points| format!("at least {points:+.0}"))),
            ),
            text("finding", "finding", once(|answer| answer.finding.map(|found| found.as_str().to_owned()))),
            text("paper", "the paper", once(|answer| answer.question.paper.clone())),
        ],
    )
}

fn effort(study: &Study) -> Result<Table, ArrowError> {
    let rows: Vec<(&Answer, usize)> =
        study.answers.iter().flat_map(|answer| [(answer, 0), (answer, 1)]).collect();
    let each = |value: fn(&super::Effort) -> f64| {
        rows.iter().map(|(answer, arm)| Some(value(&answer.effort[*arm]))).collect::<Vec<_>>()
    };
    let arm = |answer: &Answer, arm: usize| match arm {
        0 => answer.question.a.clone(),
        _ => answer.question.b.clone(),
    };
    Table::new(
        "effort",
        "Cost per answer",
        vec![
            text("question", "question", rows.iter().map(|row| Some(row.0.question.title.clone())).collect()),
            text("arm", "arm", rows.iter().map(|(answer, number)| Some(arm(answer, *number))).collect()),
            real("turns", "turns", Kind::Number, each(|effort| effort.turns)),
            real("calls", "calls", Kind::Number, each(|effort| effort.calls)),
            real("tokens", "tokens", Kind::Whole, each(|effort| effort.tokens)),
            real("seconds", "latency, s", Kind::Number, each(|effort| effort.seconds)),
        ],
    )
}

fn curves(study: &Study) -> Result<Table, ArrowError> {
    let words = |value: &dyn Fn(&Curve) -> Option<String>| study.curves.iter().map(value).collect::<Vec<_>>();
    let each = |value: &dyn Fn(&Curve) -> Option<f64>| study.curves.iter().map(value).collect::<Vec<_>>();
    Table::new(
        "curves",
        "Training summary",
        vec![
            text("training", "training", words(&|curve| Some(curve.training.clone()))),
            text("title", "what it is", words(&|curve| Some(curve.title.clone()))),
            text("series", "curve", words(&|curve| Some(curve.series.clone()))),
            count("seeds", "seeds", study.curves.iter().map(|curve| Some(curve.seeds as u64)).collect()),
            real("first", "first step", Kind::Number, each(&|curve| Some(curve.first))),
            real("mean", "mean", Kind::Number, each(&|curve| Some(curve.mean))),
            real("mean_low", "low", Kind::Number, each(&|curve| curve.interval.map(|by| by.0))),
            real("mean_high", "high", Kind::Number, each(&|curve| curve.interval.map(|by| by.1))),
            real("peak", "peak", Kind::Number, each(&|curve| Some(curve.peak))),
            real("end", "last quarter", Kind::Number, each(&|curve| Some(curve.end))),
            text("paper", "the paper", words(&|curve| curve.paper.clone())),
        ],
    )
}

/// Questions, effects and findings as Markdown.
pub(crate) fn markdown(study: &Study) -> String {
    if study.answers.is_empty() {
        return String::new();
    }
    let mut out = "\n## Planned comparisons\n\n\
        | question | A | B | split | pairs | A, % | B, % | B - A | 95 % by video | 95 % by seed | expected | finding |\n\
        |---|---|---|---|--:|--:|--:|--:|--:|--:|---|---|\n"
        .to_owned();
    for answer in &study.answers {
        let Question { title, a, b, at_least, .. } = &answer.question;
        for (number, effect) in answer.effects.iter().enumerate() {
            let expected = at_least.filter(|_| number == 0);
            let finding = answer.finding.filter(|_| number == 0);
            let cells = [
                escape(title),
                escape(a),
                escape(b),
                escape(split(effect)),
                effect.pairs.to_string(),
                percent(effect.a),
                percent(effect.b),
                points(effect.difference),
                effect.by_video.map_or_else(String::new, points_interval),
                effect.by_seed.map_or_else(String::new, points_interval),
                expected.map_or_else(String::new, |points| format!("at least {points:+.0}")),
                finding.map_or_else(String::new, |finding| finding.as_str().to_owned()),
            ];
            out += &format!("| {} |\n", cells.join(" | "));
        }
    }
    out
}

/// The study for a terminal.
pub fn terminal(study: &Study) -> Text {
    let mut text = Text::default();
    study.answers.iter().for_each(|answer| section(&mut text, answer));
    if !study.curves.is_empty() {
        text.line("");
        text.line(format!(
            "{:<18} {:<16} {:>6} {:>6} {:>6} {:>13}",
            "training", "curve", "first", "mean", "peak", "last quarter"
        ));
    }
    for curve in &study.curves {
        text.line(format!(
            "{:<18} {:<16} {:>6.2} {:>6.2} {:>6.2} {:>13.2}",
            curve.training, curve.series, curve.first, curve.mean, curve.peak, curve.end
        ));
    }
    text
}

fn section(text: &mut Text, answer: &Answer) {
    let Question { title, a, b, .. } = &answer.question;
    text.line("");
    text.line(format!("{title}: {b} against {a}, {}", counted(answer.seeds.len(), "seed")));
    text.line(format!(
        "  {:<18} {:>5} {:>6} {:>6} {:>6}  {:<15} by seed",
        "split", "pairs", "A, %", "B, %", "B - A", "95 % by video"
    ));
    for effect in &answer.effects {
        text.line(format!(
            "  {:<18} {:>5} {:>6} {:>6} {:>6}  {:<15} {}",
            split(effect),
            effect.pairs,
            percent(effect.a),
            percent(effect.b),
            points(effect.difference),
            effect.by_video.map_or_else(|| "-".to_owned(), points_interval),
            effect.by_seed.map_or_else(|| "-".to_owned(), points_interval)
        ));
    }
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
