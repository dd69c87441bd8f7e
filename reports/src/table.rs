//! A table: a frame built once, wide and typed, and how its columns are shown. A medium (terminal, page, Markdown, LaTeX)
//! is a [`View`]: a choice of columns, rounded; the machine-readable forms take every column with every digit.

use crate::frame::{Datum, Frame, Values};
use crate::tone::Tone;

/// How the values of a column are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnFormat {
    Text,
    /// Whole number.
    Count,
    /// Percent, one decimal.
    Percent,
    /// Difference in percentage points, signed, one decimal.
    Points,
    /// p-value, three decimals.
    Probability,
    /// A mean of counts that needs no decimals, e.g. tokens.
    Whole,
    /// Anything else: as many decimals as say something.
    Number,
}

impl ColumnFormat {
    /// The format of a column of numbers, by the unit that its name carries.
    fn of(name: &str) -> Self {
        match name {
            "p" => Self::Probability,
            _ if name.starts_with("p_") => Self::Probability,
            _ if name.ends_with("_percent") => Self::Percent,
            _ if name.ends_with("_points") => Self::Points,
            _ => Self::Number,
        }
    }

    /// A cell as it is shown: rounded; empty for a missing one.
    pub fn show(self, datum: &Datum) -> String {
        match (self, datum) {
            (_, Datum::Missing) => String::new(),
            (_, Datum::Text(text)) => text.clone(),
            (_, Datum::Count(count)) => count.to_string(),
            (_, Datum::Flag(flag)) => flag.to_string(),
            (Self::Percent, Datum::Real(value)) => format!("{:.1}", tenths(*value)),
            (Self::Points, Datum::Real(value)) => format!("{:+.1}", tenths(*value)),
            (Self::Whole, Datum::Real(value)) => format!("{:.0}", value.round() + 0.0),
            (Self::Probability, Datum::Real(value)) if *value < 0.001 => "<0.001".to_owned(),
            (Self::Probability, Datum::Real(value)) => format!("{value:.3}"),
            (_, Datum::Real(value)) => decimals(*value),
        }
    }

    /// A number as it is shown.
    pub fn number(self, value: f64) -> String {
        self.show(&Datum::Real(value))
    }

    /// An interval as it is shown everywhere: `71.2 to 100.0`, `-3.1 to +0.4`.
    pub fn interval(self, (low, high): (f64, f64)) -> String {
        format!("{} to {}", self.number(low), self.number(high))
    }

    /// Whether cells are set flush right.
    pub fn is_number(self) -> bool {
        self != Self::Text
    }
}

/// A number of any size: two decimals, fewer from 10 on, and below 0.1 the two digits that say something.
fn decimals(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        99.95.. => format!("{value:.0}"),
        9.995.. => format!("{value:.1}"),
        0.0995.. => format!("{value:.2}"),
        _ => digits(value, 2),
    }
}

/// A number with so many significant digits, without those that say nothing.
pub(crate) fn digits(value: f64, count: usize) -> String {
    let rounded: f64 = format!("{value:.*e}", count - 1).parse().unwrap_or(value);
    match rounded.abs() {
        0.0 => "0".to_owned(),
        1e-6..1e15 => rounded.to_string(),
        _ => format!("{rounded:e}"),
    }
}

/// Rounded to tenths, without a negative zero.
pub(crate) fn tenths(value: f64) -> f64 {
    (10.0 * value).round() / 10.0 + 0.0
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// Name in machine-readable forms, unit included.
    pub name: &'static str,
    /// Title of the column where it is shown.
    pub title: &'static str,
    /// How its values are written.
    pub format: ColumnFormat,
}

