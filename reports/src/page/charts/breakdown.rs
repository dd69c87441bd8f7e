//! One breakdown of a split as bars with intervals.

use paravt_suite::summary::BreakdownSummary;

use crate::page::svg::{Anchor, Scale, Svg, label};
use crate::page::visible::visible;

const LEFT: f64 = 210.0;
const WIDTH: f64 = 760.0;
const ROW: f64 = 22.0;
/// Characters of a label that fit; the whole one is in the tooltip and in the table.
const LABEL: usize = 28;

/// `interval` gives the 95 % interval of a group, as shares.
pub(crate) fn breakdown(
    title: &str,
    metric: &str,
    breakdown: &BreakdownSummary,
    interval: impl Fn(&str) -> Option<(f64, f64)>,
) -> String {
    let bottom = 6.0 + ROW * breakdown.groups.len() as f64;
    let name = format!("{title} by {}", breakdown.title);
    let mut svg = Svg::new(WIDTH, bottom + 42.0, &name, "Bars with 95 % intervals clustered by video.");
    let scale = Scale { from: (0.0, 100.0), to: (LEFT, WIDTH - 70.0) };
    for tick in scale.ticks(5.0) {
        svg.line("grid", (scale.at(tick), 6.0), (scale.at(tick), bottom));
        svg.text("tick", (scale.at(tick), bottom + 16.0), Anchor::Middle, &label(tick));
    }
    svg.text("axis", (0.5 * (LEFT + WIDTH - 70.0), bottom + 34.0), Anchor::Middle, &format!("{metric}, %"));
    for (row, group) in breakdown.groups.iter().enumerate() {
        let y = 6.0 + ROW * row as f64;
        let value = 100.0 * group.value;
        let shown = visible(&group.label);
        let cut: String = shown.chars().take(LABEL).collect();
        let label = if cut.len() < shown.len() { cut + "…" } else { cut };
        svg.text("label", (LEFT - 10.0, y + 15.0), Anchor::End, &label);
        let tip = format!("{}: {value:.1} over {}", group.label, group.n);
        svg.rect("bar", (LEFT, y + 4.0), (scale.at(value) - LEFT, ROW - 8.0), &tip);
        if let Some((low, high)) = interval(&group.label) {
            let middle = y + 0.5 * ROW;
            svg.line("whisker", (scale.at(100.0 * low), middle), (scale.at(100.0 * high), middle));
        }
        svg.text("tick", (WIDTH, y + 15.0), Anchor::End, &format!("{value:.1} / {}", group.n));
    }
    svg.finish()
}
