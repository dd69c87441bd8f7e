//! What runs say of a claim.

use crate::cells::Cell;
use crate::decide::{Effect, Verdict};

/// What runs say of a claim: a share, of a training curve in the claim's own unit.
pub(super) struct Measured {
    pub value: Option<f64>,
    pub interval: Option<(f64, f64)>,
    pub effect: Option<Effect>,
    pub p_holm: Option<f64>,
    /// Inconclusive until its family is judged.
    pub verdict: Verdict,
}

impl Measured {
    /// A value that is to be judged.
    pub(super) fn of(value: Option<f64>, effect: Option<Effect>) -> Self {
        let interval = effect.and_then(|effect| effect.interval());
        Self { value, interval, effect, p_holm: None, verdict: Verdict::Inconclusive }
    }

    pub(super) fn without_value(verdict: Verdict) -> Self {
        Self { verdict, ..Self::of(None, None) }
    }

    /// A cell, which is judged in the family of its row.
    pub(super) fn of_cell(cell: &Cell) -> Self {
        let (value, interval) = cell.over_samples();
        let paper = cell.paper.as_ref();
        let verdict = paper.map_or(Verdict::NotRun, |paper| paper.verdict.clone());
        let p_holm = paper.and_then(|paper| paper.p_holm);
        Self { value: Some(value), interval, effect: None, p_holm, verdict }
    }
}
