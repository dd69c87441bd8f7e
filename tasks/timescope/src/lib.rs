#![forbid(unsafe_code)]
//! TimeScope: short clips hidden in videos of one minute to eight hours.
//!
//! ```
//! use paravt_suite::task::Task as _;
//!
//! assert_eq!(paravt_task_timescope::TIMESCOPE.spec().title, "TimeScope");
//! ```

use paravt_suite::task::Benchmark;

/// The splits of the benchmark.
pub static SPLITS: &[&Benchmark] = &[&TIMESCOPE];
/// `timescope`.
pub static TIMESCOPE: Benchmark = Benchmark::described(include_str!("../benchmark.toml"));
