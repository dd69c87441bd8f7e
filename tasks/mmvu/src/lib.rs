#![forbid(unsafe_code)]
//! The benchmark.
