#![forbid(unsafe_code)]
//! Training: the rewards of PARA-GRPO (spec/training.md, spec/benchmarks.md §5).

pub mod objective;
pub mod reward;
