//! Means over clusters of rows, and p-values of several tests: pure functions of plain data.
//!
//! Compared with scipy and statsmodels within 1e-9 (`tests/statistics.rs`).

mod clustered;
mod coverage;
mod groups;
mod holm;
mod signs;

pub(crate) use clustered::clustered_mean;
pub use clustered::{Cluster, ClusteredMean, mean};
pub use coverage::{Coverage, by_kind, simulated};
pub use groups::mean_of_means;
pub(crate) use groups::mean_of_merged_means;
pub use holm::holm;
pub use signs::sign_flip;
