#![forbid(unsafe_code)]
//! LSDBench: questions with four options about three minutes of a video of 45.

mod scoring;

use paravt_suite::task::Benchmark;

/// The splits of the benchmark.
pub static SPLITS: &[&Benchmark] = &[&LSDBENCH];
/// `lsdbench`.
pub static LSDBENCH: Benchmark =
    Benchmark::described(include_str!("../benchmark.toml")).with_scorer(&scoring::LastLetter);
