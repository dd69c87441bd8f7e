//! Kinds of questions of a task file: one for all rows, or one by row.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::RowContext;
use crate::data::DataError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AnswerKind {
    Choice,
    Interval,
    Text,
    Number,
}

/// One kind for all rows, or that of a value in a column.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "expected `choice`, `interval`, `text` or `number`, or { column, values } with the kind of each value"
)]
pub(super) enum AnswerKinds {
    One(AnswerKind),
    Of(KindColumn),
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KindColumn {
    column: String,
    values: BTreeMap<String, AnswerKind>,
}

impl AnswerKinds {
    /// Every kind that a row may have.
    pub(super) fn all(&self) -> Vec<AnswerKind> {
        match self {
            Self::One(kind) => vec![*kind],
            Self::Of(of) => of.values.values().copied().collect(),
        }
    }

    /// Whether any row is of the kind.
    pub(super) fn has(&self, kind: AnswerKind) -> bool {
        self.all().contains(&kind)
    }

    pub(super) fn of(&self, cx: &RowContext<'_>) -> Result<AnswerKind, DataError> {
        match self {
            Self::One(kind) => Ok(*kind),
            Self::Of(KindColumn { column, values }) => {
                let found = cx.text(column)?;
                values.get(&found).copied().ok_or_else(|| {
                    let known: Vec<&str> = values.keys().map(String::as_str).collect();
                    cx.error(column, format!("expected one of {}, found `{found}`", known.join(", ")))
                })
            }
        }
    }
}

/// Whether options of a list stand there with their letters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "LetteredValue")]
pub(super) enum Lettered {
    /// In no row.
    #[default]
    No,
    /// In every row.
    Yes,
    /// In some rows, there all of them.
    Some,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected true, false or \"some\"")]
enum LetteredValue {
    All(bool),
    Word(String),
}

impl TryFrom<LetteredValue> for Lettered {
    type Error = &'static str;

    fn try_from(value: LetteredValue) -> Result<Self, Self::Error> {
        match value {
            LetteredValue::All(true) => Ok(Self::Yes),
            LetteredValue::All(false) => Ok(Self::No),
            LetteredValue::Word(word) if word == "some" => Ok(Self::Some),
            LetteredValue::Word(_) => Err("expected true, false or \"some\""),
        }
    }
}
