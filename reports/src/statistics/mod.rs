//! Means over clusters of rows, and p-values of several tests: pure functions of plain data.
//!
//! Compared with scipy and statsmodels within 1e-9 (`tests/statistics.rs`).

mod clustered;
mod coverage;
mod groups;
mod holm;
mod signs;

pub use clustered::{Cluster, ClusteredMean, clustered_mean, mean};
pub use coverage::{Coverage, by_kind, simulated};
pub use groups::{mean_of_means, mean_of_merged_means};
pub use holm::holm;
pub use signs::sign_flip;
