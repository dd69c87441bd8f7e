//! One file per command: flags in, one call, exit code out.

pub mod ask;
pub mod check;
pub mod compare;
pub mod completions;
pub mod conformance;
pub mod data;
pub mod doctor;
pub mod frames;
pub mod generate;
pub mod man;
pub mod merge;
pub mod preflight;
pub mod protocol;
pub mod report;
pub mod reproduce;
pub mod run;
