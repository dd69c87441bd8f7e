#![forbid(unsafe_code)]
//! HR-Bench: questions about details of very large photographs.

use paravt_suite::task::Benchmark;

/// The splits of the benchmark.
pub static SPLITS: &[&Benchmark] = &[&HRBENCH_4K, &HRBENCH_8K];
/// `hrbench_4k`.
pub static HRBENCH_4K: Benchmark = Benchmark::described(include_str!("../benchmark.toml"));
/// `hrbench_8k`.
pub static HRBENCH_8K: Benchmark = Benchmark::described(include_str!("../benchmark.toml")).with_changes(
    r#"
    name = "hrbench_8k"
    title = "HR-Bench 8K"
    hub.split = "hr_bench_8k"
    hub.annotations = "hr_bench_8k.parquet"
    hub.media = ["hr_bench_8k.parquet"]
    layout.annotations = ["hr_bench_8k.parquet"]
    layout.videos = ["hrbench/hr_bench_8k"]
    "#,
);
