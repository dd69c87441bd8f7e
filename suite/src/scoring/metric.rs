//! Metrics of splits.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::sample::Gold;

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
}

impl Metric {
    /// Name of the mean over samples.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Accuracy { .. } => "accuracy",
            Self::Grounding { .. } => "mIoU",
            Self::Score { .. } => "score",
        }
    }

    /// All names, short enough for a list of benchmarks.
    pub fn label(&self) -> String {
        match (self.thresholds(), self.macro_over()) {
            ([_, ..], _) => format!("{}, R@IoU", self.name()),
            ([], Some(_)) => format!("{}, avg", self.name()),
            ([], None) => self.name().to_owned(),
        }
    }

    /// Tag whose group means are averaged for the official headline.
    pub fn macro_over(&self) -> Option<&str> {
        match self {
            Self::Accuracy { macro_over } | Self::Score { macro_over, .. } => macro_over.as_deref(),
            Self::Grounding { .. } => None,
        }
    }

    /// Groups that count as one in the average over [`macro_over`](Self::macro_over), by its name.
    pub fn merged(&self) -> Option<&BTreeMap<String, Vec<String>>> {
        match self {
            Self::Score { merged, .. } => Some(merged),
            Self::Accuracy { .. } | Self::Grounding { .. } => None,
        }
    }

    /// Thresholds at which recall is reported.
    pub fn thresholds(&self) -> &[f64] {
        match self {
            Self::Grounding { thresholds } => thresholds,
            Self::Accuracy { .. } | Self::Score { .. } => &[],
        }
    }

    /// A gold answer of the kind that the split asks for, with nothing in it: for rows that cannot be read
    /// and for examples.
    pub fn empty_gold(&self) -> Gold {
        match self {
            Self::Grounding { .. } => Gold::Interval { start: 0.0, end: 0.0 },
            Self::Accuracy { .. } | Self::Score { .. } => Gold::Choice { answer: String::new() },
        }
    }
}
