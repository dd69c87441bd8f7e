#![forbid(unsafe_code)]
//! ExtremeWhenBench: grounding in videos of hours.

use paravt_suite::task::Benchmark;

/// The splits of the benchmark.
pub static SPLITS: &[&Benchmark] = &[&EXTREMEWHEN];
/// `extremewhen`.
pub static EXTREMEWHEN: Benchmark = Benchmark::described(include_str!("../benchmark.toml"));
