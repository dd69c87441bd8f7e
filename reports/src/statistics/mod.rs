//! Intervals, standard errors and paired tests: pure functions of plain data.
//!
//! Exact formulas are held against scipy and statsmodels within 1e-9, resampling within its own
//! Monte-Carlo error (`tests/statistics.rs`).

mod bootstrap;
mod clustered;
mod groups;
mod holm;
mod normal;
mod paired;
mod power;
mod proportion;

pub use bootstrap::{Bootstrap, cluster_bootstrap};
pub use clustered::{Cluster, clustered_standard_error, mean, standard_error};
pub use groups::{mean_of_means, student_interval};
pub use holm::holm;
pub use normal::{Z95, two_sided_p};
pub use paired::{Flips, PairedMean, mcnemar_exact, paired_mean};
pub use power::{POWER, minimal_detectable_difference};
pub use proportion::wilson;
