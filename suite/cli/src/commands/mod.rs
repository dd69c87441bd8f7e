//! One file per command: flags in, one call, exit code out.

pub(crate) mod ask;
mod asked;
pub(crate) mod audit;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod data;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod frames;
pub(crate) mod generate;
pub(crate) mod man;
pub(crate) mod merge;
pub(crate) mod preflight;
pub(crate) mod protocol;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod run;
pub(crate) mod status;
