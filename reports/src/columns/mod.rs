//! Records as columns of polars data frames: one row per sample, per breakdown label and per tool call.

mod aggregate;
mod of_record;

use paravt_suite::profile::{Profile, Switches};
use paravt_suite::record::Record;
use paravt_suite::summary::{counts, leaves_groups};
use paravt_suite::task::Breakdown;
use polars::prelude::*;

pub use aggregate::{
    Cost, GroupMean, ToolTable, breakdowns, clusters, clusters_of, costs, sums, tool_tables, windows,
};
pub use of_record::{cluster_name, tokens, turns, video_length, video_name};

/// The columns of one run, or of several below each other.
///
/// ```text
/// samples  uid video gold value counted calls width prompt_tokens completion_tokens tokens seconds media_seconds
/// labels   tag label video value
/// windows  start end        shares of the video's length
/// ```
///
/// `video` is the cluster of the sample ([`cluster_name`]). Several runs have `run` as their first column.
#[derive(Debug, Clone)]
pub struct Columns {
    /// One row per record.
    pub samples: DataFrame,
    /// One row per record and label of a breakdown, where the record counts in it.
    pub labels: DataFrame,
    /// One row per tool call whose window and video length are known.
    pub windows: DataFrame,
}

/// Bins that a video's length is cut into.
pub const BINS: usize = 20;

impl Columns {
    /// Takes what the tables need out of a run's records.
    ///
    /// # Errors
    /// Columns of unequal length, which would be a mistake in this file.
    pub fn of(breakdowns: &[Breakdown], switches: &Switches, records: &[Record]) -> PolarsResult<Self> {
        let windows: Vec<(f64, f64)> = records.iter().flat_map(of_record::windows).collect();
        let (start, end): (Vec<f64>, Vec<f64>) = windows.into_iter().unzip();
        Ok(Self {
            samples: samples(switches, records)?,
            labels: labels(breakdowns, switches, records)?,
            windows: df!("start" => start, "end" => end)?,
        })
    }

    /// Runs below each other, numbered by `run` in their order.
    ///
    /// # Errors
    /// Columns of other names or types, which would be a mistake in this file.
    pub fn stack(runs: Vec<Self>) -> PolarsResult<Self> {
        let mut all = Self::of(&[], &Profile::Paper.switches(), &[])?.numbered(0)?;
        for (number, run) in (0..).zip(runs) {
            let run = run.numbered(number)?;
            all.samples.vstack_mut_owned(run.samples)?;
            all.labels.vstack_mut_owned(run.labels)?;
            all.windows.vstack_mut_owned(run.windows)?;
        }
        for frame in [&mut all.samples, &mut all.labels, &mut all.windows] {
            frame.rechunk_mut();
        }
        Ok(all)
    }

    fn numbered(self, run: u32) -> PolarsResult<Self> {
        let numbered = |mut frame: DataFrame| {
            let column = Column::new("run".into(), vec![run; frame.height()]);
            frame.insert_column(0, column)?;
            Ok::<_, PolarsError>(frame)
        };
        let Self { samples, labels, windows } = self;
        Ok(Self { samples: numbered(samples)?, labels: numbered(labels)?, windows: numbered(windows)? })
    }
}

/// The samples of a run, one row per record; see [`Columns`].
///
/// # Errors
/// Columns of unequal length, which would be a mistake in this file.
pub fn samples(switches: &Switches, records: &[Record]) -> PolarsResult<DataFrame> {
    fn each<T>(records: &[Record], value: impl Fn(&Record) -> T) -> Vec<T> {
        records.iter().map(value).collect()
    }
    df!(
        "uid" => each(records, |record| record.sample.uid.clone()),
        "video" => each(records, cluster_name),
        "gold" => each(records, |record| record.sample.gold.to_string()),
        "value" => each(records, |record| record.score.value),
        "counted" => each(records, |record| counts(record, switches)),
        "calls" => each(records, |record| record.transcript.tool_calls.len() as u32),
        "width" => each(records, |record| of_record::parallel_width(record) as u32),
        "prompt_tokens" => each(records, of_record::prompt_tokens),
        "completion_tokens" => each(records, of_record::completion_tokens),
        "tokens" => each(records, |record| tokens(record) as f64),
        "seconds" => each(records, |record| record.measured.seconds),
        "media_seconds" => each(records, |record| record.measured.media_seconds),
    )
}

fn labels(breakdowns: &[Breakdown], switches: &Switches, records: &[Record]) -> PolarsResult<DataFrame> {
    let (mut tags, mut labels, mut videos, mut values) = (vec![], vec![], vec![], vec![]);
    for record in records.iter().filter(|record| counts(record, switches)) {
        let present = |tag: &str| !leaves_groups(record, tag, switches);
        for breakdown in breakdowns.iter().filter(|breakdown| present(&breakdown.tag)) {
            for label in record.sample.tags.get(&breakdown.tag).into_iter().flatten() {
                tags.push(breakdown.tag.clone());
                labels.push(label.clone());
                videos.push(cluster_name(record));
                values.push(record.score.value);
            }
        }
    }
    df!("tag" => tags, "label" => labels, "video" => videos, "value" => values)
}
