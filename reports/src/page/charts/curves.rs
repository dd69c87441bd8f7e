//! Curves over training steps and over checks.

use std::collections::BTreeMap;

use minijinja::{Value, context};

use crate::claims::Judged;
use crate::decide::Verdict;
use crate::gate::Entry;
use crate::page::svg::{Anchor, Scale, Svg, label, measured};
use crate::page::visible::visible;
use crate::study::Line;
use crate::{Report, Run};

const LEFT: f64 = 60.0;
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 200.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 160.0;

/// Strokes that the style has for lines of one chart.
const STYLES: usize = 7;

/// One chart per curve with a line for each training: of a study the means over its seeds, else each
/// training that a run shows, once.
pub(crate) fn training(report: &Report, runs: &[&Run]) -> Vec<Value> {
    let lines = match report.study.as_ref().filter(|study| !study.lines.is_empty()) {
        Some(study) => study.lines.clone(),
        None => lines_of(runs),
    };
    let chart = |(name, lines): (&String, &Vec<Line>)| {
        // A published value is drawn only across trainings that it is about.
        let about = |claim: &&Judged| {
            claim.series.as_ref() == Some(name) && !matches!(claim.verdict, Verdict::NotComparable(_))
        };
        let published: Vec<(f64, &str)> =
            report.claims.iter().filter(about).map(|claim| (claim.published, claim.title.as_str())).collect();
        context! { title => visible(name), svg => curve(name, "step", name, lines, &[], &published) }
    };
    lines.iter().map(chart).collect()
}

fn lines_of(runs: &[&Run]) -> BTreeMap<String, Vec<Line>> {
    let mut lines: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    for (index, run) in runs.iter().enumerate() {
        // Several runs of one checkpoint show the same training.
        if runs[..index].iter().any(|other| other.training == run.training) {
            continue;
        }
        for (name, points) in &run.training.series {
            let label = run.manifest.backend.model.clone();
            lines.entry(name.clone()).or_default().push(Line { label, points: points.clone() });
        }
    }
    lines
}

/// One chart per split over all checks.
pub(crate) fn history(entries: &[Entry]) -> Vec<Value> {
    let mut tasks: Vec<&str> = Vec::new();
    for score in entries.iter().flat_map(|entry| &entry.scores) {
        if !tasks.contains(&score.task.as_str()) {
            tasks.push(&score.task);
        }
    }
    let chart = |task: &str| {
        let (mut points, mut intervals) = (Vec::new(), Vec::new());
        for (index, entry) in entries.iter().enumerate() {
            for score in entry.scores.iter().filter(|score| score.task == task) {
                let (x, base) = (index as f64 + 1.0, score.score - score.difference);
                points.push((x, score.score));
                intervals.push((x, base + score.interval.0, base + score.interval.1));
            }
        }
        let lines = [Line { label: task.to_owned(), points }];
        context! { title => task, svg => curve(task, "check", "score, %", &lines, &intervals, &[]) }
    };
    tasks.into_iter().map(chart).collect()
}

fn curve(
    title: &str,
    x_axis: &str,
    y_axis: &str,
    lines: &[Line],
    intervals: &[(f64, f64, f64)],
    published: &[(f64, &str)],
) -> String {
    let mut svg = Svg::new(WIDTH, HEIGHT, title, "Values over time; lines across are published values.");
    let ends = |values: Vec<f64>| {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if high > low { (low, high) } else { (low - 0.5, low + 0.5) }
    };
    let points = || lines.iter().flat_map(|line| &line.points);
    let mut heights: Vec<f64> = points().map(|point| point.1).collect();
    heights.extend(intervals.iter().flat_map(|(_, low, high)| [*low, *high]));
    heights.extend(published.iter().map(|line| line.0));
    let x = Scale { from: ends(points().map(|point| point.0).collect()), to: (LEFT, WIDTH - 20.0) };
    let y = Scale { from: ends(heights), to: (BOTTOM, TOP) };
    for tick in y.ticks(5.0) {
        svg.line("grid", (LEFT, y.at(tick)), (WIDTH - 20.0, y.at(tick)));
        svg.text("tick", (LEFT - 6.0, y.at(tick) + 4.0), Anchor::End, &label(tick));
    }
    // Steps and checks are counted: there is nothing between two of them.
    for tick in x.ticks(8.0).into_iter().filter(|tick| tick.fract() == 0.0) {
        svg.text("tick", (x.at(tick), BOTTOM + 16.0), Anchor::Middle, &label(tick));
    }
    svg.text("axis", (0.5 * (LEFT + WIDTH), HEIGHT - 6.0), Anchor::Middle, x_axis);
    svg.text("axis", (LEFT, 10.0), Anchor::Start, y_axis);
    for (value, what) in published {
        svg.line("published-line", (LEFT, y.at(*value)), (WIDTH - 20.0, y.at(*value)));
        svg.text(
            "tick",
            (WIDTH - 22.0, y.at(*value) - 4.0),
            Anchor::End,
            &format!("{what} {}", measured(*value)),
        );
    }
    for (at, low, high) in intervals {
        svg.line("whisker", (x.at(*at), y.at(*low)), (x.at(*at), y.at(*high)));
    }
    let mut legend = LEFT + 140.0;
    for (number, line) in lines.iter().enumerate() {
        let class = format!("curve curve{}", number % STYLES);
        let placed: Vec<(f64, f64)> = line.points.iter().map(|(a, b)| (x.at(*a), y.at(*b))).collect();
        svg.polyline(&class, &placed);
        if lines.len() > 1 {
            svg.polyline(&class, &[(legend, 8.0), (legend + 22.0, 8.0)]);
            svg.text("tick", (legend + 26.0, 12.0), Anchor::Start, &line.label);
            legend += 40.0 + 6.5 * line.label.chars().count() as f64;
        } else if placed.len() <= 60 {
            // Dots tell single steps apart as long as there is room for them.
            for (at, (a, b)) in placed.iter().zip(&line.points) {
                svg.dot("ours small", *at, &format!("{x_axis} {}: {}", measured(*a), measured(*b)));
            }
        }
    }
    svg.finish()
}
