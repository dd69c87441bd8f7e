//! What a log of another harness counts as an answer, and what its score would be by the corrected rules.

mod show;

use std::collections::{BTreeMap, HashMap};

use paravt_reports::{Report, ReportError};
use paravt_suite::record::{Outcome, Record};
use paravt_suite::sample::QuestionKind;
use serde::Serialize;

use crate::import::{Imported, Log, Row, Score, Tool};

pub use show::{table, terminal};

/// Kinds of rows whose answer is doubtful, each row counted under the first that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// The request failed: the file says so, or the text in place of an answer does.
    Failure,
    /// Nothing stands in the file.
    Empty,
    /// The harness drew an option: it says so, or its answer is not in the text.
    Random,
    /// The harness took an answer from running text, where the corrected rules find none given.
    Prose,
    /// Neither finds an answer, or the file does not say what the harness found.
    Unparsed,
}

impl Doubt {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Failure, Self::Empty, Self::Random, Self::Prose, Self::Unparsed];

    /// In tables.
    pub fn title(self) -> &'static str {
        match self {
            Self::Failure => "failed requests",
            Self::Empty => "empty answers",
            Self::Random => "random fall-backs",
            Self::Prose => "letters from prose",
            Self::Unparsed => "no answer found",
        }
    }
}

/// Rows of one kind.
#[derive(Debug, Clone, Serialize)]
pub struct Count {
    pub doubt: Doubt,
    pub rows: usize,
    /// Of these, rows to which the harness gave an answer or a score.
    pub scored: usize,
    /// Of these, rows that it counts as right, also in part.
    pub right: usize,
    /// The first ones.
    pub examples: Vec<Example>,
}

/// A row to look at.
#[derive(Debug, Clone, Serialize)]
pub struct Example {
    /// Line, element or sheet row of its file.
    pub place: usize,
    pub id: String,
    /// The answer that the harness took.
    pub prediction: Option<String>,
    pub text: String,
}

/// A score with its denominator.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Mean {
    /// Share.
    pub value: f64,
    /// Rows.
    pub n: usize,
}

/// A metric of the file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metric {
    pub name: String,
    /// Mean of its scores; `None` where a number is not between 0 and 1, or there is none.
    pub reported: Option<Mean>,
    /// The same with failures, empty answers and random fall-backs counted 0.
    pub answered: Option<Mean>,
    /// Rows with something else than a number, left out.
    pub without_number: usize,
    /// Rows with a number that is not between 0 and 1.
    pub out_of_range: usize,
}

/// Scores of one metric.
#[derive(Default)]
struct Tally {
    sum: f64,
    answered: f64,
    n: usize,
    without_number: usize,
    out_of_range: usize,
}

impl Tally {
    fn add(&mut self, score: &Score, doubt: Option<Doubt>) {
        match (score.share(), score.number) {
            (Some(share), _) => {
                let has_answer = !matches!(doubt, Some(Doubt::Failure | Doubt::Empty | Doubt::Random));
                self.sum += share;
                self.answered += if has_answer { share } else { 0.0 };
                self.n += 1;
            }
            (None, Some(_)) => self.out_of_range += 1,
            (None, None) => self.without_number += 1,
        }
    }

    fn metric(&self, name: &str) -> Metric {
        // A metric of another scale has no mean: its zeros would be all that is left of it.
        let has_mean = self.n > 0 && self.out_of_range == 0;
        let mean = |sum: f64| has_mean.then(|| Mean { value: sum / self.n as f64, n: self.n });
        Metric {
            name: name.to_owned(),
            reported: mean(self.sum),
            answered: mean(self.answered),
            without_number: self.without_number,
            out_of_range: self.out_of_range,
        }
    }
}

