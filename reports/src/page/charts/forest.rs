//! Every score with its interval beside the published number.

use crate::page::charts::{LEFT, name};
use crate::page::svg::{Anchor, Scale, Svg, label};
use crate::terminal::percent_interval;
use crate::{Cell, Report};

const WIDTH: f64 = 760.0;
const ROW: f64 = 30.0;
const TOP: f64 = 12.0;

/// One line per cell: dot and bar ours, diamond and band published.
pub(crate) fn forest(report: &Report) -> String {
    let cells = &report.cells;
    let bottom = TOP + ROW * cells.len() as f64;
    let mut svg = Svg::new(
        WIDTH,
        bottom + 46.0,
        "Scores beside the published numbers",
        "For each split our score with its 95 % interval, and the published score with the range that counts as equal.",
    );
    let scale = Scale { from: range(report), to: (LEFT, WIDTH - 20.0) };
    for tick in scale.ticks(8.0) {
        svg.line("grid", (scale.at(tick), TOP), (scale.at(tick), bottom));
        svg.text("tick", (scale.at(tick), bottom + 16.0), Anchor::Middle, &label(tick));
    }
    svg.text("axis", (0.5 * (LEFT + WIDTH - 20.0), bottom + 36.0), Anchor::Middle, "accuracy or mean IoU, %");
    for (row, cell) in cells.iter().enumerate() {
        let y = TOP + ROW * (row as f64 + 0.5);
        svg.text("label", (LEFT - 10.0, y + 4.0), Anchor::End, &name(report, row));
        if let Some(paper) = &cell.paper {
            let (low, high) = (paper.published - paper.margin, paper.published + paper.margin);
            let (x, width) = (scale.at(low), scale.at(high) - scale.at(low));
            let tip = format!("{}: {:.1} ± {:.1} published", cell.title, paper.published, paper.margin);
            svg.rect("band", (x, y - 8.0), (width, 16.0), &tip);
            svg.diamond("published", (scale.at(paper.published), y), &tip);
        }
        let (ours, interval) = beside(cell);
        if let Some((low, high)) = interval {
            svg.line("interval", (scale.at(100.0 * low), y), (scale.at(100.0 * high), y));
        }
        if cell.score().is_none() {
            continue;
        }
        let interval =
            interval.map_or_else(String::new, |interval| format!(", 95 % {}", percent_interval(interval)));
        let class = if cell.complete() { "ours" } else { "ours open" };
        svg.dot(class, (scale.at(ours), y), &format!("{}: {ours:.1} ours{interval}", cell.title));
    }
    svg.finish()
}

/// Our number in percent with its interval: the published metric beside a published number, else the headline.
fn beside(cell: &Cell) -> (f64, Option<(f64, f64)>) {
    let (value, interval) = match (&cell.paper, cell.score()) {
        (None, Some(score)) => (score, cell.interval),
        _ => cell.over_samples(),
    };
    (100.0 * value, interval)
}

/// A range that shows all marks, in tens.
fn range(report: &Report) -> (f64, f64) {
    let mut values: Vec<f64> = Vec::new();
    for cell in &report.cells {
        let (ours, interval) = beside(cell);
        values.push(ours);
        values.extend(interval.iter().flat_map(|(low, high)| [100.0 * low, 100.0 * high]));
        values.extend(
            cell.paper
                .iter()
                .flat_map(|paper| [paper.published - paper.margin, paper.published + paper.margin]),
        );
    }
    let low = values.iter().copied().fold(100.0, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    let (low, high) = (10.0 * (low / 10.0).floor(), 10.0 * (high / 10.0).ceil());
    if high > low { (low.max(0.0), high.min(100.0)) } else { (0.0, 100.0) }
}
