//! An agent that answers a sample in conversations of two messages each: texts and limits, data of a protocol.

use serde::{Deserialize, Serialize};

use super::Template;
use super::harness::is_default;

/// Conversations of two messages: one with the video, then some with text alone, and those in which tools ask the model.
///
/// The system text of the protocol is that of the first, `turns` of the loop the maximum of those with text alone, and
/// words for what tools refuse are in [`Harness::errors`](super::Harness::errors).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stages {
    /// The video's path as the model is shown it; slot `video_name`. Calls name it and what they make of it.
    pub path: Template,
    /// Says where the video is and how long; slots `path`, `duration` (`HH:MM:SS`). It follows the question on a line of
    /// its own.
    pub video: Template,
    /// System text of the conversations with text alone.
    pub reasoner: String,
    /// Their user text; slots `previous`, `context`, `question`, `video` and `results`.
    pub message: Template,
    /// System text where a tool asks.
    pub aside: String,
    /// What a tool asks for a moment; slots `event`, `begin` and `end`.
    pub grounding: Template,
    /// Whether a question of a tool shows files that it names by the paths that they have. The release drops these, and keeps
    /// those that it finds by folder and name alone.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keeps_media: bool,
    /// How often a sample is begun before it has no answer: a reply that cannot be read begins it again.
    pub tries: usize,
    /// Sampling temperature of all tries but the first.
    pub retry_temperature: f64,
    /// Frames a second that the model takes every video for, whatever was sampled.
    pub rate: f64,
}
