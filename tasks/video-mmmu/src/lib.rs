#![forbid(unsafe_code)]
//! VideoMMMU: three questions about each of 300 lectures, a split for each stage of learning.

mod scoring;

use paravt_suite::task::Benchmark;

/// The splits of the benchmark.
pub static SPLITS: &[&Benchmark] = &[&PERCEPTION, &COMPREHENSION, &ADAPTATION];
/// `video_mmmu_perception`.
pub static PERCEPTION: Benchmark = split("");
/// `video_mmmu_comprehension`.
pub(crate) static COMPREHENSION: Benchmark = split(include_str!("../comprehension.toml"));
/// `video_mmmu_adaptation`.
pub static ADAPTATION: Benchmark = split(include_str!("../adaptation.toml"));

const fn split(changes: &'static str) -> Benchmark {
    Benchmark::described(include_str!("../benchmark.toml"))
        .with_changes(changes)
        .with_scorer(&scoring::LmmsEval)
}
