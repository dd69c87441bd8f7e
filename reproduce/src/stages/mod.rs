//! The kinds of stages, one file each; a recipe's graph is made of them.

mod check;
mod curriculum;
mod evaluate;
mod exam;
mod external;
mod fetch;
mod generated;
mod launch;
mod materialize;
mod prepare;
mod report;
mod rl;
mod rows;
mod serve;
mod sft;
mod training_record;

pub use curriculum::Curriculum;
pub use exam::{Exam, examine};
pub use external::External;
pub use generated::{Base, Fresh, TrainingData, World};
pub use launch::Launch;
pub use materialize::Materialize;
pub use prepare::Prepare;
pub use rl::Reinforcement;
pub use sft::Sft;
