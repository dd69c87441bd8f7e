//! Text for a terminal of [`COLUMNS`] columns: folded lines, one word of a line coloured.

use std::borrow::Cow;
use std::fmt;

use anstyle::{AnsiColor, Style};
use paravt_suite::printable::printable_line;

use crate::table::{ColumnFormat, View};
pub use crate::tone::Tone;

/// No line is longer.
pub const COLUMNS: usize = 80;

/// Spaces before the second line of a folded one, beyond those of the first.
const FOLDED_INDENT: usize = 4;

/// Level of detail on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// One line per run, split or check.
    Brief,
    /// Everything (`-v`).
    Full,
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Good | Tone::Better => AnsiColor::Green.on_default(),
        Tone::Bad => AnsiColor::Red.on_default().bold(),
        Tone::Open => AnsiColor::Yellow.on_default(),
        Tone::Plain => Style::new(),
    }
}

/// Lines for a terminal. Displayed without colours; no control character or change of the reading
/// direction that came with a model's name, a label or a server's words is among them.
#[derive(Debug, Clone, Default)]
pub struct Text {
    lines: Vec<Line>,
}

#[derive(Debug, Clone)]
struct Line {
    text: String,
    /// The coloured word, by its bytes in `text`.
    word: (usize, usize),
    tone: Tone,
    /// It is copied as a whole.
    is_whole: bool,
}

impl Text {
    /// Adds a line.
    pub fn line(&mut self, text: impl AsRef<str>) {
        self.toned(text.as_ref(), "", Tone::Plain, "");
    }

    /// Adds a line with a coloured word.
    pub fn toned(&mut self, before: &str, word: &str, tone: Tone, after: &str) {
        let [before, word, after] = [before, word, after].map(printable_line);
        let text = format!("{before}{word}{after}").trim_end().to_owned();
        let end = (before.len() + word.len()).min(text.len());
        self.lines.push(Line { text, word: (before.len().min(end), end), tone, is_whole: false });
    }

    /// Adds a line that is never folded: a path or a command, which is to be copied.
    pub fn whole(&mut self, text: &str) {
        self.line(text);
        self.lines.iter_mut().last().expect("the line was added").is_whole = true;
    }

    /// Adds the lines of another text.
    pub fn append(&mut self, other: Self) {
        self.lines.extend(other.lines);
    }

    /// The lines with ANSI colours.
    pub fn coloured(&self) -> String {
        self.render(COLUMNS, true)
    }

    /// The lines for a terminal of another width in columns.
    pub fn render(&self, columns: usize, coloured: bool) -> String {
        let line = |line: &Line| {
            let folded = if line.is_whole { line.text.clone() } else { fold(&line.text, columns) };
            let (start, end) = line.word;
            // Beyond the first line a fold has moved the word.
            let in_place = folded.get(start..end).filter(|word| *word == &line.text[start..end]);
            match in_place.filter(|word| coloured && !word.is_empty()) {
                Some(word) => {
                    let style = style(line.tone);
                    format!("{}{style}{word}{style:#}{}\n", &folded[..start], &folded[end..])
                }
                None => folded + "\n",
            }
        };
        self.lines.iter().map(line).collect()
    }
}

/// A view in columns of fixed widths: numbers flush right, words flush left, the last column as long as it is.
pub(crate) struct Lines<'a> {
    view: &'a View,
    widths: &'a [usize],
    indent: &'static str,
}

impl<'a> Lines<'a> {
    /// A line per row; `widths` of all columns but the last.
    pub(crate) fn of(view: &'a View, widths: &'a [usize]) -> Self {
        Self { view, widths, indent: "" }
    }

    /// With spaces before each line.
    pub(crate) fn indented(self, indent: &'static str) -> Self {
        Self { indent, ..self }
    }

    /// The titles.
    pub(crate) fn header(&self) -> String {
        let titles: Vec<&str> = self.view.columns.iter().map(|column| column.title).collect();
        self.padded(&titles).concat()
    }

    /// Adds a row, its last column in its tone.
    pub(crate) fn row(&self, text: &mut Text, row: usize) {
        let cells: Vec<Cow<'_, str>> = self.view.row(row).map(printable_line).collect();
        let cells = self.padded(&cells.iter().map(Cow::as_ref).collect::<Vec<_>>());
        let (last, before) = cells.split_last().expect("a view has columns");
        let tones = self.view.columns.last().and_then(|column| column.tones.as_ref());
        let word = last.trim_start();
        let gap = &last[..last.len() - word.len()];
        text.toned(&(before.concat() + gap), word, tones.map_or(Tone::Plain, |tones| tones[row]), "");
    }

