//! Curves over training steps and over checks.

use std::collections::BTreeMap;

use minijinja::{Value, context};

use crate::claims::Judged;
use crate::decide::Verdict;
use crate::gate::Entry;
use crate::order::distinct;
use crate::page::svg::{Anchor, Scale, Svg, label, measured};
use crate::page::visible::visible;
use crate::study::Line;
use crate::training::{self, Training};
use crate::{Report, Run};

/// Size of a chart in pixels.
#[derive(Clone, Copy)]
struct Size {
    width: f64,
    height: f64,
}

/// A chart of its own, and one of many beside one another.
const WHOLE: Size = Size { width: 760.0, height: 200.0 };
const SMALL: Size = Size { width: 380.0, height: 150.0 };
/// Room for the numbers at the left and below.
const LEFT: f64 = 56.0;
const BELOW: f64 = 36.0;
const TOP: f64 = 16.0;

/// Curves that are looked at first; the others follow by name.
const FIRST: [&str; 6] = ["reward", "reward_accuracy", "loss", "f_tau", "compliance", "kappa"];
/// Part of its size within which a value counts as the same: what is left is rounding.
const SAME: f64 = 1e-5;

/// Strokes that the style has for lines of one chart.
const STYLES: usize = 10;

/// The curves as small multiples with a line for each training, a legend where there are several, and the curves that
/// never change in words. A study has the means over its seeds, shaded from the lowest to the highest, else each training
/// that a run shows has a line, once. Behind them those of the trainings that these began from.
pub(crate) fn training(report: &Report, runs: &[&Run]) -> Option<Value> {
    let lines = match report.study.as_ref().filter(|study| !study.lines.is_empty()) {
        Some(study) => study.lines.clone(),
        None => lines_of(runs, |training| &training.series),
    };
    let before = lines_of(runs, |training| &training.before);
    let labels = distinct(lines.values().flatten().map(|line| line.label.as_str()));
    let legend: Vec<(String, String)> =
        labels.iter().enumerate().map(|(number, label)| (key(number), visible(label))).collect();
    let legend = if legend.len() > 1 { legend } else { Vec::new() };
    let (charts, constant) = multiples(&lines, &labels, &report.claims);
    let (before, _) = multiples(&before, &labels, &[]);
    (!lines.is_empty()).then(|| context! { charts, constant, legend, before })
}

/// A chart of each curve that changes, those that are looked at first in front, and the others in words.
fn multiples(
    lines: &BTreeMap<String, Vec<Line>>,
    labels: &[&str],
    claims: &[Judged],
) -> (Vec<Value>, String) {
    let (constant, mut changing): (Vec<_>, Vec<_>) =
        lines.iter().partition(|(_, lines)| value_of(lines).is_some());
    changing.sort_by_key(|(name, _)| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
    let chart = |(name, lines): (&String, &Vec<Line>)| {
        // A published value is drawn only across trainings that it is about.
        let about = |claim: &&Judged| {
            claim.series.as_ref() == Some(name) && !matches!(claim.verdict, Verdict::NotComparable(_))
        };
        let published: Vec<(f64, &str)> =
            claims.iter().filter(about).map(|claim| (claim.published, claim.title.as_str())).collect();
        let number = |line: &Line| labels.iter().position(|label| *label == line.label).unwrap_or_default();
        let numbers: Vec<usize> = lines.iter().map(number).collect();
        let svg =
            Curves { title: name, x_axis: "step", lines, numbers, intervals: &[], published: &published };
        context! { title => visible(name), svg => svg.draw(SMALL) }
    };
    let words = |(name, lines): (&String, &Vec<Line>)| {
        Some(format!("{} {}", visible(name), measured(value_of(lines)?)))
    };
    let constant: Vec<String> = constant.into_iter().filter_map(words).collect();
    (changing.into_iter().map(chart).collect(), constant.join(", "))
}

/// The value that all lines have at all steps.
fn value_of(lines: &[Line]) -> Option<f64> {
    let mut values = lines.iter().flat_map(|line| &line.points).map(|(_, value)| *value);
    let first = values.next()?;
    values.all(|value| (value - first).abs() <= SAME * first.abs()).then_some(first)
}

/// The stroke of a line, for a legend in words.
fn key(number: usize) -> String {
    let mut svg = Svg::new(24.0, 10.0, "", "");
    svg.polyline(&class("curve", number), &[(0.0, 5.0), (24.0, 5.0)]);
    svg.finish_decorative()
}

fn class(kind: &str, number: usize) -> String {
    format!("{kind} curve{}", number % STYLES)
}

/// The lines of each curve, by the runs' models.
fn lines_of(runs: &[&Run], of: fn(&Training) -> &training::Curves) -> BTreeMap<String, Vec<Line>> {
    let mut lines: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    for (index, run) in runs.iter().enumerate() {
        // Several runs of one checkpoint show the same training.
        if runs[..index].iter().any(|other| other.training == run.training) {
            continue;
        }
        for (name, points) in of(&run.training) {
            let label = run.manifest.backend.model.clone();
            lines.entry(name.clone()).or_default().push(Line {
                label,
                points: points.clone(),
                band: Vec::new(),
            });
        }
    }
    lines
}

/// One chart per split over all checks.
pub(crate) fn history(entries: &[Entry]) -> Vec<Value> {
    let tasks = distinct(entries.iter().flat_map(|entry| &entry.scores).map(|score| score.task.as_str()));
    let chart = |task: &str| {
        let (mut points, mut intervals) = (Vec::new(), Vec::new());
        for (index, entry) in entries.iter().enumerate() {
            for score in entry.scores.iter().filter(|score| score.task == task) {
                let (x, base) = (index as f64 + 1.0, score.score - score.difference);
                points.push((x, score.score));
                intervals.push((x, base + score.interval.0, base + score.interval.1));
            }
        }
        let lines = &[Line { label: task.to_owned(), points, band: Vec::new() }];
        let curves = Curves {
            title: task,
            x_axis: "check",
            lines,
            numbers: vec![0],
            intervals: &intervals,
            published: &[],
        };
        context! { title => task, svg => curves.draw(WHOLE) }
    };
    tasks.into_iter().map(chart).collect()
}

/// Lines of one chart.
struct Curves<'a> {
    title: &'a str,
    x_axis: &'a str,
    lines: &'a [Line],
    /// Number of each line in the legend.
    numbers: Vec<usize>,
    /// Place, lower and upper end.
    intervals: &'a [(f64, f64, f64)],
    published: &'a [(f64, &'a str)],
}

