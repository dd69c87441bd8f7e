//! Table `row` of a task file: which columns make a sample.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::derived::Derived;
use super::kinds::{AnswerKind, AnswerKinds, Lettered};
use super::option_cells::{self, without_letter};
use super::{REVERSED_EVIDENCE, RowContext, intervals, letters};
use crate::data::{DataError, JsonRow, excerpt};
use crate::protocol::Template;
use crate::sample::{Gold, Question, Sample, Tags};
use crate::scoring::Metric;
use crate::span::TimeSpan;
use crate::text::clock_seconds;

/// Letters that options can have.
const MAX_OPTIONS: usize = 26;

/// The columns of a sample. A value with braces is a text with the columns in its slots, another one the name of
/// a column.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Columns {
    kind: AnswerKinds,
    /// Unique id; the row's number by default.
    id: Option<Cells>,
    video: Option<Cells>,
    /// Images in the place of a video.
    #[serde(default)]
    images: Vec<Cells>,
    /// The question, or the caption to ground.
    question: Cells,
    options: Option<OneOrMany>,
    /// Whether options of a list stand there with their letters, `A. …`.
    #[serde(default)]
    lettered: Lettered,
    answer: Option<String>,
    #[serde(default)]
    answer_is: AnswerIs,
    /// Start and end: one column with a list of two, or two columns.
    interval: Option<OneOrMany>,
    /// Start and end of what shows the answer, as `interval`.
    evidence: Option<OneOrMany>,
    /// Text shown as the video's subtitles.
    subtitles: Option<String>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    /// Rows that count: those with one of these values in the column.
    #[serde(default, deserialize_with = "wanted")]
    only: BTreeMap<String, Vec<String>>,
    /// Columns made of others.
    #[serde(default)]
    derived: Vec<Derived>,
}

/// Form of a choice question's answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AnswerIs {
    /// `B`.
    #[default]
    Letter,
    /// 1 for the second option.
    Index,
    /// The option's own text.
    Option,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// The values of each column of `only`: a text or a number, or a list of them.
fn wanted<'de, D: Deserializer<'de>>(table: D) -> Result<BTreeMap<String, Vec<String>>, D::Error> {
    let text = |column: &str, value| match value {
        Value::String(text) => Ok(text),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        _ => Err(D::Error::custom(format!("only.{column}: expected a text or a number, or a list of them"))),
    };
    let columns = BTreeMap::<String, Value>::deserialize(table)?.into_iter();
    let values = columns.map(|(column, value)| {
        let values = match value {
            Value::Array(values) => values,
            one => vec![one],
        };
        let values = values.into_iter().map(|value| text(&column, value)).collect::<Result<_, _>>()?;
        Ok((column, values))
    });
    values.collect()
}

/// A column, or a text with columns in its slots.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "String")]
struct Cells(Template);

impl TryFrom<String> for Cells {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let text = if text.contains(['{', '}']) { text } else { format!("{{{text}}}") };
        let template = Template::read(&text)?;
        if template.slots().next().is_none() {
            return Err(format!("`{text}` names no column"));
        }
        Ok(Self(template))
    }
}

impl Columns {
    /// The metric of a task that names none.
    pub(super) fn metric(&self) -> Metric {
        if self.kind.has(AnswerKind::Interval) {
            Metric::Grounding { thresholds: vec![0.3, 0.5, 0.7] }
        } else if self.kind.has(AnswerKind::Number) {
            Metric::Score { macro_over: None, merged: BTreeMap::new() }
        } else {
            Metric::Accuracy { macro_over: None }
        }
    }