    /// The cells, each with the gap before it: words are set further off from a number than from words.
    fn padded(&self, cells: &[&str]) -> Vec<String> {
        let mut right_before = false;
        let cell = |(position, cell): (usize, &&str)| {
            let right = self.view.columns[position].is_number;
            let gap = match position {
                0 => self.indent,
                _ if right_before && !right => "  ",
                _ => " ",
            };
            right_before = right;
            let width = self.widths.get(position).copied().unwrap_or_default();
            if right { format!("{gap}{cell:>width$}") } else { format!("{gap}{cell:<width$}") }
        };
        cells.iter().enumerate().map(cell).collect()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.render(COLUMNS, false))
    }
}

/// A line, broken at spaces where it has more than `columns` characters; what follows is indented further.
pub fn fold(line: &str, columns: usize) -> String {
    let own = line.chars().take_while(|c| *c == ' ').count();
    let indent = (own + FOLDED_INDENT).min(columns / 2);
    let mut out = String::new();
    let mut rest = line.to_owned();
    while let Some((limit, _)) = rest.char_indices().nth(columns) {
        let margin = rest.len() - rest.trim_start().len();
        let space = match rest[limit..].starts_with(' ') {
            true => Some(limit),
            false => rest[..limit].rfind(' ').filter(|at| *at > margin),
        };
        let at = space.unwrap_or(limit);
        out.push_str(rest[..at].trim_end());
        out.push('\n');
        rest = format!("{:indent$}{}", "", rest[at..].trim_start());
    }
    out + &rest
}

/// A share as percent with one decimal.
pub fn percent(share: f64) -> String {
    ColumnFormat::Percent.number(100.0 * share)
}

/// A difference of shares in percentage points, signed, with one decimal.
pub(crate) fn points(share: f64) -> String {
    ColumnFormat::Points.number(100.0 * share)
}

/// An interval of shares, in percent.
pub(crate) fn percent_interval((low, high): (f64, f64)) -> String {
    ColumnFormat::Percent.interval((100.0 * low, 100.0 * high))
}

/// An interval of differences of shares, in percentage points.
pub(crate) fn points_interval((low, high): (f64, f64)) -> String {
    ColumnFormat::Points.interval((100.0 * low, 100.0 * high))
}

/// An interval by video in words; one video has none.
pub(crate) fn within(interval: Option<(f64, f64)>, words: fn((f64, f64)) -> String) -> String {
    interval.map_or_else(|| "fewer than two videos".to_owned(), words)
}

/// `1 sample`, `2 samples`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_coloured_where_it_stands_and_the_text_stays_the_same() {
        let mut text = Text::default();
        text.toned("FAIL ", "FAIL", Tone::Bad, " FAIL");
        text.toned("", "", Tone::Bad, "nothing");
        assert_eq!(text.to_string(), "FAIL FAIL FAIL\nnothing\n");
        let coloured = text.coloured();
        assert_eq!(coloured, "FAIL \u{1b}[1m\u{1b}[31mFAIL\u{1b}[0m FAIL\nnothing\n");
    }

    #[test]
    fn a_long_line_is_folded_and_nothing_is_cut() {
        let mut text = Text::default();
        let words: Vec<String> = (0..60).map(|number| format!("é{number}")).collect();
        text.toned(&format!("  {} ", words.join(" ")), "worse", Tone::Bad, "");
        text.line("x".repeat(200));
        let mut path = Text::default();
        path.whole(&"/a b".repeat(50));
        assert_eq!(path.to_string(), "/a b".repeat(50) + "\n");
        for shown in [text.to_string(), text.coloured()] {
            assert!(shown.lines().all(|line| line.chars().count() <= COLUMNS), "{shown}");
            let found: Vec<&str> = shown.split_whitespace().collect();
            assert_eq!(&found[..60], &words[..]);
            assert_eq!(found[60], "worse");
            assert_eq!(found[61..].concat(), "x".repeat(200));
        }
    }

    #[test]
    fn escape_sequences_of_others_are_shown_by_their_codes() {
        let mut text = Text::default();
        text.toned("a\u{1b}[31m", "b\u{1b}", Tone::Good, "c\nd");
        let coloured = text.coloured();
        assert_eq!(coloured.matches('\u{1b}').count(), 2, "{coloured:?}");
        assert_eq!(text.to_string(), "a⟨U+001B⟩[31mb⟨U+001B⟩c⟨U+000A⟩d\n");
    }
}
