//! The paper's claims as data (`data/claims.toml`) and what the runs at hand say about each.

mod judge;
mod measured;
mod trained;

use serde::{Deserialize, Serialize};

use crate::decide::{Effect, Verdict};
use crate::paper::{PaperError, PaperNumbers, SPLITS};

pub(crate) use judge::{Evidence, judge};
pub(crate) use trained::Claimed;

/// Unit of a claim's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Accuracy or mean IoU, or a relative gain, in percent.
    Percent,
    /// Difference of two percentages.
    Points,
    /// Between 0 and 1.
    Share,
    /// Tool calls per rollout.
    Calls,
}

impl Unit {
    /// Short name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Percent => "%",
            Self::Points => "points",
            Self::Share => "share",
            Self::Calls => "calls",
        }
    }
}

/// Measure of a claim. Rows are those of the published tables, see [`PaperNumbers::value`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Measure {
    /// One claim for each published column of a row.
    Cell {
        row: String,
    },
    /// Mean over the seven columns of `row / baseline - 1`.
    MeanRelativeGain {
        row: String,
        /// Row that the gain is measured from.
        baseline: String,
    },
    /// One claim for each published column: `to` less `from`.
    Difference {
        /// Row that the difference is measured from.
        from: String,
        to: String,
    },
    Training {
        series: String,
        statistic: Statistic,
    },
}

/// Statistic of a training curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    First,
    Mean,
    Peak,
}

/// One entry of the data file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub id: String,
    /// Title; `{split}` is filled in where a claim stands for several columns.
    pub title: String,
    /// The number, where it is not a cell of a published table.
    pub published: Option<f64>,
    pub unit: Option<Unit>,
    /// Place in the data file of published numbers.
    pub pointer: Option<String>,
    /// Equivalence margin, where it does not follow from the published numbers.
    pub margin: Option<f64>,
    /// Key of the sources in the data file of published numbers.
    pub source: String,
    pub confidence: String,
    pub note: Option<String>,
    pub measure: Measure,
}

/// A claim and its verdict.
#[derive(Debug, Clone, Serialize)]
pub struct Judged {
    /// Name, with the split where a claim stands for several.
    pub id: String,
    pub title: String,
    pub published: f64,
    pub unit: Unit,
    /// Equivalence margin.
    pub margin: f64,
    pub measured: Option<f64>,
    /// 95 % interval of ours.
    pub interval: Option<(f64, f64)>,
    /// P-value of the verdict after Holm's correction over the claim's splits.
    pub p_holm: Option<f64>,
    /// Name of the training curve, of a claim about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    pub verdict: Verdict,
    /// Table or figure of the published number.
    pub source: String,
    pub confidence: String,
    pub note: Option<String>,
    #[serde(skip)]
    effect: Option<Effect>,
}

/// The claims and the training that those about curves are made of.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claims {
    /// The training whose curves are published.
    pub training: Claimed,
    pub claims: Vec<Claim>,
}

impl Claims {
    /// The claims of this build.
    pub(crate) fn embedded() -> Result<Self, PaperError> {
        toml::from_str(include_str!("../../data/claims.toml"))
            .map_err(|error| PaperError::Damaged(error.to_string()))
    }
}

/// What is to be known of the released trainer beside claims about its training, where one was judged.
pub(crate) fn defects(judged: &[Judged]) -> Result<Option<String>, PaperError> {
    let is_judged = |claim: &Judged| {
        claim.series.is_some() && !matches!(claim.verdict, Verdict::NotRun | Verdict::NotComparable(_))
    };
    judged.iter().any(is_judged).then(|| Ok(Claims::embedded()?.training.defects)).transpose()
}

/// The splits that both rows have a published value for.
fn columns<'a>(paper: &'a PaperNumbers, rows: &'a [&str]) -> impl Iterator<Item = &'static str> + 'a {
    let has = |split: &str| rows.iter().all(|row| paper.value(row, split).is_ok_and(|value| value.is_some()));
    SPLITS.iter().map(|(split, _)| *split).filter(move |split| has(split))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_is_in_the_published_numbers_with_its_source() {
        let (claims, paper) = (Claims::embedded().unwrap(), PaperNumbers::embedded().unwrap());
        for claim in &claims.claims {
            assert!(paper.source(&claim.source).is_some(), "{}: source {}", claim.id, claim.source);
            if let Some(pointer) = &claim.pointer {
                assert_eq!(paper.number(pointer), claim.published, "{}: {pointer}", claim.id);
            }
            let rows: Vec<&str> = match &claim.measure {
                Measure::Cell { row } => vec![row],
                Measure::MeanRelativeGain { row, baseline } => vec![row, baseline],
                Measure::Difference { from, to } => vec![from, to],
                Measure::Training { .. } => {
                    assert!(claim.pointer.is_some() && claim.margin.is_some(), "{}", claim.id);
                    continue;
                }
            };
            assert!(columns(&paper, &rows).count() >= 4, "{}: {rows:?}", claim.id);
        }
    }
}
