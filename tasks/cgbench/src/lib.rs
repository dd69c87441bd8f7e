#![forbid(unsafe_code)]
//! CG-Bench: questions about videos of ten minutes to almost two hours, each with the seconds that answer it.
//!
//! ```
//! use paravt_suite::task::Task as _;
//!
//! let spec = paravt_task_cgbench::CGBENCH_MINI.spec();
//! assert_eq!((spec.expected_rows, spec.expected_videos), (3000, 1118));
//! ```

use paravt_suite::task::Benchmark;

/// The splits of the benchmark.
pub static SPLITS: &[&Benchmark] = &[&CGBENCH_MINI];
/// `cgbench_mini`.
pub static CGBENCH_MINI: Benchmark = Benchmark::described(include_str!("../benchmark.toml"));
