#![forbid(unsafe_code)]
//! ExtremeWhenBench: grounding in videos of hours.
//!
//! ```
//! use paravt_suite::task::Task as _;
//!
//! let spec = paravt_task_extremewhen::EXTREMEWHEN.spec();
//! assert_eq!((spec.expected_rows, spec.expected_videos), (2273, 194));
//! ```

use paravt_suite::task::Benchmark;

/// The splits of the benchmark.
pub static SPLITS: &[&Benchmark] = &[&EXTREMEWHEN];
/// `extremewhen`.
pub static EXTREMEWHEN: Benchmark = Benchmark::described(include_str!("../benchmark.toml"));
