//! One run as one cell: score, interval, the published number and a verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use paravt_suite::backend::Memory;
use paravt_suite::probe::Probe;
use paravt_suite::profile::Profile;
use paravt_suite::scoring::Over;
use paravt_suite::summary::Summary;
use serde::Serialize;

use crate::decide::{Effect, Family, Lost, Margin, Support, Verdict};
use crate::prices::Price;
use crate::rows::{Digest, Shares};
use crate::runs::RunDigest;
use crate::settings::Settings;
use crate::statistics::{Cluster, ClusteredMean, mean_of_merged_means};
use crate::terminal::percent;

/// Equivalence margin of a published score, in binomial standard errors of it: twice the half-width of
/// its own 95 % sampling interval. Nothing narrower can be shown with an interval as wide as that.
const MARGIN_ERRORS: f64 = 4.0;
/// The margin is never wider than this, in points: about the paper's mean gain over its baseline.
const MAX_MARGIN: f64 = 5.0;

/// One run in a report.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    pub task: String,
    pub title: String,
    pub profile: Profile,
    pub mode: String,
    pub protocol: String,
    pub protocol_hash: String,
    /// Model as the backend calls it.
    pub model: String,
    /// The run's own label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Name of the run beside others of its split: its label, or mode and model.
    pub run: String,
    /// What the run takes away from its samples or frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
    pub summary: Summary,
    /// Rows without a full answer.
    pub lost: Lost,
    /// Samples of the whole split, of which a run may select some; in a repeated run, as all counts, their records.
    pub split_rows: usize,
    /// 95 % interval of the headline, shares between 0 and 1: clustered by video. `None` for fewer
    /// than two videos.
    pub interval: Option<(f64, f64)>,
    /// Standard error clustered by video.
    pub standard_error: Option<f64>,
    /// Videos that the interval rests on.
    pub videos: usize,
    /// The published number beside it.
    pub paper: Option<Comparison>,
    /// Bytes of a torn last record that were left out.
    pub torn_bytes: u64,
    /// Seconds from the first start to the last sample, where the run ended.
    pub wall_seconds: Option<f64>,
    /// GPUs that the model ran on, where the run says.
    pub gpus: Option<u32>,
    /// What the run used of its GPU, where an engine in this process says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
    /// Memory of a model in the process of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// What the run cost, where prices are given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    #[serde(skip)]
    pub(crate) offers_tool: bool,
    /// Position in the list of runs that the report was built from.
    #[serde(skip)]
    pub position: usize,
    /// Sums for tables and charts.
    #[serde(skip)]
    pub digest: Arc<Digest>,
    #[serde(skip)]
    interval_over_samples: Option<(f64, f64)>,
}

/// Ours beside a published number.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Row of the published table.
    pub row: String,
    /// Published, in percent.
    pub published: f64,
    /// Our score minus the published one, in points.
    pub difference: f64,
    /// 95 % interval of that, in points: ours; the published number is a point.
    pub interval: Option<(f64, f64)>,
    /// Points within which the two count as equal.
    pub margin: f64,
    /// P-value of the verdict after Holm's correction over the splits of the row.
    pub p_holm: Option<f64>,
    /// The verdict rests on few videos.
    pub weak: bool,
    /// The rows are the published ones by their SHA-256; absent where that is not known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub data_verified: bool,
    /// What is not known of the model: its name does not say whether it is the published one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_model: Option<String>,
    #[serde(skip)]
    effect: Option<Effect>,
    pub verdict: Verdict,
}

impl Cell {
    /// Every expected row has a record, and no more failed than the rule for lost rows allows.
    pub fn complete(&self) -> bool {
        let Lost { failed, .. } = self.lost;
        self.summary.n_recorded == self.summary.n_expected && failed <= self.lost.allowed()
    }

    /// Hours of all GPUs together, waits between a stop and its resumption included.
    pub fn gpu_hours(&self) -> Option<f64> {
        let gpus = self.gpus.filter(|gpus| *gpus > 0)?;
        Some(f64::from(gpus) * self.wall_seconds? / 3600.0)
    }

    /// The headline as a share; `None` while no sample that counts in it has been recorded.
    pub fn score(&self) -> Option<f64> {
        (self.videos > 0).then(|| self.summary.headline().value)
    }

