//! The one form: a log and its rows.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use paravt_suite::sample::QuestionKind;
use regex::RegexSet;
use serde::Serialize;
use serde_json::Value;

use super::values::number;

/// Harness that wrote a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// lmms-eval's `*_samples_TASK.jsonl`.
    LmmsEval,
    /// lm-evaluation-harness' `samples_TASK_TIME.jsonl`.
    LmEval,
    /// VLMEvalKit's predictions: `.xlsx`, `.tsv`, `.json`.
    #[serde(rename = "vlmevalkit")]
    VlmEvalKit,
    /// Inspect's `.json` and `.eval`.
    Inspect,
    /// A table whose columns a mapping names.
    #[default]
    Table,
}

impl Tool {
    /// Name as its authors write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LmmsEval => "lmms-eval",
            Self::LmEval => "lm-eval",
            Self::VlmEvalKit => "VLMEvalKit",
            Self::Inspect => "inspect",
            Self::Table => "table",
        }
    }
}

/// Answers of one model to one data set.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// Who wrote it.
    pub tool: Tool,
    /// Model, where the files say.
    pub model: Option<String>,
    /// Data set, where the files say.
    pub task: Option<String>,
    /// Files by name, with SHA-256.
    pub files: BTreeMap<String, String>,
    /// Rows that the evaluation was to have, where the files say.
    pub expected: Option<usize>,
    /// Lines that are of another filter than the first.
    pub other_filters: usize,
    /// Objects that have none of the columns of a row.
    pub other_objects: usize,
    /// Rows in the order of the files.
    pub rows: Vec<Row>,
}

impl Log {
    /// Adds the rows of another part.
    pub(super) fn append(&mut self, part: Self) {
        self.files.extend(part.files);
        self.rows.extend(part.rows);
        self.other_filters += part.other_filters;
        self.other_objects += part.other_objects;
        self.expected = self.expected.zip(part.expected).map(|(ours, theirs)| ours + theirs);
        self.model = self.model.take().or(part.model);
        self.task = self.task.take().or(part.task);
    }

    /// Name in tables: that of the first file.
    pub fn name(&self) -> String {
        let mut names = self.files.keys();
        let first = names.next().cloned().unwrap_or_default();
        match names.count() {
            0 => first,
            more => format!("{first} and {more} more"),
        }
    }
}

/// One question and what the harness made of the answer.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// Line, element or sheet row in its file, from 1.
    pub place: usize,
    /// Name of the sample.
    pub id: String,
    /// Row of the published file, where the tool counts rows, from 0.
    pub row: Option<usize>,
    /// Repetition, from 1, where a sample was asked more than once.
    pub epoch: usize,
    /// The question, or the whole prompt.
    pub question: String,
    pub options: Vec<String>,
    /// Kind of the question, where the file says.
    pub kind: Option<QuestionKind>,
    /// The gold answer; a letter for choices.
    pub gold: Option<String>,
    /// What the model wrote; `None` where nothing stands in the file.
    pub response: Option<String>,
    /// The answer that the harness took from it.
    pub prediction: Option<String>,
    pub scores: Vec<Score>,
    /// The failure, where the file has a field for it.
    pub error: Option<String>,
    /// The harness says that it picked an answer at random.
    pub is_random: bool,
    /// The reply ended at the token limit, as the file says.
    pub is_truncated: bool,
    pub video: Option<String>,
    pub tags: BTreeMap<String, Vec<String>>,
    /// Prompt and completion tokens.
    pub tokens: Option<(u64, u64)>,
}

/// What a metric of the file says of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// Name of the metric, scorer or column.
    pub metric: String,
    /// The value in the file; `None` unless it is a finite number.
    pub number: Option<f64>,
}

impl Score {
    /// Reads a number, a number as text, or true and false.
    pub(super) fn read(metric: &str, value: &Value) -> Self {
        Self { metric: metric.to_owned(), number: number(value) }
    }

    /// The score; `None` unless it is between 0 and 1. Percentages are not rescaled.
    pub fn share(&self) -> Option<f64> {
        self.number.filter(|number| (0.0..=1.0).contains(number))
    }
}

impl Row {
    /// A metric of the file counts the row as right, also in part.
    pub fn is_right(&self) -> bool {
        self.scores.iter().any(|score| score.share() > Some(0.0))
    }

    /// The harness took an answer from the row, or gave it a score.
    pub(crate) fn is_scored(&self) -> bool {
        self.prediction.is_some() || self.scores.iter().any(|score| score.share().is_some())
    }

    /// The failure of the request: the file's error field, or a response that is a known failure text.
    pub fn failure(&self) -> Option<&str> {
        let text = || self.response.as_deref().filter(|text| FAILURES.is_match(text));
        self.error.as_deref().or_else(text)
    }

    /// The response is empty, and the file states no error.
    pub fn is_empty(&self) -> bool {
        self.error.is_none() && self.response.as_deref().is_none_or(|text| text.trim().is_empty())
    }
}

/// Texts that stand in place of an answer: of lmms-eval (75571cfe `models/chat/async_openai.py`), VLMEvalKit (e8e78f05
/// `api/base.py`), ParaVT (cf55249 `paravt/eval/utils.py`), and what scripts write around the `openai` package.
static FAILURES: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new([
        r"^\s*\[LMMS_EVAL_(REQUEST_FAILED|BUDGET_EXCEEDED)",
        r"^\s*Failed to obtain answer",
        r"^\s*\[API error:",
        r"^\s*(Error code: [45]\d\d\b|Error: |Connection error\.)",
    ])
    .expect("literal patterns")
});
