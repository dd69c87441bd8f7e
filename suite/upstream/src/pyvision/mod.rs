//! PyVision-Video of PyVision-RL 62ca599 (arXiv 2602.20739): a model that writes Python over a video.
//!
//! Its first prompt is text alone. A turn ends with an answer or with code; what the code printed and the figures that it
//! showed are the next user turn ([`Environment`]). [`Progress`] says when an episode ends, and why. [`Tool`] is both over
//! the jail, for the suite's loop; the import of its texts is [`RELEASE`].
//!
//! Paths in the comments lie below `verl_agents/verl` of the repository.

mod action;
mod environment;
mod observation;
mod progress;
mod protocol;
mod tool;
mod verifier;

pub use action::{Action, action, is_forbidden};
pub use environment::{ActionError, Environment, Step, StepError};
pub use observation::{Observation, Part, neutral};
pub use progress::{Progress, Turn};
pub use protocol::{REFERENCE, RELEASE};
pub use tool::{Tool, video_lines};
pub(crate) use verifier::MAX_ANSWER_CHARS;
pub use verifier::{judged_answer, rule_score};
