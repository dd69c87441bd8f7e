//! Records as flat rows: one per sample, per breakdown label and per tool call.
//!
//! A run has some thousand rows and is summed up in a few ordered maps: sums of floats depend on the order of
//! their terms, and a report must not change from one call to the next.

mod aggregate;
mod of_record;

use paravt_suite::profile::Switches;
use paravt_suite::record::Record;
use paravt_suite::summary::{counts, leaves_groups};
use paravt_suite::task::Breakdown;

pub use aggregate::{
    Cost, GroupMean, ToolTable, breakdowns, clusters, cost, sums_by_video, tool_table, windows,
};
pub use of_record::{cluster_name, tokens, turns, video_length, video_name};

/// The rows of one run.
#[derive(Debug, Clone)]
pub struct Rows {
    /// One per record.
    pub samples: Vec<SampleRow>,
    /// One per record and label of a breakdown, where the record counts in it.
    pub labels: Vec<LabelRow>,
    /// Start and end of each tool call's window as shares of the video's length, where both are known.
    pub windows: Vec<(f64, f64)>,
}

/// One record.
#[derive(Debug, Clone)]
pub struct SampleRow {
    /// Name of the sample.
    pub uid: String,
    /// Cluster of the sample ([`cluster_name`]).
    pub video: String,
    /// Gold answer.
    pub gold: String,
    /// Score between 0 and 1.
    pub value: f64,
    /// Whether the record counts in the split's mean.
    pub counted: bool,
    /// Tool calls.
    pub calls: u32,
    /// Largest number of tool calls in one turn.
    pub width: u32,
    /// Prompt tokens of all model calls.
    pub prompt_tokens: u64,
    /// Generated tokens of all model calls.
    pub completion_tokens: u64,
    /// Seconds from the first model call to the last.
    pub seconds: f64,
    /// Of them, decoding.
    pub media_seconds: f64,
}

/// One label of a counted record.
#[derive(Debug, Clone)]
pub struct LabelRow {
    /// Tag of the breakdown.
    pub tag: String,
    /// The record's label.
    pub label: String,
    /// Cluster of the sample ([`cluster_name`]).
    pub video: String,
    /// Score between 0 and 1.
    pub value: f64,
}

/// Equal parts of a video's length in which windows are counted.
pub const BINS: usize = 20;

impl Rows {
    /// Takes what the tables need out of a run's records.
    pub fn of(breakdowns: &[Breakdown], switches: &Switches, records: &[Record]) -> Self {
        Self {
            samples: samples(switches, records),
            labels: labels(breakdowns, switches, records),
            windows: records.iter().flat_map(of_record::windows).collect(),
        }
    }
}

/// The samples of a run, one row per record.
pub fn samples(switches: &Switches, records: &[Record]) -> Vec<SampleRow> {
    let row = |record: &Record| SampleRow {
        uid: record.sample.uid.clone(),
        video: cluster_name(record),
        gold: record.sample.gold.to_string(),
        value: record.score.value,
        counted: counts(record, switches),
        calls: record.transcript.tool_calls.len() as u32,
        width: of_record::parallel_width(record) as u32,
        prompt_tokens: of_record::prompt_tokens(record),
        completion_tokens: of_record::completion_tokens(record),
        seconds: record.measured.seconds,
        media_seconds: record.measured.media_seconds,
    };
    records.iter().map(row).collect()
}

fn labels(breakdowns: &[Breakdown], switches: &Switches, records: &[Record]) -> Vec<LabelRow> {
    let mut rows = Vec::new();
    for record in records.iter().filter(|record| counts(record, switches)) {
        let present = |tag: &str| !leaves_groups(record, tag, switches);
        for breakdown in breakdowns.iter().filter(|breakdown| present(&breakdown.tag)) {
            for label in record.sample.tags.get(&breakdown.tag).into_iter().flatten() {
                rows.push(LabelRow {
                    tag: breakdown.tag.clone(),
                    label: label.clone(),
                    video: cluster_name(record),
                    value: record.score.value,
                });
            }
        }
    }
    rows
}