    /// Whether the fields go with the kind, and the metric with both.
    ///
    /// # Errors
    /// The field that is missing or superfluous, and why.
    pub(super) fn check(&self, metric: &Metric) -> Result<(), String> {
        let (choice, interval) = (self.kind.has(AnswerKind::Choice), self.kind.has(AnswerKind::Interval));
        let kinds = self.kind.all();
        let kind = kinds.iter().map(|kind| format!("{kind:?}").to_lowercase()).collect::<Vec<_>>().join(", ");
        if kinds.is_empty() || interval && kinds.iter().any(|kind| *kind != AnswerKind::Interval) {
            return Err(format!(
                "row.kind: intervals and other answers have no metric in common, found `{kind}`"
            ));
        }
        match (&self.video, &*self.images) {
            (Some(_), []) | (None, [_, ..]) => {}
            (None, []) => {
                return Err("row.video: missing; a row is about a video, or has `images`".to_owned());
            }
            (Some(_), _) => return Err("row.images: a row is about a video or about images".to_owned()),
        }
        if interval && !self.images.is_empty() {
            return Err("row.images: an interval is one of a video".to_owned());
        }
        for (field, wanted, given) in [
            ("options", choice, self.options.is_some()),
            ("interval", interval, self.interval.is_some()),
            ("answer", !interval, self.answer.is_some()),
        ] {
            match (wanted, given) {
                (true, false) => return Err(format!("row.{field}: missing; kind {kind} needs it")),
                (false, true) => return Err(format!("row.{field}: kind {kind} has none")),
                _ => {}
            }
        }
        for (field, given) in [
            ("answer_is", self.answer_is != AnswerIs::default()),
            ("lettered", self.lettered != Lettered::No),
        ] {
            if given && !choice {
                return Err(format!("row.{field}: kind {kind} has none"));
            }
        }
        for (field, columns) in [("interval", &self.interval), ("evidence", &self.evidence)] {
            if matches!(columns, Some(OneOrMany::Many(columns)) if columns.len() != 2) {
                return Err(format!("row.{field}: expected one column, or a list of two: start and end"));
            }
        }
        if let Metric::GroupScore { group, place, rule, structure, by } = metric {
            let tags = [group, place, rule, structure].into_iter().chain(by);
            if let Some(tag) = tags.into_iter().find(|tag| !self.tags.contains_key(*tag)) {
                return Err(format!("metric: `{tag}` is none of row.tags"));
            }
        }
        let fits = match metric {
            Metric::Grounding { .. } => interval,
            Metric::Accuracy { .. } => !interval && !self.kind.has(AnswerKind::Number),
            Metric::GroupScore { .. } => self.kind == AnswerKinds::One(AnswerKind::Choice),
            Metric::Score { .. } => !interval,
        };
        if fits { Ok(()) } else { Err(format!("metric: {} does not go with row.kind {kind}", metric.name())) }
    }

    /// Whether the questions are about images.
    pub(super) fn is_about_images(&self) -> bool {
        !self.images.is_empty()
    }

    /// The rows that count, for messages; `None` where all do.
    pub(super) fn only(&self) -> Option<String> {
        let wanted: Vec<String> = self
            .only
            .iter()
            .map(|(column, values)| format!("{column} = `{}`", values.join("` or `")))
            .collect();
        (!wanted.is_empty()).then(|| wanted.join(", "))
    }

    /// Makes the sample of one row; `None` for a row that [`only`](Self::only) leaves out.
    pub(super) fn sample(&self, cx: &RowContext<'_>) -> Result<Option<Sample>, DataError> {
        let row = Derived::with_all(&self.derived, cx)?;
        let cx = &cx.with_row(&row);
        for (column, wanted) in &self.only {
            if !wanted.contains(&cx.text(column)?) {
                return Ok(None);
            }
        }
        let mut flags = Vec::new();
        let mut question = Question { stem: filled(cx, &self.question)?, ..Question::default() };
        if let Some(column) = &self.subtitles {
            question.subtitles = Some(cx.text(column)?);
        }
        let kind = self.kind.of(cx)?;
        if let Some(options) = self.options.as_ref().filter(|_| kind == AnswerKind::Choice) {
            question.options = self.options(cx, options)?;
            question.letters = letters(question.options.len());
        }
        let gold = self.gold(cx, kind, &question, &mut flags)?;
        let id = match &self.id {
            Some(cells) => filled(cx, cells)?,
            None => cx.number.to_string(),
        };
        let path = |cells: &Cells| cx.path(first_column(cells), &filled(cx, cells)?);
        let images = self.images.iter().map(path).collect::<Result<Vec<_>, _>>()?;
        let video = match &self.video {
            Some(cells) => path(cells)?,
            None => images.first().cloned().unwrap_or_default(),
        };
        let mut tags = Tags::new();
        for (tag, column) in &self.tags {
            // A row without a label is in no group of the breakdown.
            if !cx.published.column::<Value>(column)?.is_null() {
                tags.insert(tag.clone(), vec![cx.text(column)?]);
            }
        }
        let evidence = self.evidence.as_ref().map(|columns| evidence(cx, columns)).transpose()?.flatten();
        if self.evidence.is_some() && evidence.is_none() {
            flags.push(SEVERAL_EVIDENCE.to_owned());
        }
        if evidence.is_some_and(|evidence| evidence.length() < 0.0) {
            flags.push(REVERSED_EVIDENCE.to_owned());
        }
        let evidence = evidence.or(gold.interval());
        Ok(Some(Sample { images, tags, flags, evidence, ..cx.sample(id, video, question, gold) }))
    }

