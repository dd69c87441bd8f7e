//! The few marks that the charts are made of. Colours are classes of the page's style, so that light,
//! dark and print follow it; nothing here uses a style attribute, which the page's policy forbids.

use std::fmt::{Arguments, Write as _};

use minijinja::HtmlEscape;

use super::visible::visible;
use crate::table::digits;

/// A chart under construction; `y` grows downwards.
pub(super) struct Svg {
    width: f64,
    height: f64,
    /// Unit of everything that lies across: pixels, or percent of the room that the page has.
    unit: &'static str,
    title: String,
    description: String,
    marks: String,
}

#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// An empty chart. The title names it for screen readers, the description says what it shows.
    pub(super) fn new(width: f64, height: f64, title: &str, description: &str) -> Self {
        let (title, description) = (title.to_owned(), description.to_owned());
        Self { width, height, unit: "", title, description, marks: String::new() }
    }

    /// An empty chart as wide as the page lets it be: places across are percent, letters and marks keep their size.
    pub(super) fn fluid(height: f64, title: &str, description: &str) -> Self {
        Self { unit: "%", ..Self::new(100.0, height, title, description) }
    }

    /// An element with its attributes, and a tooltip where it has one.
    fn element(&mut self, name: &str, attributes: Arguments<'_>, tip: Option<&str>) {
        let _ = match tip {
            Some(tip) => write!(self.marks, "<{name} {attributes}><title>{}</title></{name}>", escape(tip)),
            None => write!(self.marks, "<{name} {attributes}/>"),
        };
    }

    pub(super) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let unit = self.unit;
        let ends = format_args!(
            r#"class="{class}" x1="{x1:.1}{unit}" y1="{y1:.1}" x2="{x2:.1}{unit}" y2="{y2:.1}""#
        );
        self.element("line", ends, None);
    }

    pub(super) fn line_with_tip(&mut self, class: &str, from: (f64, f64), to: (f64, f64), tip: &str) {
        self.marks.push_str("<g>");
        self.line(class, from, to);
        let _ = write!(self.marks, "<title>{}</title></g>", escape(tip));
    }

    /// The mark of a run with a tooltip: one of seven colours and five shapes, hollow where the run is not complete.
    pub(super) fn mark(&mut self, series: usize, filled: bool, (x, y): (f64, f64), tip: &str) {
        let outline: &[(f64, f64)] = match series % 5 {
            0 => &[
                (-3.5, -1.5),
                (-1.5, -3.5),
                (1.5, -3.5),
                (3.5, -1.5),
                (3.5, 1.5),
                (1.5, 3.5),
                (-1.5, 3.5),
                (-3.5, 1.5),
            ],
            1 => &[(-4.0, 3.5), (0.0, -4.5), (4.0, 3.5)],
            2 => &[(-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)],
            3 => &[(-4.0, -3.5), (4.0, -3.5), (0.0, 4.5)],
            _ => &[(-1.5, -4.5), (1.5, -4.5), (1.5, 4.5), (-1.5, 4.5)],
        };
        self.placed((x, y), |svg, (x, y)| {
            let points = points(outline.iter().map(|(dx, dy)| (x + dx, y + dy)));
            let (colour, open) = (series % 7, if filled { "" } else { " open" });
            let attributes = format_args!(r#"class="mark series{colour}{open}" points="{points}""#);
            svg.element("polygon", attributes, Some(tip));
        });
    }

    /// Draws a shape, whose points are pixels, around a place.
    fn placed(&mut self, (x, y): (f64, f64), draw: impl FnOnce(&mut Self, (f64, f64))) {
        if self.unit.is_empty() {
            return draw(self, (x, y));
        }
        let _ = write!(self.marks, r#"<svg x="{x:.1}{}" y="{y:.1}">"#, self.unit);
        draw(self, (0.0, 0.0));
        self.marks.push_str("</svg>");
    }

    /// A rectangle with a tooltip.
    pub(super) fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), tip: &str) {
        let place = place(at, size, self.unit);
        self.element("rect", format_args!(r#"class="{class}" {place}"#), Some(tip));
    }

    /// A rectangle whose strength is a share between 0 and 1.
    pub(super) fn shade(&mut self, at: (f64, f64), size: (f64, f64), share: f64, tip: &str) {
        let place = place(at, size, self.unit);
        self.element("rect", format_args!(r#"class="shade" {place} fill-opacity="{share:.3}""#), Some(tip));
    }

    /// A dot with a tooltip.
    pub(super) fn dot(&mut self, class: &str, (x, y): (f64, f64), tip: &str) {
        self.element("circle", format_args!(r#"class="{class}" cx="{x:.1}" cy="{y:.1}" r="5""#), Some(tip));
    }

    pub(super) fn diamond(&mut self, class: &str, at: (f64, f64), tip: &str) {
        self.placed(at, |svg, (x, y)| {
            let (left, top, right, bottom) = (x - 6.0, y - 6.0, x + 6.0, y + 6.0);
            let path =
                format_args!("M{left:.1} {y:.1}L{x:.1} {top:.1}L{right:.1} {y:.1}L{x:.1} {bottom:.1}Z");
            svg.element("path", format_args!(r#"class="{class}" d="{path}""#), Some(tip));
        });
    }

    /// A line through points.
    pub(super) fn polyline(&mut self, class: &str, of: &[(f64, f64)]) {
        let points = points(of.iter().copied());
        self.element("polyline", format_args!(r#"class="{class}" points="{points}""#), None);
    }

    /// The area that points enclose.
    pub(super) fn polygon(&mut self, class: &str, of: &[(f64, f64)]) {
        let points = points(of.iter().copied());
        self.element("polygon", format_args!(r#"class="{class}" points="{points}""#), None);
    }

    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = write!(
            self.marks,
            r#"<text class="{class}" x="{x:.1}{}" y="{y:.1}" text-anchor="{anchor}">{}</text>"#,
            self.unit,
            escape(text)
        );
    }

    /// A picture that says nothing beyond the words beside it.
    pub(super) fn finish_decorative(self) -> String {
        self.drawn(r#"aria-hidden="true""#, "")
    }

    /// The chart.
    pub(super) fn finish(self) -> String {
        let name = format!(r#"role="img" aria-label="{}""#, escape(&self.title));
        self.drawn(&name, &format!("<desc>{}</desc>", escape(&self.description)))
    }

    fn drawn(&self, attributes: &str, description: &str) -> String {
        let (width, height, unit, marks) = (self.width, self.height, self.unit, &self.marks);
        let view = if unit.is_empty() {
            format!(r#"viewBox="0 0 {width:.0} {height:.0}""#)
        } else {
            r#"class="fluid""#.to_owned()
        };
        format!(
            r#"<svg {view} width="{width:.0}{unit}" height="{height:.0}" {attributes}>{description}{marks}</svg>"#
        )
    }
}

/// Points as an attribute has them.
fn points(points: impl Iterator<Item = (f64, f64)>) -> String {
    points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
}

/// Corner and size of a rectangle.
fn place((x, y): (f64, f64), (width, height): (f64, f64), unit: &str) -> String {
    let (width, height) = (width.max(0.0), height.max(0.0));
    format!(r#"x="{x:.1}{unit}" y="{y:.1}" width="{width:.1}{unit}" height="{height:.1}""#)
}

/// Text that cannot end an attribute or begin an element, nor turn the line around.
fn escape(text: &str) -> String {
    HtmlEscape(&visible(text)).to_string()
}

/// From values to positions.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    pub from: (f64, f64),
    pub to: (f64, f64),
}

impl Scale {
    /// Position of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = (value - self.from.0) / (self.from.1 - self.from.0);
        self.to.0 + share.clamp(0.0, 1.0) * (self.to.1 - self.to.0)
    }

    /// Round values inside, about `count` of them: steps of 1, 2 or 5 times a power of ten.
    pub(super) fn ticks(&self, count: f64) -> Vec<f64> {
        let span = self.from.1 - self.from.0;
        if !(span.is_finite() && span > 0.0) {
            return vec![self.from.0];
        }
        let power = 10f64.powf((span / count).log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| span / step <= count);
        let step = step.unwrap_or(10.0 * power);
        let first = (self.from.0 / step - 1e-9).ceil() as i64;
        let last = (self.from.1 / step + 1e-9).floor() as i64;
        (first..=last).map(|tick| tick as f64 * step).collect()
    }
}

/// A tick's label: ticks are round, so that nine digits are all of theirs, and none is the noise of arithmetic.
pub(super) fn label(value: f64) -> String {
    let plain = digits(value, 9);
    // Longer ones would not fit beside the axis.
    if value.abs() < 1e-3 && plain.len() > 5 {
        format!("{:e}", plain.parse().unwrap_or(value))
    } else {
        plain
    }
}

/// A measured value with four digits.
pub(super) fn measured(value: f64) -> String {
    digits(value, 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let scale = |low, high| Scale { from: (low, high), to: (0.0, 1.0) };
        assert_eq!(scale(0.0, 100.0).ticks(5.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(scale(31.0, 39.0).ticks(5.0), [32.0, 34.0, 36.0, 38.0]);
        assert_eq!(scale(1.0, 1.0).ticks(5.0), [1.0]);
        assert_eq!(label(0.25), "0.25");
        assert_eq!(label(20.0), "20");
        let labels =
            |low, high, count| scale(low, high).ticks(count).into_iter().map(label).collect::<Vec<_>>();
        assert_eq!(labels(-0.000_04, 0.000_04, 5.0), ["-4e-5", "-2e-5", "0", "2e-5", "4e-5"]);
        assert_eq!(labels(0.999_99, 1.0, 4.0), ["0.99999", "0.999995", "1"]);
        assert_eq!(labels(0.0, 3e-9, 3.0), ["0", "1e-9", "2e-9", "3e-9"]);
        assert_eq!(
            [measured(0.123_456), measured(2.0 / 3e5), measured(-0.0)],
            ["0.1235", "0.000006667", "0"]
        );
    }

    #[test]
    fn labels_in_charts_are_escaped() {
        let mut svg = Svg::new(10.0, 10.0, "\"><script>", "d");
        svg.text("t", (0.0, 0.0), Anchor::End, "</text><script>alert(1)</script>\u{202e}");
        let svg = svg.finish();
        assert!(!svg.contains("<script") && !svg.contains('\u{202e}'), "{svg}");
    }
}
