//! Agents that answer a sample in conversations of two messages each ([`Stages`]).
//!
//! What follows on a reply is outside of this crate: a [`Staged`] reads each and says what is asked next.

use crate::media::VideoFacts;
use crate::protocol::{AgentLoop, Stages};
use crate::record::ToolCall;

/// What a sample begins with.
pub struct Beginning<'a> {
    /// The loop, with its frames and words.
    pub own: &'a AgentLoop,
    /// Texts and limits of the stages.
    pub stages: &'a Stages,
    /// System text of the first conversation.
    pub system: &'a str,
    /// The question's text.
    pub question: String,
    /// Name of the video.
    pub video_name: String,
    /// The video.
    pub video: VideoFacts,
}

/// One sample on its way.
pub trait Staged: Send {
    /// What follows on a reply; on none the first conversation.
    fn next(&mut self, reply: Option<&str>) -> Stage;

    /// The calls so far, and how they ended.
    fn calls(&mut self) -> Vec<ToolCall>;
}

/// What follows.
#[derive(Debug, Clone, PartialEq)]
pub enum Stage {
    /// A conversation with the model.
    Ask(Ask),
    /// The answer.
    Done(String),
}

/// A conversation of a system text and a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Step of the record.
    pub step: String,
    /// System text.
    pub system: String,
    /// Frames in front of the text.
    pub shown: Shown,
    /// The text.
    pub text: String,
    /// Number of the try that it belongs to, from 0: each draws other tokens.
    pub attempt: usize,
    /// Sampling temperature, where it is not that of the run.
    pub temperature: Option<f64>,
}

/// Frames by their indices in the sample's video.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// None.
    Nothing,
    /// One video, sampled as the agent's frames are.
    Video(Vec<usize>),
    /// Images as OpenCV saves them: JPEG of quality 95 in the size of the video.
    Images(Vec<usize>),
}