    fn options(&self, cx: &RowContext<'_>, options: &OneOrMany) -> Result<Vec<String>, DataError> {
        let (column, (mut found, is_bare)) = match options {
            OneOrMany::One(column) => (column.as_str(), option_cells::of_column(cx, column)?),
            // Rows with fewer options leave the last columns empty.
            OneOrMany::Many(columns) => {
                let mut found = Vec::new();
                for column in columns {
                    if !cx.published.column::<Value>(column)?.is_null() {
                        found.push(cx.text(column)?);
                    }
                }
                (columns.first().map_or("", String::as_str), (found, false))
            }
        };
        if !(2..=MAX_OPTIONS).contains(&found.len()) {
            let message = format!("expected 2 to {MAX_OPTIONS} options, found {}", found.len());
            return Err(cx.error(column, message));
        }
        let lettered =
            || found.iter().zip('A'..).all(|(option, letter)| without_letter(option, letter).is_some());
        let takes_off = match self.lettered {
            Lettered::No => false,
            Lettered::Yes => true,
            Lettered::Some => lettered(),
        };
        if takes_off && !is_bare {
            for (option, letter) in found.iter_mut().zip('A'..) {
                let bare = without_letter(option, letter);
                let message = || format!("expected an option that begins with `{letter}.`, found `{option}`");
                *option = bare.ok_or_else(|| cx.error(column, message()))?.to_owned();
            }
        }
        Ok(found)
    }

    fn gold(
        &self,
        cx: &RowContext<'_>,
        kind: AnswerKind,
        question: &Question,
        flags: &mut Vec<String>,
    ) -> Result<Gold, DataError> {
        if let Some(interval) = &self.interval {
            let gold = span(cx, interval)?;
            flags.extend(intervals::flags(gold, None).map(str::to_owned));
            return Ok(Gold::Interval { start: gold.start, end: gold.end });
        }
        let column = self.answer.as_deref().unwrap_or_default();
        let answer = cx.text(column)?;
        Ok(match kind {
            AnswerKind::Text => Gold::Text { answer, counted: true },
            AnswerKind::Number => {
                let number = answer.trim().parse().ok().filter(|number: &f64| number.is_finite());
                let message = || format!("expected a number, found `{answer}`");
                Gold::Number { answer: number.ok_or_else(|| cx.error(column, message()))? }
            }
            AnswerKind::Choice | AnswerKind::Interval => {
                Gold::Choice { answer: self.letter(cx, column, &answer, question, flags)? }
            }
        })
    }

