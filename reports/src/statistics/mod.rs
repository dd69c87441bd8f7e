//! Means over clusters of rows, and p-values of several tests: pure functions of plain data.
//!
//! Compared with scipy and statsmodels within 1e-9 (`tests/statistics.rs`).

mod clustered;
mod groups;
mod holm;
mod normal;
mod paired;

pub use clustered::{Cluster, clustered_standard_error, mean, standard_error};
pub use groups::{GroupedMean, mean_of_means};
pub use holm::holm;
pub use normal::{Z95, two_sided_p};
pub use paired::{PairedMean, paired_mean};
