#![forbid(unsafe_code)]
//! Training: supervised fine-tuning and the GRPO family on one device, with the model and the agent of the
//! suite.
//!
//! ```
//! use paravt_train::schedule::Schedule;
//!
//! // The learning rate of SFT: up over the first 5 % of the steps, then half a cosine.
//! let schedule = Schedule::Cosine { warmup_ratio: 0.05 };
//! assert!(schedule.factor(10, 100) > schedule.factor(90, 100));
//! ```

pub mod checkpoint;
mod compute;
pub mod data;
pub mod error;
pub mod example;
mod grad;
pub mod learner;
pub mod log;
mod memory;
pub mod objective;
pub mod optimizer;
mod parameters;
pub mod reward;
pub mod rl;
pub mod rollout;
pub mod schedule;
pub mod seed;
mod settings;
pub mod sft;
mod storage;
pub mod structure;
pub mod workers;

pub use compute::Compute;
pub use error::{Error, Result};
pub use memory::StepMemory;
pub use parameters::start_rollouts;
pub use parameters::{Parameter, Parameters};
