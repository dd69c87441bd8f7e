//! Rules of the gate: which change is a regression.

use serde::{Deserialize, Serialize};

/// The rule that a baseline declares and later runs are judged by.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    pub score: ScoreRule,
    /// Failed samples that a run may have beyond the baseline's.
    pub more_errors: usize,
    /// Samples without their video's frames that a run may have beyond the baseline's.
    pub more_lost: usize,
    /// The model may be another one: what is gated is a training that ends in a model of its own.
    #[serde(default)]
    pub any_model: bool,
}

/// Rule for scores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ScoreRule {
    /// The paired effect must show that no more than `drop_points` points are lost.
    Interval {
        /// Points that a score may drop: the margin of non-inferiority.
        drop_points: f64,
    },
    /// The same model under greedy decoding answers the same: answers are compared one by one.
    Exact {
        /// Answers that may differ, over all samples of a split: near ties that rounding turns.
        changed: usize,
    },
    /// The mean over the splits must lie inside the spread of the baseline's training seeds.
    Seeds,
}

impl Default for Rule {
    fn default() -> Self {
        let score = ScoreRule::Interval { drop_points: 1.0 };
        Self { score, more_errors: 0, more_lost: 0, any_model: false }
    }
}

impl Rule {
    /// Fault of the rule, if any: a limit that nothing can keep or break.
    ///
    /// # Errors
    /// A tolerance that is not a number of points between 0 and 100.
    pub fn check(&self) -> Result<(), String> {
        match self.score {
            ScoreRule::Interval { drop_points } if !(0.0..100.0).contains(&drop_points) => Err(format!(
                "a drop of {drop_points} points cannot be a tolerance; give a number from 0 to below 100"
            )),
            _ => Ok(()),
        }
    }
}