impl Curves<'_> {
    /// Scales that show every point, interval and published value.
    fn scales(&self, size: Size) -> (Scale, Scale) {
        let ends = |values: Vec<f64>| {
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if high > low { (low, high) } else { (low - 0.5, low + 0.5) }
        };
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let mut heights: Vec<f64> = points().map(|point| point.1).collect();
        heights.extend(self.intervals.iter().flat_map(|(_, low, high)| [*low, *high]));
        heights.extend(self.lines.iter().flat_map(|line| &line.band).flat_map(|(low, high)| [*low, *high]));
        heights.extend(self.published.iter().map(|line| line.0));
        let x = Scale { from: ends(points().map(|point| point.0).collect()), to: (LEFT, size.width - 12.0) };
        (x, Scale { from: ends(heights), to: (size.height - BELOW, TOP) })
    }

    fn draw(&self, size: Size) -> String {
        let (right, bottom) = (size.width - 12.0, size.height - BELOW);
        let mut svg = Svg::new(
            size.width,
            size.height,
            self.title,
            "Values over time; lines across are published values.",
        );
        let (x, y) = self.scales(size);
        for tick in y.ticks(bottom / 28.0) {
            svg.line("grid", (LEFT, y.at(tick)), (right, y.at(tick)));
            svg.text("tick", (LEFT - 6.0, y.at(tick) + 4.0), Anchor::End, &label(tick));
        }
        // Steps and checks are counted: there is nothing between two of them.
        for tick in x.ticks(size.width / 90.0).into_iter().filter(|tick| tick.fract() == 0.0) {
            svg.text("tick", (x.at(tick), bottom + 15.0), Anchor::Middle, &label(tick));
        }
        svg.text("axis", (0.5 * (LEFT + right), size.height - 6.0), Anchor::Middle, self.x_axis);
        for (value, what) in self.published {
            let at = y.at(*value);
            let tip = format!("{what} {}", measured(*value));
            svg.line_with_tip("published-line", (LEFT, at), (right, at), &tip);
            svg.text(
                "tick",
                (right - 2.0, at - 4.0),
                Anchor::End,
                &format!("published {}", measured(*value)),
            );
        }
        for (at, low, high) in self.intervals {
            svg.line("whisker", (x.at(*at), y.at(*low)), (x.at(*at), y.at(*high)));
        }
        for (line, number) in self.lines.iter().zip(&self.numbers) {
            let edge = |of: fn(&(f64, f64)) -> f64| {
                let places = line.points.iter().zip(&line.band);
                places.map(move |(point, band)| (x.at(point.0), y.at(of(band))))
            };
            let around: Vec<(f64, f64)> = edge(|band| band.0).chain(edge(|band| band.1).rev()).collect();
            if !around.is_empty() {
                svg.polygon(&class("spread", *number), &around);
            }
        }
        for (line, number) in self.lines.iter().zip(&self.numbers) {
            let placed: Vec<(f64, f64)> = line.points.iter().map(|(a, b)| (x.at(*a), y.at(*b))).collect();
            svg.polyline(&class("curve", *number), &placed);
            // Dots tell single steps apart as long as there is room for them.
            if self.lines.len() == 1 && placed.len() <= 60 {
                for (at, (a, b)) in placed.iter().zip(&line.points) {
                    let tip = format!("{} {}: {}", self.x_axis, measured(*a), measured(*b));
                    svg.dot("ours small", *at, &tip);
                }
            }
        }
        svg.finish()
    }
}
