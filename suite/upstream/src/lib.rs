#![forbid(unsafe_code)]
//! What imitates released code: the import of a release's texts, and the two releases with more than a loop's rules, ParaVT
//! and PyVision-Video, each with its tool calls and its scoring. All other agents are in `paravt-agents`, with the list of
//! all.

pub mod import;
pub mod paravt;
pub mod pyvision;