/// The score by the corrected rules.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StrictScore {
    /// Share over all rows that the evaluation was to have: a failed or missing one counts 0.
    pub value: f64,
    /// 95 % interval, clustered by video; `None` for fewer than two.
    pub interval: Option<(f64, f64)>,
    /// Rows.
    pub n: usize,
    /// The same over the rows that are in the files.
    pub over_rows: Mean,
    /// Of these, open answers, which are compared by normalised exact match: a judge would say otherwise.
    pub open: usize,
    /// Videos; as many as questions where the file does not name them.
    pub videos: usize,
}

/// The audit of one log.
#[derive(Debug, Clone, Serialize)]
pub struct Audit {
    /// Name of its first file.
    pub log: String,
    pub tool: Tool,
    /// Model, where the file says.
    pub model: Option<String>,
    /// Data set.
    pub task: String,
    /// Rows in the files.
    pub rows: usize,
    /// Rows that there should be, where that is known.
    pub expected: Option<usize>,
    /// Of these, rows that are missing from the files.
    pub missing: usize,
    /// Rows whose sample occurred before.
    #[serde(rename = "twice")]
    pub duplicates: usize,
    /// Rows of no sample of the split.
    pub unknown: usize,
    /// Rows without a gold answer.
    pub without_gold: usize,
    /// Lines of other filters, left out.
    pub other_filters: usize,
    /// Objects that are not rows, left out.
    pub other_objects: usize,
    /// Replies that ended at the token limit.
    pub truncated: usize,
    /// Doubtful rows by kind.
    pub doubts: Vec<Count>,
    /// What each metric of the file says, in the order of their names.
    pub metrics: Vec<Metric>,
    /// Mean of the scores in the file, where it has one metric.
    pub reported: Option<Mean>,
    /// The same with failures, empty answers and random fall-backs counted 0.
    pub answered: Option<Mean>,
    /// The score by the corrected rules, where gold answers are known.
    pub strict: Option<StrictScore>,
    /// The file names a video for each question.
    pub names_videos: bool,
}

impl Audit {
    /// Failures or drawn options stand as answers, or rows are missing.
    pub fn has_finding(&self) -> bool {
        let count = |doubt: Doubt| &self.doubts[doubt as usize];
        self.missing > 0 || count(Doubt::Failure).scored > 0 || count(Doubt::Random).rows > 0
    }
}

/// Examples that are kept of a kind.
const EXAMPLES: usize = 5;
/// Characters of an example's text.
const EXCERPT: usize = 120;

/// Audits a log; `imported` is the run made of it.
///
/// # Errors
/// The run's records do not add up.
pub fn audit(log: &Log, imported: &Imported, expected: Option<usize>) -> Result<Audit, ReportError> {
    let records: HashMap<usize, &Record> = imported.rows.iter().copied().zip(&imported.run.records).collect();
    let mut doubts: Vec<Count> =
        Doubt::ALL.map(|doubt| Count { doubt, rows: 0, scored: 0, right: 0, examples: Vec::new() }).into();
    let mut tallies: BTreeMap<&str, Tally> = BTreeMap::new();
    for (place, row) in log.rows.iter().enumerate() {
        let outcome = records.get(&place).map(|record| record.score.outcome);
        let doubt = doubt(row, outcome);
        row.scores.iter().for_each(|score| tallies.entry(&score.metric).or_default().add(score, doubt));
        if let Some(doubt) = doubt {
            let count = &mut doubts[doubt as usize];
            count.rows += 1;
            count.scored += usize::from(row.is_scored());
            count.right += usize::from(row.is_right());
            if count.examples.len() < EXAMPLES {
                count.examples.push(example(row));
            }
        }
    }
    let metrics: Vec<Metric> = tallies.iter().map(|(name, tally)| tally.metric(name)).collect();
    let only = <&[Metric; 1]>::try_from(&metrics[..]).ok().map(|[only]| only.clone());
    let manifest = &imported.run.manifest;
    let all = manifest.selection.split_rows.saturating_mul(manifest.plan.repeat);
    let known = expected.or(log.expected).or((all > log.rows.len()).then_some(all));
    let distinct = log.rows.len() - imported.duplicates - imported.unknown;
    Ok(Audit {
        log: log.name(),
        tool: log.tool,
        model: log.model.clone(),
        task: manifest.task.name.clone(),
        rows: log.rows.len(),
        expected: known,
        missing: known.map_or(0, |expected| expected.saturating_sub(distinct)),
        duplicates: imported.duplicates,
        unknown: imported.unknown,
        without_gold: imported.without_gold,
        other_filters: log.other_filters,
        other_objects: log.other_objects,
        truncated: log.rows.iter().filter(|row| row.is_truncated || is_cut(row)).count(),
        doubts,
        reported: only.as_ref().and_then(|only| only.reported),
        answered: only.and_then(|only| only.answered),
        metrics,
        strict: strict(imported)?,
        names_videos: imported
            .run
            .records
            .iter()
            .all(|record| record.sample.video.as_os_str() != record.sample.uid.as_str()),
    })
}

