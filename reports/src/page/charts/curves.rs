//! Curves over training steps and over checks.

use minijinja::{Value, context};

use crate::Run;
use crate::gate::Entry;
use crate::page::svg::{Anchor, Scale, Svg, label};
use crate::page::visible::visible;

const LEFT: f64 = 60.0;
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 200.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 160.0;

/// Values that the paper publishes for curves of these names, with what they are (Table 2, full
/// PARA-GRPO, and the abstract's peak).
const PUBLISHED: [(&str, f64, &str); 3] =
    [("f_tau", 0.41, "published mean"), ("f_tau", 0.64, "published peak"), ("kappa", 0.21, "published mean")];

/// One chart per curve of every run that trained.
pub fn training(runs: &[&Run]) -> Vec<Value> {
    let mut charts = Vec::new();
    for run in runs {
        for (name, points) in &run.training.series {
            let lines: Vec<(f64, &str)> = PUBLISHED
                .iter()
                .filter(|(series, ..)| series == name)
                .map(|(_, value, what)| (*value, *what))
                .collect();
            let title = format!("{}: {name}", run.manifest.backend.model);
            let svg = curve(&title, "step", name, points, &[], &lines);
            charts.push(context! { title => visible(&title), svg });
        }
    }
    charts
}

/// One chart per split over all checks.
pub fn history(entries: &[Entry]) -> Vec<Value> {
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
        context! { title => task, svg => curve(task, "check", "score, %", &points, &intervals, &[]) }
    };
    tasks.into_iter().map(chart).collect()
}

fn curve(
    title: &str,
    x_axis: &str,
    y_axis: &str,
    points: &[(f64, f64)],
    intervals: &[(f64, f64, f64)],
    lines: &[(f64, &str)],
) -> String {
    let mut svg = Svg::new(WIDTH, HEIGHT, title, "Values over time; lines across are published values.");
    let ends = |values: Vec<f64>| {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if high > low { (low, high) } else { (low - 0.5, low + 0.5) }
    };
    let mut heights: Vec<f64> = points.iter().map(|point| point.1).collect();
    heights.extend(intervals.iter().flat_map(|(_, low, high)| [*low, *high]));
    heights.extend(lines.iter().map(|line| line.0));
    let x = Scale { from: ends(points.iter().map(|point| point.0).collect()), to: (LEFT, WIDTH - 20.0) };
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
    for (value, what) in lines {
        svg.line("published-line", (LEFT, y.at(*value)), (WIDTH - 20.0, y.at(*value)));
        svg.text(
            "tick",
            (WIDTH - 22.0, y.at(*value) - 4.0),
            Anchor::End,
            &format!("{what} {}", label(*value)),
        );
    }
    for (at, low, high) in intervals {
        svg.line("whisker", (x.at(*at), y.at(*low)), (x.at(*at), y.at(*high)));
    }
    let placed: Vec<(f64, f64)> = points.iter().map(|(a, b)| (x.at(*a), y.at(*b))).collect();
    svg.polyline("curve", &placed);
    // Dots tell single steps apart as long as there is room for them.
    if points.len() <= 60 {
        for (at, (a, b)) in placed.iter().zip(points) {
            svg.dot("ours small", *at, &format!("{x_axis} {}: {}", label(*a), label(*b)));
        }
    }
    svg.finish()
}
