//! One run as one cell: score, interval, the published number and a verdict.

use paravt_suite::profile::Profile;
use paravt_suite::run::Manifest;
use paravt_suite::scoring::summary::Summary;
use paravt_suite::task::Metric;
use serde::Serialize;

use crate::paper::PaperNumbers;
use crate::runs::{Counted, ReportError};
use crate::statistics::{Bootstrap, Cluster, Z95, cluster_bootstrap, standard_error, wilson};

/// How far apart two values may be, in binomial standard errors of the published one (spec §6).
pub const TOLERANCE: f64 = 2.0;

/// One run in a report.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    /// Split.
    pub task: String,
    /// Name for people.
    pub title: String,
    /// Profile.
    pub profile: Profile,
    /// Prompt mode.
    pub mode: String,
    /// Protocol and its hash.
    pub protocol: String,
    /// Hash of the texts.
    pub protocol_hash: String,
    /// Model as the backend calls it.
    pub model: String,
    /// The run's own label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What the run is called beside others of its split: its label, or mode and model.
    pub run: String,
    /// All numbers.
    pub summary: Summary,
    /// 95 % interval of the headline, shares between 0 and 1: normal with errors clustered by video for
    /// accuracy, bootstrap over videos for mean IoU, Wilson where every answer is alike.
    pub interval: Option<(f64, f64)>,
    /// Standard error clustered by video.
    pub standard_error: Option<f64>,
    /// The published number beside it.
    pub paper: Option<Comparison>,
    /// Bytes of a torn last record that were left out.
    pub torn_bytes: u64,
    /// Rows that the published number stands on.
    pub paper_rows: usize,
    /// Seconds from the first start to the last sample, where the run ended.
    pub wall_seconds: Option<f64>,
    /// GPUs that the model ran on, where the run says.
    pub gpus: Option<u32>,
}

/// Ours beside a published number.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Row of the published table.
    pub row: String,
    /// Published, in percent.
    pub published: f64,
    /// Ours less published, in points.
    pub difference: f64,
    /// Points within which the two count as equal.
    pub tolerance: f64,
    /// What that means.
    pub verdict: Verdict,
}

/// What a comparison means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "why", rename_all = "snake_case")]
pub enum Verdict {
    /// Within the tolerance.
    Reproduced,
    /// Below it.
    Below,
    /// Above it.
    Above,
    /// The two numbers do not measure the same thing.
    NotComparable(Vec<String>),
    /// There is no run that would tell.
    NotRun,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Reproduced => f.write_str("reproduced"),
            Self::Below => f.write_str("below"),
            Self::Above => f.write_str("above"),
            Self::NotComparable(why) => write!(f, "not comparable: {}", why.join(", ")),
            Self::NotRun => f.write_str("not run"),
        }
    }
}

/// The cell of a run, given its counted records summed up by video. `row` overrides the row that
/// the run's own manifest names.
///
/// # Errors
/// There is no such row.
pub fn cell(
    run: &Counted,
    clusters: &[Cluster],
    paper: &PaperNumbers,
    row: Option<&str>,
) -> Result<Cell, ReportError> {
    let (manifest, summary) = (&run.manifest, run.summary.clone());
    let standard_error = standard_error(clusters);
    let interval = interval(&summary, &manifest.task.metric, clusters, standard_error);
    let row = row.or(manifest.paper_row.as_deref());
    let published = match row {
        Some(row) => paper.value(row, &manifest.task.name)?.map(|value| (row, value)),
        None => None,
    };
    let paper = published.map(|(row, published)| compare(manifest, &summary, row, published));
    Ok(Cell {
        task: manifest.task.name.clone(),
        title: manifest.task.title.clone(),
        profile: manifest.plan.profile,
        mode: manifest.plan.mode.to_string(),
        protocol: manifest.protocol.clone(),
        protocol_hash: manifest.protocol_hash.clone(),
        model: manifest.backend.model.clone(),
        label: manifest.label.clone(),
        run: manifest.called(),
        summary,
        interval,
        standard_error,
        paper,
        torn_bytes: run.torn_bytes,
        paper_rows: manifest.task.paper_rows,
        wall_seconds: manifest.ended_at.map(|ended| ended - manifest.started_at),
        gpus: manifest.host.gpus,
    })
}

/// Accuracy: normal, clustered by video. Mean IoU, which piles up at 0: bootstrap over videos.
fn interval(
    summary: &Summary,
    metric: &Metric,
    clusters: &[Cluster],
    error: Option<f64>,
) -> Option<(f64, f64)> {
    match (metric, error) {
        (Metric::Grounding { .. }, Some(error)) if error > 0.0 => {
            let (low, high) = cluster_bootstrap(clusters, Bootstrap::default())?;
            // Rows that are missing count 0 in the headline and are in no cluster.
            let recorded: usize = clusters.iter().map(|cluster| cluster.n).sum();
            let scale = recorded as f64 / summary.n.max(1) as f64;
            Some((low * scale, high * scale))
        }
        (Metric::Accuracy { .. }, Some(error)) if error > 0.0 => {
            Some(((summary.value - Z95 * error).max(0.0), (summary.value + Z95 * error).min(1.0)))
        }
        // All right or all wrong: the clusters show no spread, which does not make it certain.
        (Metric::Accuracy { .. }, _) => {
            wilson((summary.value * summary.n as f64).round() as usize, summary.n)
        }
        (Metric::Grounding { .. }, _) => None,
    }
}

/// Standard error of a share of `n` independent rows.
pub fn binomial_error(share: f64, n: usize) -> f64 {
    (share * (1.0 - share) / n as f64).sqrt()
}

fn compare(manifest: &Manifest, summary: &Summary, row: &str, published: f64) -> Comparison {
    let ours = 100.0 * summary.value;
    let share = published / 100.0;
    let tolerance = 100.0 * TOLERANCE * binomial_error(share, manifest.task.paper_rows);
    let why = not_comparable(manifest, summary);
    let difference = ours - published;
    let verdict = if !why.is_empty() {
        Verdict::NotComparable(why)
    } else if difference < -tolerance {
        Verdict::Below
    } else if difference > tolerance {
        Verdict::Above
    } else {
        Verdict::Reproduced
    };
    Comparison { row: row.to_owned(), published, difference, tolerance, verdict }
}

/// Why a run's number may not stand beside a published one.
fn not_comparable(manifest: &Manifest, summary: &Summary) -> Vec<String> {
    let mut why = Vec::new();
    if manifest.plan.profile != Profile::Paper {
        why.push(format!("profile {}", manifest.plan.profile));
    }
    if manifest.protocol_source.repository == "paravt-bench" {
        why.push("native protocol".to_owned());
    } else if !manifest.protocol_source.pinned {
        why.push("unpinned protocol".to_owned());
    }
    if manifest.selection.expected != manifest.task.paper_rows {
        why.push(format!("{} of {} rows", manifest.selection.expected, manifest.task.paper_rows));
    }
    if !summary.complete {
        why.push("incomplete run".to_owned());
    }
    why
}
