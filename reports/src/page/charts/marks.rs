//! Scores of several runs as marks on lines: a group of lines for each thing that was scored.

use crate::page::svg::{Anchor, Scale, Svg, label};
use crate::page::visible::visible;
use crate::terminal::percent_interval;

/// Pixels of a run's line, of a group's label above its lines, and of the gap between two groups.
const LINE: f64 = 11.0;
const LABEL: f64 = 17.0;
const GAP: f64 = 7.0;
const TOP: f64 = 4.0;
/// Percent of the width that is left free at either side, for the letters of the first and last tick.
const SIDE: f64 = 3.0;
/// Characters of a label that fit the narrowest screen.
const FITS: usize = 44;
/// Samples below which a group says little.
const FEW: usize = 10;

/// The score of one run.
pub(crate) struct Mark {
    /// Number of the run's name in the legend.
    pub series: usize,
    /// Percent.
    pub value: f64,
    /// 95 % interval, as shares.
    pub interval: Option<(f64, f64)>,
    /// A run that is not complete is drawn hollow.
    pub complete: bool,
    /// Samples of the score.
    pub n: usize,
    /// What is said of it beside its value.
    pub tip: String,
}

/// A published score with the margin within which ours counts as equal, in percent.
pub(crate) struct Published {
    pub value: f64,
    pub margin: f64,
    pub tip: String,
}

/// A group of lines: the runs' marks for one split, or one group of a breakdown.
pub(crate) struct Group {
    pub label: String,
    pub marks: Vec<Mark>,
    pub published: Vec<Published>,
    /// Percent that a guess scores.
    pub chance: Option<f64>,
}

impl Group {
    pub(crate) fn new(label: &str) -> Self {
        Self { label: label.to_owned(), marks: Vec::new(), published: Vec::new(), chance: None }
    }

    /// Pixels of its lines.
    fn height(&self) -> f64 {
        LINE * self.marks.len().max(1) as f64
    }

    /// Fewest and most samples of its scores.
    fn samples(&self) -> Option<(usize, usize)> {
        let of = || self.marks.iter().map(|mark| mark.n);
        of().min().zip(of().max())
    }

    /// Its label, and of how many samples the scores are.
    fn heading(&self) -> String {
        let label = cut(&self.label, FITS);
        match self.samples() {
            None => label,
            Some((fewest, most)) if fewest == most => format!("{label}, N {most}"),
            Some((fewest, most)) => format!("{label}, N {fewest} to {most}"),
        }
    }
}

/// The chart of groups below one another, as wide as the page lets it be: percent from 0 to 100.
pub(crate) fn marks(title: &str, groups: &[Group]) -> String {
    let bottom = TOP + groups.iter().map(|group| LABEL + group.height() + GAP).sum::<f64>();
    let description = "A line for each run with its score and 95 % interval by video; a dashed line is what a guess \
                       scores, a diamond a published score on the range that counts as equal.";
    let mut svg = Svg::fluid(bottom + 40.0, title, description);
    let scale = Scale { from: (0.0, 100.0), to: (SIDE, 100.0 - SIDE) };
    for tick in [0.0, 25.0, 50.0, 75.0, 100.0] {
        svg.line("grid", (scale.at(tick), TOP), (scale.at(tick), bottom));
        svg.text("tick", (scale.at(tick), bottom + 16.0), Anchor::Middle, &label(tick));
    }
    svg.text("axis", (50.0, bottom + 35.0), Anchor::Middle, "score, %");
    let mut y = TOP;
    for group in groups {
        svg.line("between", (0.0, y), (100.0, y));
        let class = if group.samples().is_some_and(|(_, most)| most < FEW) { "label few" } else { "label" };
        svg.text(class, (0.0, y + 13.0), Anchor::Start, &group.heading());
        draw(&mut svg, &scale, group, y + LABEL);
        y += LABEL + group.height() + GAP;
    }
    svg.finish()
}

fn draw(svg: &mut Svg, scale: &Scale, group: &Group, top: f64) {
    let (bottom, middle) = (top + group.height(), top + 0.5 * group.height());
    for Published { value, margin, tip } in &group.published {
        let (from, to) = (scale.at(value - margin), scale.at(value + margin));
        svg.rect("band", (from, top), (to - from, group.height()), tip);
        svg.diamond("published", (scale.at(*value), middle), tip);
    }
    if let Some(chance) = group.chance {
        let at = scale.at(chance);
        let tip = format!("{}: a guess scores {chance:.1}", group.label);
        svg.line_with_tip("chance", (at, top - 2.0), (at, bottom + 0.5 * GAP), &tip);
    }
    let first = middle - 0.5 * LINE * (group.marks.len() as f64 - 1.0);
    for (row, mark) in group.marks.iter().enumerate() {
        let y = first + LINE * row as f64;
        let mut tip = format!("{}: {:.1}", group.label, mark.value);
        if let Some((low, high)) = mark.interval {
            let class = format!("whisker series{}", mark.series % SERIES);
            svg.line(&class, (scale.at(100.0 * low), y), (scale.at(100.0 * high), y));
            tip += &format!(", 95 % {}", percent_interval((low, high)));
        }
        let tip = format!("{tip}, {}, N {}", mark.tip, mark.n);
        svg.mark(mark.series, mark.complete, (scale.at(mark.value), y), &tip);
    }
}

/// Colours that the style has.
pub(crate) const SERIES: usize = 7;

/// The marks of the runs' names, for a legend in words.
pub(crate) fn key(series: usize) -> String {
    let mut svg = Svg::new(16.0, 12.0, "", "");
    svg.line(&format!("whisker series{}", series % SERIES), (0.0, 6.0), (16.0, 6.0));
    svg.mark(series, true, (8.0, 6.0), "");
    svg.finish_decorative()
}

fn cut(text: &str, characters: usize) -> String {
    let shown = visible(text);
    if shown.chars().count() <= characters {
        return shown;
    }
    shown.chars().take(characters.saturating_sub(1)).chain(['…']).collect()
}
