//! Records as polars frames: one row per sample, per breakdown label and per tool call.

mod aggregate;
mod of_records;

use polars::prelude::DataFrame;

pub use aggregate::{Breakdown, Cost, ToolTable, breakdowns, clusters, costs, tool_tables, windows};
pub use of_records::{FramesBuilder, RunColumns, cluster_name, tokens, turns, video_length, video_name};

/// The frames of all runs of a report. `run` is the run's position in the report.
///
/// ```text
/// samples  run video value counted scored unparsed error calls width turns prompt_tokens
///          completion_tokens seconds media_seconds
/// labels   run tag label video value
/// windows  run start end        shares of the video's length
/// ```
#[derive(Debug, Clone)]
pub struct Frames {
    /// One row per record.
    pub samples: DataFrame,
    /// One row per record and label of a breakdown, where the record counts in it.
    pub labels: DataFrame,
    /// One row per tool call whose window and video length are known.
    pub windows: DataFrame,
}

/// Bins that a video's length is cut into.
pub const BINS: usize = 20;
