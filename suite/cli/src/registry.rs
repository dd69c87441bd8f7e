//! The one place that names tasks and backends.

use paravt_suite::task::Task;

/// Every split, in the order of the paper's table.
#[allow(dead_code)]
pub fn tasks() -> Vec<Box<dyn Task>> {
    Vec::new()
}
