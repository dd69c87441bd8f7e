//! From claims and runs to verdicts.

use std::collections::BTreeMap;

use paravt_suite::run::Manifest;

use super::{Claim, Claims, Judged, Measure, Unit, columns, trained};
use crate::cells::Cell;
use crate::decide::{Effect, Family, Margin, Support, Verdict};
use crate::frame::Frame;
use crate::order::distinct;
use crate::pairs::Pairs;
use crate::paper::{PaperError, PaperNumbers, SPLITS};
use crate::runs::ReportError;
use crate::settings::Settings;
use crate::statistics::{Cluster, mean};
use crate::training::Training;

/// Margin of a claimed difference or gain, as a share of it: half of it is no longer the claim, and a
/// margin as large as the claim would call "no difference" a reproduction.
const MARGIN_SHARE: f64 = 0.5;
/// Smallest margin of a difference: both published numbers are rounded to a tenth of a point.
const ROUNDING: f64 = 0.1;

/// Measurement that these runs must contain.
pub(crate) struct Evidence<'a> {
    pub settings: &'a Settings,
    /// One cell per run, judged.
    pub cells: &'a [Cell],
    /// Scored samples of each run (see [`Pairs::join`]), in the order of the cells.
    pub samples: &'a [&'a Frame],
    /// Training curves of each run with its manifest.
    pub trainings: &'a [(&'a Manifest, &'a Training)],
}

/// One claim on one split, before its family is decided.
struct Candidate<'a> {
    claim: &'a Claim,
    split: Option<&'static str>,
    published: f64,
    unit: Unit,
    margin: f64,
    result: ClaimResult,
}

/// Measured value, in shares (in the claim's own unit for training curves).
enum ClaimResult {
    NotRun,
    Refused {
        value: Option<f64>,
        why: Vec<String>,
    },
    Measured {
        value: f64,
        effect: Option<Effect>,
    },
    /// A cell, which is judged in the family of its row.
    Cell(usize),
}

/// Judges every claim; the splits of one claim are a family.
///
/// # Errors
/// A claim names a row that the published tables do not have, or records that cannot be paired.
pub(crate) fn judge(
    claims: &Claims,
    paper: &PaperNumbers,
    evidence: &Evidence<'_>,
) -> Result<Vec<Judged>, ReportError> {
    let mut judged = Vec::new();
    for claim in &claims.claims {
        let candidates = candidates(claims, claim, paper, evidence)?;
        let family = Family::of(candidates.iter().filter_map(|candidate| {
            let ClaimResult::Measured { effect, .. } = &candidate.result else { return None };
            let scale = scale(candidate.unit);
            let effect = effect.map(|effect| effect.less(candidate.published / scale));
            Some((effect, Margin::within(candidate.margin / scale)))
        }));
        let mut decisions = family.decide().into_iter();
        for candidate in candidates {
            let decision = match candidate.result {
                ClaimResult::Measured { .. } => decisions.next(),
                _ => None,
            };
            let (verdict, p_holm) = match &candidate.result {
                ClaimResult::NotRun => (Verdict::NotRun, None),
                ClaimResult::Refused { why, .. } => (Verdict::NotComparable(why.clone()), None),
                ClaimResult::Cell(index) => {
                    let paper = evidence.cells[*index].paper.as_ref();
                    let verdict = paper.map_or(Verdict::NotRun, |paper| paper.verdict.clone());
                    (verdict, paper.and_then(|paper| paper.p_holm))
                }
                ClaimResult::Measured { .. } => decision.map_or((Verdict::Inconclusive, None), |decision| {
                    (decision.verdict, Some(decision.p_holm))
                }),
            };
            judged.push(conclude(candidate, verdict, p_holm, evidence.cells));
        }
    }
    Ok(judged)
}

