#![forbid(unsafe_code)]
//! TimeLens-Bench: three benchmarks of grounding, corrected by hand.

use paravt_suite::task::Benchmark;

const ROWS: &str = include_str!("../benchmark.toml");

/// The splits of the benchmark.
pub static SPLITS: &[&Benchmark] = &[&CHARADES, &ACTIVITYNET, &QVHIGHLIGHTS];
/// `timelens_charades`.
pub static CHARADES: Benchmark = Benchmark::described(ROWS);
/// `timelens_activitynet`.
pub static ACTIVITYNET: Benchmark = Benchmark::described(ROWS).with_changes(
    r#"
    name = "timelens_activitynet"
    title = "ActivityNet-TimeLens"
    expected_rows = 4500
    expected_videos = 1455
    hub.split = "activitynet"
    hub.annotations = "data/activitynet-00000-of-00001.parquet"
    layout.annotations = ["data/activitynet-00000-of-00001.parquet"]
    "#,
);
/// `timelens_qvhighlights`.
pub static QVHIGHLIGHTS: Benchmark = Benchmark::described(ROWS).with_changes(
    r#"
    name = "timelens_qvhighlights"
    title = "QVHighlights-TimeLens"
    expected_rows = 1541
    expected_videos = 1511
    hub.split = "qvhighlights"
    hub.annotations = "data/qvhighlights-00000-of-00001.parquet"
    layout.annotations = ["data/qvhighlights-00000-of-00001.parquet"]
    "#,
);