    /// The mean over samples with its interval: what stands beside a published number, because the reference's
    /// driver averages over samples.
    pub fn over_samples(&self) -> (f64, Option<(f64, f64)>) {
        (self.summary.over_samples().value, self.interval_over_samples)
    }

    /// What the score is, where it is not the mean over samples, and what an agent's own extraction gives.
    pub(crate) fn headline_note(&self) -> Option<String> {
        let apart = self.videos > 0 && self.summary.is_over_groups();
        let groups = apart.then(|| {
            let (name, over) = (&self.summary.headline().name, self.summary.over_samples());
            let (metric, mean) = (&over.name, percent(over.value));
            let beside = if self.paper.is_some() { ", as published" } else { "" };
            format!("score: {name}; {metric} over samples{beside}: {mean}")
        });
        let by_agent = self.summary.agent_score.as_ref().map(|score| {
            format!("by the agent's own extraction: {} ({})", percent(score.value), score.fidelity.as_str())
        });
        let notes: Vec<String> = groups.into_iter().chain(by_agent).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// Samples behind [`score`](Self::score). In a profile where missing samples count as wrong
    /// they are among them.
    pub fn n(&self) -> usize {
        if self.videos > 0 { self.summary.n } else { 0 }
    }

    /// Comparable to its published number.
    pub(crate) fn is_comparable(&self) -> bool {
        self.paper.as_ref().is_some_and(|paper| !matches!(paper.verdict, Verdict::NotComparable(_)))
    }
}

/// The cell of a run beside the number of a row of the published table, where there is one; not judged yet.
pub(crate) fn cell(run: &RunDigest, published: Option<(&str, f64)>, settings: &Settings) -> Cell {
    let (manifest, summary, clusters) = (&run.manifest, run.summary.clone(), &run.digest.clusters);
    let repeat = manifest.plan.repeat;
    let share = |clusters: &BTreeMap<String, Cluster>| Effect::share_of_draws(clusters.values(), repeat);
    let effect = share(clusters);
    // Rows that are missing count 0 in the headline and are in no cluster.
    let recorded: usize = clusters.values().map(|cluster| cluster.n).sum();
    let scale = recorded as f64 / summary.n.max(1) as f64;
    let (headline, headline_scale) = match (summary.headline().over, manifest.task.metric.macro_over()) {
        // Groups of four without a record count 0, as samples do.
        (Over::QuestionGroups, _) => {
            let groups = &run.digest.question_groups;
            let recorded: usize = groups.values().map(|cluster| cluster.n).sum();
            (share(groups), recorded as f64 / summary.headline().n.max(1) as f64)
        }
        // The groups of a run with missing rows are of other sizes than those of its records.
        (_, Some(tag)) => (over_groups(run, tag).filter(|_| recorded == summary.n), scale),
        _ => (effect, scale),
    };
    let paper = published.map(|(row, published)| {
        let mut why = settings.differences(row, &run.manifest, &run.facts, &run.training);
        // The texts that another harness sent are not in its files.
        why.splice(0..0, manifest.imported.iter().map(|tool| format!("imported from {tool}")));
        let rows = settings.split(&manifest.task.name).map_or(manifest.task.paper_rows, |split| split.rows);
        // The authors of a model read its answers by their own rules.
        let agent_score = summary.agent_score.as_ref().filter(|_| settings.is_of_authors(row));
        let measured = match agent_score {
            Some(score) => (score.value, share(&run.digest.agent_scores)),
            None => (summary.over_samples().value, effect),
        };
        let comparison = compare(row, published, measured, margin(published, rows), why);
        Comparison {
            data_verified: manifest.inputs.verified,
            unknown_model: settings.unknown_model(row, &run.manifest, &run.training),
            ..comparison
        }
    });
    Cell {
        task: manifest.task.name.clone(),
        title: manifest.task.title.clone(),
        profile: manifest.plan.profile(),
        mode: manifest.plan.mode.to_string(),
        protocol: manifest.protocol.clone(),
        protocol_hash: manifest.protocol_hash.clone(),
        model: manifest.backend.model.clone(),
        label: manifest.label.clone(),
        run: manifest.display_name(),
        probe: manifest.plan.probe,
        summary,
        lost: run.facts.lost,
        split_rows: manifest.selection.split_rows * manifest.plan.repeat,
        interval: headline.and_then(|effect| Some(scaled(effect.interval()?, headline_scale))),
        standard_error: headline.map(|effect| headline_scale * effect.standard_error),
        interval_over_samples: effect.and_then(|effect| Some(scaled(effect.interval()?, scale))),
        videos: clusters.len(),
        paper,
        torn_bytes: run.torn_bytes,
        wall_seconds: manifest.ended_at.map(|ended| ended - manifest.started_at),
        gpus: manifest.host.gpus,
        shares: Shares::of(&manifest.backend.details, &run.digest),
        memory: manifest.memory,
        price: None,
        offers_tool: manifest.offers_tool,
        position: run.position,
        digest: Arc::clone(&run.digest),
    }
}

/// The mean over the groups of a tag; groups that count as one are merged.
fn over_groups(run: &RunDigest, tag: &str) -> Option<Effect> {
    let of_tag = run.digest.groups.iter().filter(|((other, _), _)| other == tag);
    let groups: BTreeMap<&str, _> =
        of_tag.map(|((_, label), group)| (label.as_str(), group.clone())).collect();
    let merged = |label: &str| {
        let mut all = run.manifest.task.metric.merged().into_iter().flat_map(BTreeMap::values);
        let with = all.find(|labels| labels.iter().any(|other| other == label));
        with.map_or(1, |with| with.iter().filter(|other| groups.contains_key(other.as_str())).count())
    };
    let merged: Vec<usize> = groups.keys().map(|label| merged(label)).collect();
    let groups: Vec<_> = groups.into_values().collect();
    let found = mean_of_merged_means(&groups, &merged)?;
    let rows = found.rows.div_ceil(run.manifest.plan.repeat.max(1));
    Effect::of_mean(ClusteredMean { rows, ..found }, Support::Share)
}

/// Judges the comparable cells of each published row together.
pub(crate) fn judge(cells: &mut [Cell]) {
    let named = cells.iter().filter_map(|cell| Some(cell.paper.as_ref()?.row.clone()));
    for row in named.collect::<BTreeSet<_>>() {
        let comparable = cells.iter_mut().filter(|cell| cell.is_comparable());
        let members = comparable.filter_map(|cell| cell.paper.as_mut().filter(|paper| paper.row == row));
        let members: Vec<&mut Comparison> = members.collect();
        let family = Family::of(members.iter().map(|paper| {
            let effect = paper.effect.map(|effect| effect.less(paper.published / 100.0));
            (effect, Margin::within(paper.margin / 100.0))
        }));
        for (paper, decision) in members.into_iter().zip(family.decide()) {
            paper.p_holm = Some(decision.p_holm);
            paper.weak = decision.weak;
            paper.verdict = decision.verdict;
        }
    }
}

/// Standard error of a share of `n` independent rows.
fn binomial_error(share: f64, n: usize) -> f64 {
    (share * (1.0 - share) / n.max(1) as f64).sqrt()
}

/// Points within which a score counts as equal to a published one over `rows` rows.
pub(crate) fn margin(published: f64, rows: usize) -> f64 {
    (100.0 * MARGIN_ERRORS * binomial_error(published / 100.0, rows)).min(MAX_MARGIN)
}

fn compare(
    row: &str,
    published: f64,
    (value, effect): (f64, Option<Effect>),
    margin: f64,
    why: Vec<String>,
) -> Comparison {
    let points = |(low, high): (f64, f64)| (100.0 * low - published, 100.0 * high - published);
    Comparison {
        row: row.to_owned(),
        published,
        difference: 100.0 * value - published,
        interval: effect.and_then(|effect| Some(points(effect.interval()?))),
        margin,
        p_holm: None,
        weak: effect.is_none_or(|effect| effect.is_weak()),
        data_verified: false,
        unknown_model: None,
        effect,
        verdict: if why.is_empty() { Verdict::Inconclusive } else { Verdict::NotComparable(why) },
    }
}

fn scaled((low, high): (f64, f64), scale: f64) -> (f64, f64) {
    (scale * low, scale * high)
}