/// The first kind of doubt that fits a row; `outcome` is that of its record, where it has one.
fn doubt(row: &Row, outcome: Option<Outcome>) -> Option<Doubt> {
    if row.failure().is_some() {
        return Some(Doubt::Failure);
    }
    if row.is_empty() {
        return Some(Doubt::Empty);
    }
    if row.is_random || !holds_prediction(row) {
        return Some(Doubt::Random);
    }
    if outcome != Some(Outcome::Unparsed) {
        return None;
    }
    let is_taken = row.prediction.is_some() || row.is_right();
    Some(if is_taken { Doubt::Prose } else { Doubt::Unparsed })
}

/// Whether the answer that the harness took can be from the text: its capital letter, the letter as a word, or the words
/// of its option are there.
fn holds_prediction(row: &Row) -> bool {
    let (Some(prediction), Some(response)) = (&row.prediction, &row.response) else { return true };
    let mut chars = prediction.trim().chars();
    let (Some(letter), None) = (chars.next().filter(char::is_ascii_uppercase), chars.next()) else {
        return true;
    };
    let folded = response.to_lowercase();
    let small = letter.to_ascii_lowercase().to_string();
    let is_word = || folded.split(|c: char| !c.is_alphanumeric()).any(|word| word == small);
    let option = row.options.get(usize::from(letter as u8 - b'A'));
    let words = option.map(|option| {
        let option = option.trim().to_lowercase();
        option.strip_prefix(&format!("{small}.")).unwrap_or(&option).trim().to_owned()
    });
    let is_option = || words.is_some_and(|words| !words.is_empty() && folded.contains(&words));
    response.contains(letter) || is_word() || is_option()
}

/// A thought or an answer that begins and does not end.
fn is_cut(row: &Row) -> bool {
    let text = row.response.as_deref().unwrap_or_default();
    [("<think>", "</think>"), ("<answer>", "</answer>")]
        .iter()
        .any(|(open, close)| text.rfind(open).is_some_and(|at| !text[at..].contains(close)))
}

fn example(row: &Row) -> Example {
    let text = row.error.as_deref().or(row.response.as_deref()).unwrap_or_default();
    let mut excerpt: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if excerpt.chars().count() > EXCERPT {
        excerpt = excerpt.chars().take(EXCERPT).chain("…".chars()).collect();
    }
    Example { place: row.place, id: row.id.clone(), prediction: row.prediction.clone(), text: excerpt }
}

fn strict(imported: &Imported) -> Result<Option<StrictScore>, ReportError> {
    let records = &imported.run.records;
    if records.is_empty() {
        return Ok(None);
    }
    let sum: f64 = records.iter().map(|record| record.score.value).sum();
    let over_rows = Mean { value: sum / records.len() as f64, n: records.len() };
    let open = records.iter().filter(|record| record.sample.gold.kind() == QuestionKind::Open).count();
    let report = Report::build([&imported.run], None)?;
    let cell = report.cells.first();
    Ok(cell.and_then(|cell| {
        let (value, interval) = (cell.score()?, cell.interval);
        Some(StrictScore { value, interval, n: cell.n(), over_rows, open, videos: cell.videos })
    }))
}