/// A table.
#[derive(Debug, Clone)]
pub struct Table {
    /// File name without ending.
    pub name: &'static str,
    pub title: String,
    /// Columns of the files; the frame may have more, for views.
    pub headings: Vec<Heading>,
    /// Values by the columns' names.
    pub frame: Frame,
    view_only: Vec<Heading>,
    tones: Vec<(&'static str, Vec<Tone>)>,
}

/// A table whose columns are filled from its rows, one column a call.
pub struct TableBuilder<'a, R> {
    name: &'static str,
    title: &'static str,
    rows: &'a [R],
    headings: Vec<Heading>,
    view_only: Vec<Heading>,
    is_exported: bool,
    values: Vec<(&'static str, Values)>,
    tones: Vec<(&'static str, Vec<Tone>)>,
}

impl<R> TableBuilder<'_, R> {
    fn add(mut self, name: &'static str, title: &'static str, format: ColumnFormat, values: Values) -> Self {
        let headings = if self.is_exported { &mut self.headings } else { &mut self.view_only };
        headings.push(Heading { name, title, format });
        self.values.push((name, values));
        self
    }

    fn each<V: Into<Option<W>>, W>(&self, of: impl Fn(&R) -> V) -> Vec<Option<W>> {
        self.rows.iter().map(|row| of(row).into()).collect()
    }

    /// A column of words.
    pub fn text<V: Into<Option<String>>>(
        self,
        name: &'static str,
        title: &'static str,
        of: impl Fn(&R) -> V,
    ) -> Self {
        let values = Values::Text(self.each(of));
        self.add(name, title, ColumnFormat::Text, values)
    }

    /// A column of words with a tone each.
    pub fn toned(
        mut self,
        name: &'static str,
        title: &'static str,
        of: impl Fn(&R) -> (String, Tone),
    ) -> Self {
        let (words, tones) = self.rows.iter().map(of).map(|(word, tone)| (Some(word), tone)).unzip();
        self.tones.push((name, tones));
        self.add(name, title, ColumnFormat::Text, Values::Text(words))
    }

    /// A column of whole numbers.
    pub fn count<V: Into<Option<usize>>>(
        self,
        name: &'static str,
        title: &'static str,
        of: impl Fn(&R) -> V,
    ) -> Self {
        let values = self.each(of).into_iter().map(|count| count.map(|count| count as u64)).collect();
        self.add(name, title, ColumnFormat::Count, Values::Count(values))
    }

    /// A column of other numbers.
    pub fn real<V: Into<Option<f64>>>(
        self,
        name: &'static str,
        title: &'static str,
        of: impl Fn(&R) -> V,
    ) -> Self {
        let values = Values::Real(self.each(of));
        self.add(name, title, ColumnFormat::of(name), values)
    }

    /// A column of shares, in percent or percentage points.
    pub fn share<V: Into<Option<f64>>>(
        self,
        name: &'static str,
        title: &'static str,
        of: impl Fn(&R) -> V,
    ) -> Self {
        self.real(name, title, |row| of(row).into().map(|share| 100.0 * share))
    }

    /// A column of yes and no.
    pub fn flag(self, name: &'static str, title: &'static str, of: impl Fn(&R) -> bool) -> Self {
        let values = Values::Flag(self.rows.iter().map(of).collect());
        self.add(name, title, ColumnFormat::Text, values)
    }

    /// Two columns with the ends of an interval.
    pub fn ends(
        self,
        [low, high]: [(&'static str, &'static str); 2],
        of: impl Fn(&R) -> Option<(f64, f64)>,
    ) -> Self {
        self.real(low.0, low.1, |row| Some(of(row)?.0)).real(high.0, high.1, |row| Some(of(row)?.1))
    }

    /// The same of an interval of shares, in percent or percentage points.
    pub fn share_ends(
        self,
        names: [(&'static str, &'static str); 2],
        of: impl Fn(&R) -> Option<(f64, f64)>,
    ) -> Self {
        self.ends(names, |row| of(row).map(|(low, high)| (100.0 * low, 100.0 * high)))
    }

    /// The last column in another format than its name says.
    pub(crate) fn shown_as(mut self, format: ColumnFormat) -> Self {
        self.headings.iter_mut().last().into_iter().for_each(|heading| heading.format = format);
        self
    }

    /// From here on columns are for views alone: no file has them.
    pub(crate) fn for_views(mut self) -> Self {
        self.is_exported = false;
        self
    }

    /// The table.
    pub fn table(self) -> Table {
        let Self { name, title, headings, view_only, values, tones, .. } = self;
        let frame = Frame::new(values);
        Table { name, title: title.to_owned(), headings, view_only, frame, tones }
    }
}

impl Table {
    /// A table to be filled.
    pub fn of<'a, R>(name: &'static str, title: &'static str, rows: &'a [R]) -> TableBuilder<'a, R> {
        let (headings, view_only, values, tones) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        TableBuilder { name, title, rows, headings, view_only, is_exported: true, values, tones }
    }

    /// Puts a view-only column into the files, too, as their last.
    #[must_use]
    pub fn exported(mut self, name: &str) -> Self {
        let place = self.view_only.iter().position(|heading| heading.name == name);
        self.headings.extend(place.map(|place| self.view_only.remove(place)));
        self
    }

    /// The cells of the columns that files have, row by row.
    pub fn rows(&self) -> Vec<Vec<Datum>> {
        let columns: Vec<Vec<Datum>> =
            self.headings.iter().map(|heading| self.values(heading.name).data()).collect();
        (0..self.frame.height())
            .map(|row| columns.iter().map(|column| column[row].clone()).collect())
            .collect()
    }

    pub(crate) fn values(&self, name: &'static str) -> Values {
        self.frame.values(name)
    }

    /// With columns of one text each in front, whose names the table does not have yet.
    #[must_use]
    pub fn under<const N: usize>(mut self, names: [(&'static str, &str); N]) -> Self {
        for (name, text) in names.into_iter().rev() {
            self.frame = self.frame.with_first(name, text);
            self.headings.insert(0, Heading { name, title: name, format: ColumnFormat::Text });
        }
        self
    }

    /// Tables of the same kind below one another; `None` without tables.
    pub fn stack(tables: Vec<Self>) -> Option<Self> {
        let first = tables.first().cloned()?;
        let frame = Frame::stack(tables.into_iter().map(|table| table.frame))?;
        Some(Self { frame, tones: Vec::new(), ..first })
    }

    /// Whether it has the column.
    pub(crate) fn has(&self, pick: &Pick) -> bool {
        self.headings.iter().any(|heading| heading.name == pick.name)
    }

    /// All columns that files have, rounded.
    pub fn whole(&self) -> View {
        self.view(&self.headings.iter().map(|heading| col(heading.name)).collect::<Vec<_>>())
    }

    /// A choice of columns, rounded. The columns are those of this table.
    pub fn view(&self, picks: &[Pick]) -> View {
        let mut columns = Vec::with_capacity(picks.len());
        for pick in picks {
            let named =
                |name: &str| self.headings.iter().chain(&self.view_only).find(|heading| heading.name == name);
            let format = named(pick.name).map_or(ColumnFormat::Text, |heading| heading.format);
            let shown = |name| self.values(name).data().iter().map(|datum| format.show(datum)).collect();
            let mut texts: Vec<String> = shown(pick.name);
            if let Some(high) = pick.high {
                let highs: Vec<String> = shown(high);
                let both = texts.iter_mut().zip(highs).filter(|(low, _)| !low.is_empty());
                both.for_each(|(low, high)| *low += &format!(" to {high}"));
            }
            texts.iter_mut().filter(|text| text.is_empty()).for_each(|text| pick.missing.clone_into(text));
            let title = pick.title.or(named(pick.name).map(|heading| heading.title)).unwrap_or(pick.name);
            let tones =
                self.tones.iter().find(|(name, _)| *name == pick.name).map(|(_, tones)| tones.clone());
            let is_number = pick.is_number.unwrap_or(format.is_number());
            columns.push(ViewColumn { name: pick.name, title, group: "", is_number, texts, tones });
        }
        View { name: self.name, title: self.title.clone(), rows: self.frame.height(), columns }
    }
}

/// A column of a view.
#[derive(Debug, Clone, Copy)]
pub struct Pick {
    name: &'static str,
    high: Option<&'static str>,
    title: Option<&'static str>,
    missing: &'static str,
    is_number: Option<bool>,
}

/// A column under its own title.
pub const fn col(name: &'static str) -> Pick {
    Pick { name, high: None, title: None, missing: "", is_number: None }
}

/// Two columns as the ends of an interval.
pub const fn interval(low: &'static str, high: &'static str, title: &'static str) -> Pick {
    Pick { high: Some(high), ..col(low).titled(title) }
}

impl Pick {
    /// Under another title.
    pub(crate) const fn titled(self, title: &'static str) -> Self {
        Self { title: Some(title), ..self }
    }

    /// Set flush right, or flush left.
    pub const fn flush(self, right: bool) -> Self {
        Self { is_number: Some(right), ..self }
    }

    /// With a word where the value is missing.
    pub const fn or(self, missing: &'static str) -> Self {
        Self { missing, ..self }
    }
}

/// A table as a medium shows it: words.
#[derive(Debug, Clone)]
pub struct View {
    pub name: &'static str,
    pub title: String,
    pub rows: usize,
    pub columns: Vec<ViewColumn>,
}

/// A column of a view.
#[derive(Debug, Clone)]
pub struct ViewColumn {
    pub name: &'static str,
    pub title: &'static str,
    /// Title over this column and its neighbours of the same group; empty for none.
    pub group: &'static str,
    /// Set flush right.
    pub is_number: bool,
    pub texts: Vec<String>,
    /// Their tones, in a column of verdicts.
    pub tones: Option<Vec<Tone>>,
}

impl View {
    /// Adds a row with words in some columns.
    pub fn push<const N: usize>(&mut self, words: [(&str, &str); N]) {
        for column in &mut self.columns {
            let word = words.iter().find(|(name, _)| *name == column.name).map_or("", |(_, word)| word);
            column.texts.push(word.to_owned());
            column.tones.iter_mut().for_each(|tones| tones.push(Tone::Plain));
        }
        self.rows += 1;
    }

    /// The cells of a row.
    pub fn row(&self, row: usize) -> impl Iterator<Item = &str> {
        self.columns.iter().map(move |column| column.texts[row].as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::decimals;

    #[test]
    fn numbers_have_the_digits_that_say_something() {
        let shown = [0.0, -0.0, 0.00417, 0.4, 1.4, 62.1, 627.11, -99.96, 9.996].map(decimals);
        assert_eq!(shown, ["0", "0", "0.0042", "0.40", "1.40", "62.1", "627", "-100", "10.0"]);
    }
}
