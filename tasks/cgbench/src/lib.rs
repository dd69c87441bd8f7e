#![forbid(unsafe_code)]
//! CG-Bench: questions about videos of ten minutes to almost two hours, each with the seconds that answer it.

use paravt_suite::task::Benchmark;

/// The splits of the benchmark.
pub static SPLITS: &[&Benchmark] = &[&CGBENCH_MINI];
/// `cgbench_mini`.
pub static CGBENCH_MINI: Benchmark = Benchmark::described(include_str!("../benchmark.toml"));
