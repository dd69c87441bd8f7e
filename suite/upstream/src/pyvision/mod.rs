//! PyVision-RL 62ca599 (arXiv 2602.20739): models that write Python over a video or an image.
//!
//! The first prompt about a video is text alone, that about an image may show it. A turn ends with an answer or with
//! code; what the code printed and the figures that it showed are the next user turn ([`Environment`]). [`Progress`]
//! says when an episode ends, and why. [`Tool`] is both over the jail, for the suite's loop; the imports of its texts
//! are [`RELEASE`] (videos), [`IMAGE`] and [`UNSEEN`].
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
pub use protocol::{IMAGE, REFERENCE, RELEASE, UNSEEN};
pub use tool::{Tool, video_lines};
pub(crate) use verifier::MAX_ANSWER_CHARS;
pub use verifier::{judged_answer, rule_score};
