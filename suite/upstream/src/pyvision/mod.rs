//! PyVision-Video of PyVision-RL 62ca599 (arXiv 2602.20739): a model that writes Python over a video.
//!
//! Its first prompt is text alone. A turn ends with an answer or with code; what the code printed and the figures that it
//! showed are the next user turn ([`Environment`]). [`Rules`] say when an episode ends, and why.
//!
//! Paths in the comments lie below `verl_agents/verl` of the repository. Its sentences are read from a checkout
//! ([`Texts`]).

mod action;
mod environment;
mod observation;
mod rules;
mod texts;

pub use action::{Action, MAX_ANSWER_CHARS, action, is_forbidden, judged_answer};
pub use environment::{ActionError, Environment, Step};
pub use observation::{Observation, Part, neutral};
pub use rules::{EndReason, OnError, Progress, Rules, Turn};
pub use texts::{COMMIT, REPOSITORY, TEMPLATE, TEMPLATES, TOOL, Texts, TextsError, video_lines};
