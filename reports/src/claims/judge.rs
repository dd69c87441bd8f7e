//! From claims and runs to verdicts.

use std::collections::BTreeMap;

use paravt_suite::run::Manifest;

use super::measured::Measured;
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
        let mut found = measure(claims, claim, paper, evidence)?;
        let is_judged = matches!(claim.measure, Measure::Cell { .. });
        let open = found.iter_mut().filter(|one| !is_judged && one.verdict == Verdict::Inconclusive);
        let open: Vec<&mut Judged> = open.collect();
        let family = Family::of(open.iter().map(|one| {
            let scale = one.unit.scale();
            let effect = one.effect.map(|effect| effect.less(one.published / scale));
            (effect, Margin::within(one.margin / scale))
        }));
        for (one, decision) in open.into_iter().zip(family.decide()) {
            (one.verdict, one.p_holm) = (decision.verdict, Some(decision.p_holm));
        }
        judged.append(&mut found);
    }
    Ok(judged)
}

/// A claim on each of its splits, not judged yet.
fn measure(
    claims: &Claims,
    claim: &Claim,
    paper: &PaperNumbers,
    evidence: &Evidence<'_>,
) -> Result<Vec<Judged>, PaperError> {
    let published = claim.published.unwrap_or_default();
    let one = |margin: f64, measured: Measured| {
        Ok(vec![claim.found(None, (published, claim.unit.unwrap_or(Unit::Percent)), margin, measured)])
    };
    match &claim.measure {
        Measure::Cell { row } => columns(paper, &[row])
            .map(|split| {
                let published = paper.value(row, split)?.unwrap_or_default();
                let measured = match find(evidence.cells, row, split) {
                    Run::None => Measured::without_value(Verdict::NotRun),
                    Run::One(index) => Measured::of_cell(&evidence.cells[index]),
                    Run::Refused(why) => Measured::without_value(Verdict::NotComparable(why)),
                };
                let rows = evidence.settings.split(split).map_or(0, |split| split.rows);
                let margin = crate::cells::margin(published, rows);
                Ok(claim.found(Some(split), (published, Unit::Percent), margin, measured))
            })
            .collect(),
        Measure::Difference { from, to } => columns(paper, &[from, to])
            .map(|split| {
                let value = |row| paper.value(row, split).map(Option::unwrap_or_default);
                let published = value(to)? - value(from)?;
                let margin = (MARGIN_SHARE * published.abs()).max(ROUNDING);
                let measured = difference(evidence, from, to, split).unwrap_or_else(Measured::without_value);
                Ok(claim.found(Some(split), (published, Unit::Points), margin, measured))
            })
            .collect(),
        Measure::MeanRelativeGain { row, baseline } => {
            let gain = gain(evidence, row, baseline).unwrap_or_else(Measured::without_value);
            one(MARGIN_SHARE * published.abs(), gain)
        }
        Measure::Training { series, statistic } => {
            let found = trained::measure(&claims.training, evidence.trainings, series, *statistic);
            let measured = found.unwrap_or_else(|| Measured::without_value(Verdict::NotRun));
            one(claim.margin.unwrap_or_default(), measured)
        }
    }
}

impl Unit {
    /// Units per 1 of the measured quantity.
    fn scale(self) -> f64 {
        match self {
            Self::Percent | Self::Points => 100.0,
            Self::Share | Self::Calls => 1.0,
        }
    }
}

impl Claim {
    /// The claim, on one of its splits where it has several, with what was measured.
    fn found(
        &self,
        split: Option<&str>,
        (published, unit): (f64, Unit),
        margin: f64,
        measured: Measured,
    ) -> Judged {
        let Measured { value, interval, effect, p_holm, verdict } = measured;
        let scale = unit.scale();
        Judged {
            id: split.map_or_else(|| self.id.clone(), |split| format!("{}/{split}", self.id)),
            title: self.title.replace("{split}", split.unwrap_or_default()),
            published,
            unit,
            margin,
            measured: value.map(|value| scale * value),
            interval: interval.map(|(low, high)| (scale * low, scale * high)),
            p_holm,
            series: match &self.measure {
                Measure::Training { series, .. } => Some(series.clone()),
                _ => None,
            },
            verdict,
            source: self.source.clone(),
            confidence: self.confidence.clone(),
            note: self.note.clone(),
            effect,
        }
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

/// The pairs of two rows on one split, or why there are none.
fn pairs(evidence: &Evidence<'_>, from: &str, to: &str, split: &str) -> Result<Pairs, Verdict> {
    let (from, to) = match (find(evidence.cells, from, split), find(evidence.cells, to, split)) {
        (Run::None, _) | (_, Run::None) => return Err(Verdict::NotRun),
        (Run::Refused(why), _) | (_, Run::Refused(why)) => return Err(Verdict::NotComparable(why)),
        (Run::One(from), Run::One(to)) => (from, to),
    };
    let why = reasons(evidence.cells, &[from, to]);
    if !why.is_empty() {
        return Err(Verdict::NotComparable(why));
    }
    let pairs = Pairs::join(evidence.samples[from], evidence.samples[to]);
    match pairs.mismatch() {
        Some(why) => Err(Verdict::NotComparable(vec![why])),
        None => Ok(pairs),
    }
}

/// The paired difference of two rows on one split.
fn difference(evidence: &Evidence<'_>, from: &str, to: &str, split: &str) -> Result<Measured, Verdict> {
    let pairs = pairs(evidence, from, to, split)?;
    let means = pairs.means();
    Ok(Measured::of(Some(means.b - means.a), pairs.effect()))
}

/// Mean over the seven columns of `ours / baseline - 1` from pairs of samples. To first order a pair
/// moves a column's gain by `r_i/b - r·b_i/b²` around it.
fn gain(evidence: &Evidence<'_>, row: &str, baseline: &str) -> Result<Measured, Verdict> {
    let mut groups: Vec<BTreeMap<String, Cluster>> = Vec::new();
    for (split, _) in SPLITS {
        let pairs = pairs(evidence, baseline, row, split)?;
        let means = pairs.means();
        if means.a <= 0.0 {
            let why = format!("{baseline} has a score of 0 on {split}: there is no relative gain");
            return Err(Verdict::NotComparable(vec![why]));
        }
        let gain = means.b / means.a;
        groups.push(pairs.clusters(|a, b| (b - gain * a) / means.a + (gain - 1.0)));
    }
    let effect = Effect::of_groups(&groups, Support::Unbounded);
    let means: Option<Vec<f64>> = groups.iter().map(|group| mean(group.values())).collect();
    Ok(Measured::of(Some(means.and_then(mean).unwrap_or_default()), effect))
}