fn candidates<'a>(
    claims: &Claims,
    claim: &'a Claim,
    paper: &PaperNumbers,
    evidence: &Evidence<'_>,
) -> Result<Vec<Candidate<'a>>, ReportError> {
    let published_claim = claim.published.unwrap_or_default();
    let unit = claim.unit.unwrap_or(Unit::Percent);
    let one = |margin: f64, result: ClaimResult| {
        vec![Candidate { claim, split: None, published: published_claim, unit, margin, result }]
    };
    Ok(match &claim.measure {
        Measure::Cell { row } => columns(paper, &[row])
            .map(|split| {
                let published = paper.value(row, split)?.unwrap_or_default();
                let result = match find(evidence.cells, row, split) {
                    Run::None => ClaimResult::NotRun,
                    Run::One(index) => ClaimResult::Cell(index),
                    Run::Refused(why) => ClaimResult::Refused { value: None, why },
                };
                let rows = evidence.settings.split(split).map_or(0, |split| split.rows);
                let margin = crate::cells::margin(published, rows);
                Ok(Candidate { claim, split: Some(split), published, unit: Unit::Percent, margin, result })
            })
            .collect::<Result<_, PaperError>>()?,
        Measure::Difference { from, to } => columns(paper, &[from, to])
            .map(|split| {
                let value = |row| paper.value(row, split).map(Option::unwrap_or_default);
                let published = value(to)? - value(from)?;
                let margin = (MARGIN_SHARE * published.abs()).max(ROUNDING);
                let result = difference(evidence, from, to, split);
                Ok(Candidate { claim, split: Some(split), published, unit: Unit::Points, margin, result })
            })
            .collect::<Result<_, PaperError>>()?,
        Measure::MeanRelativeGain { row, baseline } => {
            one(MARGIN_SHARE * published_claim.abs(), gain(evidence, row, baseline))
        }
        Measure::Training { series, statistic } => {
            let result = trained::measure(&claims.training, evidence.trainings, series, *statistic);
            let result = match result {
                None => ClaimResult::NotRun,
                Some(result) if !result.why.is_empty() => {
                    ClaimResult::Refused { value: result.value, why: result.why }
                }
                Some(result) => {
                    ClaimResult::Measured { value: result.value.unwrap_or_default(), effect: result.effect }
                }
            };
            one(claim.margin.unwrap_or_default(), result)
        }
    })
}

/// Units per 1 of the measured quantity.
fn scale(unit: Unit) -> f64 {
    match unit {
        Unit::Percent | Unit::Points => 100.0,
        Unit::Share | Unit::Calls => 1.0,
    }
}

fn conclude(candidate: Candidate<'_>, verdict: Verdict, p_holm: Option<f64>, cells: &[Cell]) -> Judged {
    let Candidate { claim, split, published, unit, margin, result } = candidate;
    let scale = scale(unit);
    let (measured, interval) = match &result {
        ClaimResult::NotRun => (None, None),
        ClaimResult::Refused { value, .. } => (*value, None),
        ClaimResult::Measured { value, effect } => {
            (Some(*value), effect.and_then(|effect| effect.interval()))
        }
        ClaimResult::Cell(index) => {
            let (value, interval) = cells[*index].over_samples();
            (Some(value), interval)
        }
    };
    Judged {
        id: split.map_or_else(|| claim.id.clone(), |split| format!("{}/{split}", claim.id)),
        title: claim.title.replace("{split}", split.unwrap_or_default()),
        published,
        unit,
        margin,
        measured: measured.map(|value| scale * value),
        interval: interval.map(|(low, high)| (scale * low, scale * high)),
        p_holm,
        series: match &claim.measure {
            Measure::Training { series, .. } => Some(series.clone()),
            _ => None,
        },
        verdict,
        source: claim.source.clone(),
        confidence: claim.confidence.clone(),
        note: claim.note.clone(),
    }
}

/// The run of a published row on a split.
enum Run {
    None,
    One(usize),
    /// None that is comparable, or more than one.
    Refused(Vec<String>),
}

