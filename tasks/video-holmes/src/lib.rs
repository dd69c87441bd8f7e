#![forbid(unsafe_code)]
//! Video-Holmes: questions with six options about suspense films.

mod scoring;

use paravt_suite::task::Benchmark;

/// The splits of the benchmark.
pub static SPLITS: &[&Benchmark] = &[&VIDEO_HOLMES];
/// `video_holmes`.
pub static VIDEO_HOLMES: Benchmark =
    Benchmark::described(include_str!("../benchmark.toml")).with_scorer(&scoring::MmmuParser);
