//! Tests of reports, comparisons and the gate, one program: each file linked apart would cost seconds and 100 MB.
#![allow(clippy::unwrap_used)]

mod browser;
mod common;
mod contrasts;
mod coverage;
mod exports;
mod forms;
mod history;
mod long;
mod paired;
mod probes;
mod protocols;
mod regression;
mod rows;
mod shared_runs;
mod statistics;
mod verdicts;
