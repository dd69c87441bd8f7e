//! Positions of the windows in a video, and numbers of parallel calls.

use crate::page::charts::{LEFT, name};
use crate::page::svg::{Anchor, Svg};
use crate::rows::BINS;
use crate::{Cell, Report};

const WIDTH: f64 = 580.0;
const ROW: f64 = 18.0;

/// One strip per run with calls; darker where more windows lie. Nothing without calls.
pub(crate) fn windows(report: &Report) -> Option<String> {
    let rows: Vec<_> =
        report.cells.iter().enumerate().filter(|(_, cell)| !cell.digest.windows.is_empty()).collect();
    if rows.is_empty() {
        return None;
    }
    let bottom = 4.0 + ROW * rows.len() as f64;
    let mut svg = Svg::new(
        WIDTH,
        bottom + 40.0,
        "Tool windows over the video's length",
        "Each strip is one run; each field a twentieth of the video, darker where more windows cover it.",
    );
    let width = (WIDTH - 20.0 - LEFT) / BINS as f64;
    for (row, (index, cell)) in rows.iter().enumerate() {
        let bins = &cell.digest.windows;
        let y = 4.0 + ROW * row as f64;
        svg.text("label", (LEFT - 10.0, y + 12.0), Anchor::End, &name(report, *index));
        let most = bins.iter().copied().max().unwrap_or(1).max(1);
        for (bin, count) in bins.iter().enumerate() {
            let share = f64::from(*count) / f64::from(most);
            let percent = 100 / BINS * bin;
            let tip = format!("{count} windows over {percent} to {} % of the video", percent + 100 / BINS);
            svg.shade((LEFT + width * bin as f64, y), (width - 1.0, ROW - 2.0), share, &tip);
        }
    }
    for percent in [0.0, 25.0, 50.0, 75.0, 100.0] {
        let x = LEFT + (WIDTH - 20.0 - LEFT) * percent / 100.0;
        svg.text("tick", (x, bottom + 14.0), Anchor::Middle, &format!("{percent:.0}"));
    }
    svg.text(
        "axis",
        (0.5 * (LEFT + WIDTH - 20.0), bottom + 32.0),
        Anchor::Middle,
        "position in the video, %",
    );
    Some(svg.finish())
}

/// Samples by the largest number of calls in one turn. Nothing without calls.
pub(crate) fn widths(report: &Report) -> Option<String> {
    let calls = |cell: &Cell| cell.digest.widths.keys().any(|width| *width > 0);
    let rows: Vec<_> = report.cells.iter().enumerate().filter(|(_, cell)| calls(cell)).collect();
    if rows.is_empty() {
        return None;
    }
    let widest =
        rows.iter().flat_map(|(_, cell)| cell.digest.widths.keys()).copied().max().unwrap_or(0).min(12);
    let bottom = 4.0 + ROW * rows.len() as f64;
    let mut svg = Svg::new(
        WIDTH,
        bottom + 40.0,
        "Parallel calls per turn",
        "Each strip is one run; each field the share of samples whose widest turn had that many calls.",
    );
    let width = (WIDTH - 20.0 - LEFT) / (widest + 1) as f64;
    for (row, (index, cell)) in rows.iter().enumerate() {
        let widths = &cell.digest.widths;
        let y = 4.0 + ROW * row as f64;
        svg.text("label", (LEFT - 10.0, y + 12.0), Anchor::End, &name(report, *index));
        let all: u32 = widths.values().sum();
        for calls in 0..=widest {
            // The last field holds everything beyond it.
            let count: u32 = match calls == widest {
                true => widths.range(calls..).map(|(_, count)| count).sum(),
                false => widths.get(&calls).copied().unwrap_or_default(),
            };
            let share = f64::from(count) / f64::from(all.max(1));
            let x = LEFT + width * calls as f64;
            let tip = format!("{calls} parallel calls in {count} of {all} samples");
            svg.shade((x, y), (width - 1.0, ROW - 2.0), share, &tip);
            let text = if count > 0 { format!("{:.0} %", 100.0 * share) } else { String::new() };
            svg.text("on-shade", (x + 0.5 * width, y + 11.0), Anchor::Middle, &text);
        }
    }
    for calls in 0..=widest {
        let x = LEFT + width * (calls as f64 + 0.5);
        svg.text("tick", (x, bottom + 14.0), Anchor::Middle, &calls.to_string());
    }
    svg.text("axis", (0.5 * (LEFT + WIDTH - 20.0), bottom + 32.0), Anchor::Middle, "most calls in one turn");
    Some(svg.finish())
}
