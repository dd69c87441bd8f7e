#![forbid(unsafe_code)]
//! Video-Holmes: questions with six options about suspense films.
//!
//! ```
//! use paravt_suite::task::Task as _;
//!
//! let spec = paravt_task_video_holmes::VIDEO_HOLMES.spec();
//! assert_eq!((spec.expected_rows, spec.expected_videos), (1837, 270));
//! ```

mod scoring;

use paravt_suite::task::Benchmark;

/// The splits of the benchmark.
pub static SPLITS: &[&Benchmark] = &[&VIDEO_HOLMES];
/// `video_holmes`.
pub static VIDEO_HOLMES: Benchmark =
    Benchmark::described(include_str!("../benchmark.toml")).with_scorer(&scoring::MmmuParser);
