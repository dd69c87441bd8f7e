//! How often the intervals hold, by simulation.

use serde::{Deserialize, Serialize};

/// Simulated coverage of the 95 % intervals of one kind with one number of videos (or seeds).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coverage {
    /// What the interval is of.
    pub kind: String,
    /// Videos; for means over seeds, seeds.
    pub videos: usize,
    /// Settings: scores, questions per video, correlation of the answers about a video, ….
    pub settings: usize,
    /// Percentage of the intervals that hold the true value: mean over the settings.
    pub coverage: f64,
    /// The lowest of one setting.
    pub worst: f64,
    pub worst_at: String,
    /// Mean width over the settings, in points.
    pub width: f64,
}

/// The table in the tree, which `cargo run --release -p paravt-reports --example coverage` writes.
///
/// # Panics
/// The table is damaged.
pub fn simulated() -> Vec<Coverage> {
    let text = include_str!("../../data/coverage.csv");
    let rows = csv::Reader::from_reader(text.as_bytes()).into_deserialize();
    rows.collect::<Result<_, _>>().expect("reports/data/coverage.csv is what the simulation wrote")
}

/// Of each kind, in order: its mean over the numbers of videos, and the row with the lowest coverage.
pub fn by_kind(rows: &[Coverage]) -> Vec<(f64, &Coverage)> {
    let same = |a: &Coverage, b: &Coverage| a.kind == b.kind;
    let of_kind = |rows: &'_ [Coverage]| {
        let settings: usize = rows.iter().map(|row| row.settings).sum();
        rows.iter().map(|row| row.settings as f64 * row.coverage).sum::<f64>() / settings as f64
    };
    rows.chunk_by(same)
        .filter_map(|rows| Some((of_kind(rows), rows.iter().min_by(|a, b| a.worst.total_cmp(&b.worst))?)))
        .collect()
}
