//! Scores: answers one by one where the run is deterministic, else the paired effect by the one rule of
//! verdicts ([`crate::decide`]), all runs of a check as one family.

use std::collections::BTreeMap;

use paravt_suite::record::Record;

use super::baseline::Split;
use super::{Check, Score, ScoreRule, Status};
use crate::decide::{Effect, Family, Margin, Verdict};
use crate::pairs::{Pairs, RIGHT};
use crate::runs::Run;
use crate::statistics::{Cluster, sign_flip};
use crate::table::ColumnFormat;

/// Samples that a message names.
const NAMED: usize = 5;

/// Judges complete runs of the same measurement as their entries, by group: a check and what the history
/// keeps of each.
pub(super) fn judge(judged: &[(String, &Split, &Run)], rule: ScoreRule) -> Vec<(Check, Option<Score>)> {
    let mut family = Family::default();
    let mut effects = Vec::new();
    let margin = match rule {
        ScoreRule::Interval { drop_points } => Margin::no_worse(drop_points / 100.0),
        ScoreRule::Exact { .. } | ScoreRule::Seeds => Margin::NONE,
    };
    for (group, split, run) in judged {
        let pairs = Pairs::of(&split.run(), run);
        let differences = pairs.differences();
        let effect = Effect::difference(differences.values());
        let loss = loss(differences.values(), effect.as_ref(), margin);
        // Where no answer differs, nothing is left to sample: it stands outside the family.
        if effect.is_none_or(|effect| !effect.is_unchanged()) {
            family.push_again(effect, margin, loss);
        }
        let score = effect.and_then(|effect| {
            let (low, high) = effect.interval()?;
            let (score, difference) = (100.0 * pairs.means().b, 100.0 * effect.estimate);
            Some(Score { task: group.clone(), score, difference, interval: (100.0 * low, 100.0 * high) })
        });
        effects.push((effect, score, pairs, loss));
    }
    let mut decisions = family.decide().into_iter();
    let mut checks = Vec::new();
    for ((group, split, run), (effect, score, pairs, loss)) in judged.iter().zip(effects) {
        let unchanged = effect.is_some_and(|effect| effect.is_unchanged());
        let decision = if unchanged { None } else { decisions.next() };
        let (status, message) = match rule {
            ScoreRule::Exact { changed } => exact(split, run, changed),
            _ => {
                let status = match decision.map(|decision| decision.verdict) {
                    None | Some(Verdict::Reproduced | Verdict::Better) => Status::Pass,
                    Some(Verdict::Worse) => Status::Fail,
                    Some(_) => Status::Undecided,
                };
                (status, describe(effect.as_ref(), score.as_ref(), &pairs, margin, loss))
            }
        };
        checks.push((Check::new(group, "score", status, &message), score));
    }
    checks
}

/// P-value of a loss beyond the margin where the videos are few, by the exact test of a second run of the
/// same samples. `None` for one video, which decides nothing, and for many, which the interval judges.
fn loss<'a>(
    videos: impl Iterator<Item = &'a Cluster>,
    effect: Option<&Effect>,
    margin: Margin,
) -> Option<f64> {
    effect.filter(|effect| effect.is_weak() || effect.standard_error == 0.0)?;
    let beyond = |video: &Cluster| video.sum + margin.below * video.n as f64;
    sign_flip(&videos.map(beyond).collect::<Vec<_>>())
}

fn describe(
    effect: Option<&Effect>,
    score: Option<&Score>,
    pairs: &Pairs,
    margin: Margin,
    loss: Option<f64>,
) -> String {
    let n = pairs.len();
    let Some((effect, score)) = effect.zip(score) else {
        return format!("{n} pairs of fewer than two videos: nothing can be decided");
    };
    let limit = -100.0 * margin.below;
    if pairs.are_equal() {
        return format!("{:.1}: no score differs, {n} pairs; limit {limit:+.1}", score.score);
    }
    if effect.is_unchanged() {
        return format!("{:.1}: no video's score differs, {n} pairs; limit {limit:+.1}", score.score);
    }
    let weak = match loss.filter(|_| effect.estimate < -margin.below) {
        _ if !effect.is_weak() => String::new(),
        Some(p) => format!(", {} videos (exact p of a loss {p:.3})", effect.clusters),
        None => ", few videos".to_owned(),
    };
    format!(
        "{} after {}: {} points, 95 % {}, {n} pairs{weak}; limit {limit:+.1}",
        ColumnFormat::Percent.number(score.score),
        ColumnFormat::Percent.number(score.score - score.difference),
        ColumnFormat::Points.number(score.difference),
        ColumnFormat::Points.interval(score.interval),
    )
}

/// Answers that differ, one by one.
fn exact(split: &Split, run: &Run, allowed: usize) -> (Status, String) {
    let before: BTreeMap<(&str, usize), &Record> =
        split.records.iter().map(|record| (record.key(), record)).collect();
    let mut changed = Vec::new();
    let (mut gained, mut lost) = (0, 0);
    for now in &run.records {
        let uid = now.sample.uid.as_str();
        let Some(was) = before.get(&now.key()) else {
            return (Status::Undecided, format!("sample `{uid}` is not in the baseline"));
        };
        if was.score != now.score {
            changed.push(uid);
            match (was.score.value >= RIGHT, now.score.value >= RIGHT) {
                (false, true) => gained += 1,
                (true, false) => lost += 1,
                _ => {}
            }
        }
    }
    let n = run.records.len();
    let status = if changed.len() > allowed { Status::Fail } else { Status::Pass };
    let mut message = format!("{} of {n} answers differ, allowed {allowed}", changed.len());
    if !changed.is_empty() {
        let more = if changed.len() > NAMED { ", …" } else { "" };
        let named = changed[..changed.len().min(NAMED)].join(", ");
        message += &format!("; {lost} right to wrong, {gained} wrong to right: {named}{more}");
    }
    (status, message)
}
