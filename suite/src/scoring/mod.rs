//! From a final text to a value: the corrected rules, and what metrics make of values.

pub mod group;
mod metric;
pub mod number;
pub mod strict;

pub use crate::reference::{RAISES, Scorer};
pub use metric::{Member, Metric, MetricValue, Over};
pub use strict::Strict;
