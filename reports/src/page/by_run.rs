//! What the runs did and cost in one table, a row for each run under its split.

use minijinja::{Value, context};

use super::names::Names;
use super::sections;
use crate::table::{Pick, Table, ViewColumn, col};
use crate::{Report, tables};

/// Columns of the tables with a row for each run that the page shows beside one another: title of their group, table,
/// columns. The files have all.
const BESIDE: [(&str, &str, &[Pick]); 5] = [
    (
        "tool calls",
        "tools",
        &[
            col("calls_per_sample").titled("a sample"),
            col("samples_with_calls_percent").titled("samples, %"),
            col("parallel_width").titled("in a turn"),
            col("window_seconds"),
            col("failed_crops").titled("failed"),
            col("malformed_calls"),
            col("forced_answers").titled("forced answers"),
        ],
    ),
    (
        "frames a sample",
        "frames",
        &[
            col("overview_frames").titled("overview"),
            col("crop_frames").titled("crops"),
            col("sub_agent_frames").titled("sub-agents"),
            col("samples_without_frames").titled("not recorded"),
        ],
    ),
    (
        "samples without a full answer",
        "losses",
        &[
            col("missing"),
            col("failed"),
            col("aborted"),
            col("unparsed"),
            col("truncated"),
            col("frame_loss"),
            col("dropped_calls"),
            col("errors"),
        ],
    ),
    (
        "cost",
        "cost",
        &[
            col("prompt_tokens"),
            col("completion_tokens"),
            col("reasoning_tokens"),
            col("median_seconds").titled("latency, median (s)"),
            col("p99_seconds").titled("p99 (s)"),
            col("wall_seconds_per_sample").titled("wall time a sample (s)"),
            col("gpu_hours"),
            col("token_price").titled("tokens"),
            col("gpu_price").titled("GPUs"),
            col("currency").titled(""),
        ],
    ),
    (
        "model calls",
        "latency",
        &[
            col("first_token_median_seconds").titled("first token, median (s)"),
            col("token_median_ms").titled("per token (ms)"),
            col("tokens_per_second").titled("tokens per second"),
            col("memory_planned_gib").titled("memory, planned (GiB)"),
            col("memory_peak_gib").titled("peak (GiB)"),
        ],
    ),
];

/// The table, and the names of those that it is of. A column of zeros says nothing.
pub(super) fn table(report: &Report, names: &Names, tables: &[Table]) -> Value {
    let mut view = tables::scores(report).view(&[col("split"), col("run")]);
    view.columns[1].texts = names.shown();
    view.title = "Tools, frames, errors and cost".to_owned();
    view.name = "";
    for (group, name, picks) in BESIDE {
        let Some(table) = tables.iter().find(|table| table.name == name) else { continue };
        let picks: Vec<Pick> = picks.iter().copied().filter(|pick| table.has(pick)).collect();
        let said = |column: &ViewColumn| column.texts.iter().any(|text| !matches!(&**text, "" | "0"));
        let columns = table.view(&picks).columns.into_iter().filter(said);
        view.columns.extend(columns.map(|column| ViewColumn { group, ..column }));
    }
    let files = BESIDE
        .map(|(_, name, _)| name)
        .into_iter()
        .filter(|name| tables.iter().any(|table| table.name == *name));
    context! { table => sections::under_first(&view), files => files.collect::<Vec<_>>() }
}
