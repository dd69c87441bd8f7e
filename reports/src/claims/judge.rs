//! From claims and cells to verdicts.

use super::{Claim, Judged, Measure, Statistic, Unit, columns};
use crate::cells::{Cell, TOLERANCE, Verdict, binomial_error};
use crate::paper::{PaperError, PaperNumbers, SPLITS};
use crate::statistics::Z95;
use crate::training::Training;

/// Ours, in the claim's unit.
struct Measured {
    value: f64,
    interval: Option<(f64, f64)>,
    tolerance: f64,
    not_comparable: Vec<String>,
}

/// Judges every claim by the cells and the training curves at hand.
///
/// # Errors
/// A claim names a row that the published tables do not have.
pub fn judge(
    claims: &[Claim],
    paper: &PaperNumbers,
    cells: &[Cell],
    training: &[Training],
) -> Result<Vec<Judged>, PaperError> {
    let mut judged = Vec::new();
    for claim in claims {
        match &claim.measure {
            Measure::Cell { row } => {
                for split in columns(paper, &[row]) {
                    let published = paper.value(row, split)?.unwrap_or_default();
                    judged.push(conclude(
                        claim,
                        Some(split),
                        published,
                        Unit::Percent,
                        cell(cells, row, split),
                    ));
                }
            }
            Measure::Difference { from, to } => {
                for split in columns(paper, &[from, to]) {
                    let value = |row| paper.value(row, split).map(Option::unwrap_or_default);
                    let published = value(to)? - value(from)?;
                    let measured = difference(cells, from, to, split);
                    judged.push(conclude(claim, Some(split), published, Unit::Points, measured));
                }
            }
            Measure::MeanRelativeGain { row, baseline } => {
                let measured = gain(cells, row, baseline);
                judged.push(conclude(
                    claim,
                    None,
                    claim.published.unwrap_or_default(),
                    unit(claim),
                    measured,
                ));
            }
            Measure::Training { series, statistic } => {
                let measured = curve(training, series, *statistic, claim.tolerance.unwrap_or_default());
                judged.push(conclude(
                    claim,
                    None,
                    claim.published.unwrap_or_default(),
                    unit(claim),
                    measured,
                ));
            }
        }
    }
    Ok(judged)
}

fn unit(claim: &Claim) -> Unit {
    claim.unit.unwrap_or(Unit::Percent)
}

fn conclude(
    claim: &Claim,
    split: Option<&str>,
    published: f64,
    unit: Unit,
    measured: Option<Measured>,
) -> Judged {
    let verdict = match &measured {
        None => Verdict::NotRun,
        Some(ours) if !ours.not_comparable.is_empty() => Verdict::NotComparable(ours.not_comparable.clone()),
        Some(ours) if ours.value < published - ours.tolerance => Verdict::Below,
        Some(ours) if ours.value > published + ours.tolerance => Verdict::Above,
        Some(_) => Verdict::Reproduced,
    };
    Judged {
        id: split.map_or_else(|| claim.id.clone(), |split| format!("{}/{split}", claim.id)),
        title: claim.title.replace("{split}", split.unwrap_or_default()),
        published,
        unit,
        tolerance: measured.as_ref().map(|ours| ours.tolerance),
        measured: measured.as_ref().map(|ours| ours.value),
        interval: measured.as_ref().and_then(|ours| ours.interval),
        verdict,
        source: claim.source.clone(),
        confidence: claim.confidence.clone(),
        note: claim.note.clone(),
    }
}

fn find<'a>(cells: &'a [Cell], row: &str, split: &str) -> Option<&'a Cell> {
    cells.iter().find(|cell| cell.task == split && cell.paper.as_ref().is_some_and(|paper| paper.row == row))
}

fn reasons(cells: &[&Cell]) -> Vec<String> {
    let mut reasons = Vec::new();
    for cell in cells {
        if let Some(Verdict::NotComparable(why)) = cell.paper.as_ref().map(|paper| &paper.verdict) {
            for reason in why {
                if !reasons.contains(reason) {
                    reasons.push(reason.clone());
                }
            }
        }
    }
    reasons
}

fn cell(cells: &[Cell], row: &str, split: &str) -> Option<Measured> {
    let cell = find(cells, row, split)?;
    Some(Measured {
        value: 100.0 * cell.summary.value,
        interval: cell.interval.map(|(low, high)| (100.0 * low, 100.0 * high)),
        tolerance: cell.paper.as_ref()?.tolerance,
        not_comparable: reasons(&[cell]),
    })
}

/// Difference of two cells, in points; the tolerance is that of the published difference, whose two
/// numbers are taken as independent because nothing about their pairing is published.
fn difference(cells: &[Cell], from: &str, to: &str, split: &str) -> Option<Measured> {
    let (from, to) = (find(cells, from, split)?, find(cells, to, split)?);
    let hypot = |a: Option<f64>, b: Option<f64>| Some(a?.hypot(b?));
    let value = 100.0 * (to.summary.value - from.summary.value);
    let error = hypot(from.standard_error, to.standard_error).map(|error| 100.0 * error);
    Some(Measured {
        value,
        interval: error.map(|error| around(value, error)),
        tolerance: hypot(tolerance(from), tolerance(to))?,
        not_comparable: reasons(&[from, to]),
    })
}

fn around(value: f64, error: f64) -> (f64, f64) {
    (value - Z95 * error, value + Z95 * error)
}

fn tolerance(cell: &Cell) -> Option<f64> {
    cell.paper.as_ref().map(|paper| paper.tolerance)
}

/// Mean over the seven columns of `ours / baseline - 1`, in percent, with errors propagated to first
/// order: `(1/7)·sqrt(Σ (σ_r/b)² + (r·σ_b/b²)²)`.
fn gain(cells: &[Cell], row: &str, baseline: &str) -> Option<Measured> {
    let (mut value, mut variance, mut published_variance, mut used) = (0.0, 0.0, 0.0, Vec::new());
    for (split, _) in SPLITS {
        let (ours, base) = (find(cells, row, split)?, find(cells, baseline, split)?);
        let (r, b) = (ours.summary.value, base.summary.value);
        if b <= 0.0 {
            return None;
        }
        value += r / b - 1.0;
        let spread = |sr: f64, sb: f64, r: f64, b: f64| (sr / b).powi(2) + (r * sb / (b * b)).powi(2);
        variance += spread(ours.standard_error?, base.standard_error?, r, b);
        let (pr, pb) = (ours.paper.as_ref()?.published / 100.0, base.paper.as_ref()?.published / 100.0);
        let error = |share: f64, cell: &Cell| binomial_error(share, cell.paper_rows);
        published_variance += spread(error(pr, ours), error(pb, base), pr, pb);
        used.extend([ours, base]);
    }
    let n = SPLITS.len() as f64;
    Some(Measured {
        value: 100.0 * value / n,
        interval: Some(around(100.0 * value / n, 100.0 * variance.sqrt() / n)),
        tolerance: 100.0 * TOLERANCE * published_variance.sqrt() / n,
        not_comparable: reasons(&used),
    })
}

fn curve(training: &[Training], series: &str, statistic: Statistic, tolerance: f64) -> Option<Measured> {
    let points = training.iter().find_map(|training| training.series.get(series))?;
    let values = || points.iter().map(|(_, value)| *value);
    let value = match statistic {
        Statistic::First => values().next(),
        Statistic::Peak => values().reduce(f64::max),
        Statistic::Mean => (!points.is_empty()).then(|| values().sum::<f64>() / points.len() as f64),
    }?;
    Some(Measured { value, interval: None, tolerance, not_comparable: Vec::new() })
}
