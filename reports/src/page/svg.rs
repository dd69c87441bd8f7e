//! The few marks that the charts are made of. Colours are classes of the page's style, so that light,
//! dark and print follow it; nothing here uses a style attribute, which the page's policy forbids.

use std::fmt::Write as _;

use minijinja::HtmlEscape;

use super::visible::visible;

/// A chart under construction; `y` grows downwards.
pub(super) struct Svg {
    width: f64,
    height: f64,
    title: String,
    description: String,
    marks: String,
}

#[derive(Clone, Copy)]
pub(super) enum Anchor {
    /// Its start.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

impl Svg {
    /// An empty chart. The title names it for screen readers, the description says what it shows.
    pub(super) fn new(width: f64, height: f64, title: &str, description: &str) -> Self {
        let (title, description) = (title.to_owned(), description.to_owned());
        Self { width, height, title, description, marks: String::new() }
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let _ = write!(
            self.marks,
            r#"<line class="{class}" x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}"/>"#,
            from.0, from.1, to.0, to.1
        );
    }

    /// A line with a tooltip.
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
        let points: Vec<String> =
            outline.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
        let open = if filled { "" } else { " open" };
        let _ = write!(
            self.marks,
            r#"<polygon class="mark series{}{open}" points="{}"><title>{}</title></polygon>"#,
            series % 7,
            points.join(" "),
            escape(tip)
        );
    }

    /// A rectangle with a tooltip.
    pub(super) fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), tip: &str) {
        let _ = write!(
            self.marks,
            r#"<rect class="{class}" x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}"><title>{}</title></rect>"#,
            at.0,
            at.1,
            size.0.max(0.0),
            size.1.max(0.0),
            escape(tip)
        );
    }

    /// A rectangle whose strength is a share between 0 and 1.
    pub(super) fn shade(&mut self, at: (f64, f64), size: (f64, f64), share: f64, tip: &str) {
        let _ = write!(
            self.marks,
            r#"<rect class="shade" x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}" fill-opacity="{share:.3}"><title>{}</title></rect>"#,
            at.0,
            at.1,
            size.0,
            size.1,
            escape(tip)
        );
    }

    /// A dot with a tooltip.
    pub(super) fn dot(&mut self, class: &str, at: (f64, f64), tip: &str) {
        let _ = write!(
            self.marks,
            r#"<circle class="{class}" cx="{:.1}" cy="{:.1}" r="5"><title>{}</title></circle>"#,
            at.0,
            at.1,
            escape(tip)
        );
    }

    /// A diamond with a tooltip.
    pub(super) fn diamond(&mut self, class: &str, (x, y): (f64, f64), tip: &str) {
        let _ = write!(
            self.marks,
            r#"<path class="{class}" d="M{:.1} {y:.1}L{x:.1} {:.1}L{:.1} {y:.1}L{x:.1} {:.1}Z"><title>{}</title></path>"#,
            x - 6.0,
            y - 6.0,
            x + 6.0,
            y + 6.0,
            escape(tip)
        );
    }

    /// A line through points.
    pub(super) fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        self.through("polyline", class, points);
    }

    /// The area that points enclose.
    pub(super) fn polygon(&mut self, class: &str, points: &[(f64, f64)]) {
        self.through("polygon", class, points);
    }

    fn through(&mut self, element: &str, class: &str, points: &[(f64, f64)]) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(self.marks, r#"<{element} class="{class}" points="{}"/>"#, points.join(" "));
    }

    pub(super) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = write!(
            self.marks,
            r#"<text class="{class}" x="{:.1}" y="{:.1}" text-anchor="{anchor}">{}</text>"#,
            at.0,
            at.1,
            escape(text)
        );
    }

    /// A picture that says nothing beyond the words beside it.
    pub(super) fn finish_decorative(self) -> String {
        let (width, height) = (self.width, self.height);
        format!(
            r#"<svg viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" aria-hidden="true">{}</svg>"#,
            self.marks
        )
    }

    /// The chart.
    pub(super) fn finish(self) -> String {
        format!(
            r#"<svg viewBox="0 0 {:.0} {:.0}" width="{:.0}" height="{:.0}" role="img" aria-label="{}"><desc>{}</desc>{}</svg>"#,
            self.width,
            self.height,
            self.width,
            self.height,
            escape(&self.title),
            escape(&self.description),
            self.marks
        )
    }
}

/// Text that cannot end an attribute or begin an element, nor turn the line around.
fn escape(text: &str) -> String {
    HtmlEscape(&visible(text)).to_string()
}

/// From values to positions.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    /// Values.
    pub from: (f64, f64),
    /// Positions.
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
    digits(value, 9)
}

/// A measured value with four digits.
pub(super) fn measured(value: f64) -> String {
    digits(value, 4)
}

/// A number with so many significant digits, without those that say nothing.
fn digits(value: f64, count: usize) -> String {
    let rounded: f64 = format!("{value:.*e}", count - 1).parse().unwrap_or(value);
    match rounded.abs() {
        0.0 => "0".to_owned(),
        1e-6..1e15 => rounded.to_string(),
        _ => format!("{rounded:e}"),
    }
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
        assert_eq!(labels(-0.000_04, 0.000_04, 5.0), ["-0.00004", "-0.00002", "0", "0.00002", "0.00004"]);
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
