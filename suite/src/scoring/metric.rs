//! Metrics of splits.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::group::Structure;
use crate::sample::{Gold, Tags};

/// One number of a split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricValue {
    /// Name, e.g. `accuracy`, `mIoU`, `R@0.5`, `mean over task_type`.
    pub name: String,
    /// Value, between 0 and 1.
    pub value: f64,
    /// Denominator: samples, or groups of a mean over groups.
    pub n: usize,
    /// How it is made of the samples' scores.
    pub over: Over,
}

/// How a metric is made of the samples' scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Their mean.
    Samples,
    /// The mean of the groups' means.
    Groups,
    /// The share of samples with at least a threshold.
    Threshold,
    /// The mean of the scores of groups of four questions.
    #[serde(rename = "fours")]
    QuestionGroups,
}

/// The official metric of a split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Metric {
    /// Share of right answers.
    Accuracy {
        /// Tag whose group means are averaged for the official headline (MLVU's M-Avg), if any.
        macro_over: Option<String>,
    },
    /// Temporal grounding: mean IoU and recall at IoU thresholds.
    Grounding {
        /// Thresholds of R@1, e.g. 0.3, 0.5, 0.7.
        thresholds: Vec<f64>,
    },
    /// Mean of the samples' scores where they are of several kinds.
    Score {
        /// Tag whose group means are averaged for the official headline, if any.
        macro_over: Option<String>,
        /// Groups that count as one in that average, by its name: the mean of their means.
        #[serde(default)]
        merged: BTreeMap<String, Vec<String>>,
    },
    /// Mean score of groups of four choice questions (Video-MME-v2), and their accuracy. Each field but the last is the
    /// tag that says so of a question.
    GroupScore {
        group: String,
        /// Its place in the group: a number, of which only the order counts.
        place: String,
        /// How the group is scored: `relevance` or `logic`.
        rule: String,
        /// Which questions rest on which, where the rule is `logic`.
        structure: String,
        /// Tags by whose labels the score is broken down; the label of a group is that of its last question.
        by: Vec<String>,
    },
}

impl Metric {
    /// Name of the mean over samples.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Accuracy { .. } => "accuracy",
            Self::Grounding { .. } => "mIoU",
            Self::Score { .. } => "score",
            Self::GroupScore { .. } => "accuracy",
        }
    }

    /// All names, short enough for a list of benchmarks.
    pub fn label(&self) -> String {
        match (self.thresholds(), self.macro_over()) {
            _ if matches!(self, Self::GroupScore { .. }) => "group score".to_owned(),
            ([_, ..], _) => format!("{}, R@IoU", self.name()),
            ([], Some(_)) => format!("{}, avg", self.name()),
            ([], None) => self.name().to_owned(),
        }
    }

    /// Tag whose group means are averaged for the official headline.
    pub fn macro_over(&self) -> Option<&str> {
        match self {
            Self::Accuracy { macro_over } | Self::Score { macro_over, .. } => macro_over.as_deref(),
            Self::Grounding { .. } | Self::GroupScore { .. } => None,
        }
    }

    /// Groups that count as one in the average over [`macro_over`](Self::macro_over), by its name.
    pub fn merged(&self) -> Option<&BTreeMap<String, Vec<String>>> {
        match self {
            Self::Score { merged, .. } => Some(merged),
            Self::Accuracy { .. } | Self::Grounding { .. } | Self::GroupScore { .. } => None,
        }
    }

    /// Thresholds at which recall is reported.
    pub fn thresholds(&self) -> &[f64] {
        match self {
            Self::Grounding { thresholds } => thresholds,
            Self::Accuracy { .. } | Self::Score { .. } | Self::GroupScore { .. } => &[],
        }
    }

    /// A gold answer of the kind that the split asks for, with nothing in it: for rows that cannot be read
    /// and for examples.
    pub fn empty_gold(&self) -> Gold {
        match self {
            Self::Grounding { .. } => Gold::Interval { start: 0.0, end: 0.0 },
            Self::Accuracy { .. } | Self::Score { .. } | Self::GroupScore { .. } => {
                Gold::Choice { answer: String::new() }
            }
        }
    }

    /// Tags whose groups the metric is made of.
    pub(crate) fn group_tag(&self) -> Option<&str> {
        match self {
            Self::GroupScore { group, .. } => Some(group),
            _ => self.macro_over(),
        }
    }

    /// The group of a question, its place there and the group's structure; `None` where the metric has no groups of
    /// questions.
    ///
    /// # Errors
    /// The tag that is missing or has another value, and what is expected.
    pub fn member<'a>(&self, tags: &'a Tags) -> Result<Option<Member<'a>>, (&str, String)> {
        let Self::GroupScore { group, place, rule, structure, .. } = self else { return Ok(None) };
        let label = |tag: &String| tags.get(tag).and_then(|labels| labels.first()).map(String::as_str);
        let missing = |tag| (tag, "missing; the metric needs it".to_owned());
        let needed = |tag| label(tag).ok_or_else(|| missing(tag.as_str()));
        let number = needed(place)?.trim().parse();
        Ok(Some(Member {
            group: needed(group)?,
            place: number.map_err(|_| (place.as_str(), "expected a number".to_owned()))?,
            structure: Structure::read(needed(rule)?, label(structure).unwrap_or_default()).map_err(
                |message| (if label(rule) == Some("logic") { structure } else { rule }.as_str(), message),
            )?,
        }))
    }
}

/// A question of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<'a> {
    pub group: &'a str,
    /// Number by which the questions of the group are ordered.
    pub place: u32,
    pub structure: Structure,
}