/// The comparable run of a row on a split. Several of them are ambiguous: the order of folders decides
/// nothing.
fn find(cells: &[Cell], row: &str, split: &str) -> Run {
    let of_row =
        |cell: &Cell| cell.task == split && cell.paper.as_ref().is_some_and(|paper| paper.row == row);
    let all: Vec<usize> = (0..cells.len()).filter(|&index| of_row(&cells[index])).collect();
    let comparable: Vec<usize> = all.iter().copied().filter(|&index| cells[index].is_comparable()).collect();
    match (&all[..], &comparable[..]) {
        ([], _) => Run::None,
        (_, [one]) => Run::One(*one),
        ([one], []) => Run::One(*one),
        (_, []) => Run::Refused(reasons(cells, &all)),
        (_, several) => {
            let mut names: Vec<&str> = several.iter().map(|&index| cells[index].run.as_str()).collect();
            names.sort_unstable();
            let names = names.join(", ");
            Run::Refused(vec![format!(
                "{} runs of {row} on {split}: {names}; report them apart",
                several.len()
            )])
        }
    }
}

fn reasons(cells: &[Cell], of: &[usize]) -> Vec<String> {
    let of_cell = |index: &usize| match &cells[*index].paper.as_ref()?.verdict {
        Verdict::NotComparable(why) => Some(why.clone()),
        _ => None,
    };
    distinct(of.iter().filter_map(of_cell).flatten())
}

/// The runs of two rows on one split, or why they cannot be compared.
fn both(cells: &[Cell], from: &str, to: &str, split: &str) -> Result<(usize, usize), ClaimResult> {
    let (from, to) = match (find(cells, from, split), find(cells, to, split)) {
        (Run::None, _) | (_, Run::None) => return Err(ClaimResult::NotRun),
        (Run::Refused(why), _) | (_, Run::Refused(why)) => {
            return Err(ClaimResult::Refused { value: None, why });
        }
        (Run::One(from), Run::One(to)) => (from, to),
    };
    let why = reasons(cells, &[from, to]);
    if why.is_empty() { Ok((from, to)) } else { Err(ClaimResult::Refused { value: None, why }) }
}

/// The paired difference of two rows on one split.
fn difference(evidence: &Evidence<'_>, from: &str, to: &str, split: &str) -> ClaimResult {
    let (from, to) = match both(evidence.cells, from, to, split) {
        Ok(both) => both,
        Err(result) => return result,
    };
    let pairs = Pairs::join(evidence.samples[from], evidence.samples[to]);
    if let Some(why) = pairs.mismatch() {
        return ClaimResult::Refused { value: None, why: vec![why] };
    }
    let means = pairs.means();
    ClaimResult::Measured { value: means.b - means.a, effect: pairs.effect() }
}

/// Mean over the seven columns of `ours / baseline - 1` from pairs of samples. To first order a pair
/// moves a column's gain by `r_i/b - r·b_i/b²` around it.
fn gain(evidence: &Evidence<'_>, row: &str, baseline: &str) -> ClaimResult {
    let mut groups: Vec<BTreeMap<String, Cluster>> = Vec::new();
    for (split, _) in SPLITS {
        let (base, ours) = match both(evidence.cells, baseline, row, split) {
            Ok(both) => both,
            Err(result) => return result,
        };
        let pairs = Pairs::join(evidence.samples[base], evidence.samples[ours]);
        let means = pairs.means();
        if let Some(why) = pairs.mismatch() {
            return ClaimResult::Refused { value: None, why: vec![why] };
        }
        if means.a <= 0.0 {
            let why = format!("{baseline} has a score of 0 on {split}: there is no relative gain");
            return ClaimResult::Refused { value: None, why: vec![why] };
        }
        let gain = means.b / means.a;
        groups.push(pairs.clusters(|a, b| (b - gain * a) / means.a + (gain - 1.0)));
    }
    let effect = Effect::of_groups(&groups, Support::Unbounded);
    let means: Option<Vec<f64>> = groups.iter().map(|group| mean(group.values())).collect();
    ClaimResult::Measured { value: means.and_then(mean).unwrap_or_default(), effect }
}