    fn letter(
        &self,
        cx: &RowContext<'_>,
        column: &str,
        answer: &str,
        question: &Question,
        flags: &mut Vec<String>,
    ) -> Result<String, DataError> {
        let last = question.options.len() - 1;
        let (index, expected) = match self.answer_is {
            AnswerIs::Letter => {
                let is_plain = question.letters.contains(answer.trim());
                let read = if is_plain { None } else { option_cells::letter_of(answer, question) };
                let found = cx.letter(column, read.as_deref().unwrap_or(answer), &question.letters, flags);
                let message = || {
                    let (letters, found) = (&question.letters, excerpt(answer));
                    format!(
                        "expected one of the letters {letters}, alone or with its option, found `{found}`"
                    )
                };
                return match option_cells::label(answer) {
                    Some(_) => found.map_err(|_| cx.error(column, message())),
                    None => found,
                };
            }
            AnswerIs::Index => (whole(answer), format!("an index from 0 to {last}")),
            AnswerIs::Option => {
                let same = |option: &String| option.trim() == answer.trim();
                (question.options.iter().position(same), "one of the options".to_owned())
            }
        };
        let letter = index.and_then(|index: usize| question.letters.chars().nth(index));
        letter
            .map(String::from)
            .ok_or_else(|| cx.error(column, format!("expected {expected}, found `{answer}`")))
    }
}

/// The first column of a text, for errors about the whole.
fn first_column(cells: &Cells) -> &str {
    cells.0.slots().next().unwrap_or_default()
}

fn filled(cx: &RowContext<'_>, cells: &Cells) -> Result<String, DataError> {
    let mut values = Vec::new();
    for column in cells.0.slots() {
        values.push((column, cx.text(column)?));
    }
    let values: Vec<(&str, &str)> = values.iter().map(|(column, value)| (*column, value.as_str())).collect();
    cells.0.render(&values).map_err(|error| cx.error(first_column(cells), error.to_string()))
}

/// An index, also as a float: a column with empty cells often is one of floats.
fn whole(text: &str) -> Option<usize> {
    let number: f64 = text.trim().parse().ok()?;
    (number.fract() == 0.0 && (0.0..MAX_OPTIONS as f64).contains(&number)).then_some(number as usize)
}

/// Flag of a row whose evidence is several intervals: it is in no breakdown by the place of the evidence.
const SEVERAL_EVIDENCE: &str = "several_intervals_of_evidence";

/// Interval of the evidence; `None` of a list of several. A list of one is that one.
fn evidence(cx: &RowContext<'_>, columns: &OneOrMany) -> Result<Option<TimeSpan>, DataError> {
    let OneOrMany::One(column) = columns else { return span(cx, columns).map(Some) };
    let cells: Vec<Value> = cx.published.column(column)?;
    match &cells[..] {
        [one @ Value::Array(_)] => {
            let row = JsonRow::from_iter([(column.clone(), one.clone())]);
            span(&cx.with_row(&row), columns).map(Some)
        }
        [Value::Array(_), ..] => Ok(None),
        _ => span(cx, columns).map(Some),
    }
}

/// Start and end in seconds: numbers, or clock times. They are not put right where they are reversed or negative.
fn span(cx: &RowContext<'_>, interval: &OneOrMany) -> Result<TimeSpan, DataError> {
    let (columns, cells): ([&str; 2], [Value; 2]) = match interval {
        OneOrMany::One(column) => {
            let cells: Vec<Value> = cx.published.column(column)?;
            let message = format!("expected a list of start and end, found {} values", cells.len());
            ([column; 2], cells.try_into().map_err(|_| cx.error(column, message))?)
        }
        OneOrMany::Many(columns) => {
            let [start, end] = [0, 1].map(|index| columns.get(index).map_or("", String::as_str));
            ([start, end], [cx.published.column(start)?, cx.published.column(end)?])
        }
    };
    let seconds = |index: usize| {
        let found = match &cells[index] {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => match text.trim().strip_prefix('-') {
                Some(negative) => clock_seconds(negative).map(std::ops::Neg::neg),
                None => clock_seconds(text.trim()),
            },
            _ => None,
        };
        found.filter(|seconds| seconds.is_finite()).ok_or_else(|| {
            let message = format!("expected seconds or hh:mm:ss, found `{}`", cells[index]);
            cx.error(columns[index], message)
        })
    };
    Ok(TimeSpan::new(seconds(0)?, seconds(1)?))
}
