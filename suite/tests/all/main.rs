//! Tests of the library from outside, in one program.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod data;
mod journal;
mod rooms;
mod task_files;
