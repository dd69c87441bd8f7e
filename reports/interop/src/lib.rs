#![forbid(unsafe_code)]
//! Files of other harnesses: read to be audited, and written so that other tools open a run of this suite.

pub mod audit;
pub mod export;
pub mod import;
mod names;
