#![forbid(unsafe_code)]
//! Training: supervised fine-tuning and the GRPO family on one device, with the model and the agent of the
//! suite.

pub mod checkpoint;
pub mod data;
pub mod durable;
pub mod error;
pub mod example;
pub mod learner;
pub mod log;
pub mod objective;
pub mod optimizer;
pub mod reward;
pub mod rl;
pub mod rollout;
pub mod schedule;
mod settings;
pub mod sft;
pub mod workers;

pub use error::{Error, Result};
pub use paravt_backend_candle::Compute;
