//! Code that a model writes over its video: limits and texts, data of a protocol.

use serde::{Deserialize, Serialize};

use super::Template;
use super::harness::is_default;

/// Code of the model over the video: its limits, and the texts of its results. `turns` and `failed_calls` of the loop hold
/// for it, too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodeRules {
    /// Seconds that one call may take.
    pub seconds: u32,
    /// Images at which the conversation ends.
    pub images: u32,
    /// Tokens of all messages at which the conversation ends, by the server's count.
    pub context_tokens: u32,
    /// Tokens that the first message counts for at least.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prompt_tokens: u32,
    /// Whether the release's look at the code is repeated, which refuses some calls by their names.
    #[serde(default, skip_serializing_if = "is_default")]
    pub forbid: bool,
    /// Whether code can print tokens of the chat format; they are made text otherwise.
    #[serde(default, skip_serializing_if = "is_default")]
    pub verbatim: bool,
    pub texts: CodeTexts,
}

/// What a model reads of its code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodeTexts {
    /// The lines on the video, slot `video_info` of the opening; slots `width`, `height` (pixels), `frames`, `fps` (two
    /// decimals).
    pub video: Template,
    /// After code that ran to its end; slots `stdout` and `figures`.
    pub result: Template,
    /// Stands before the figures, where there are any.
    pub heading: String,
    /// Around each figure; slots `index`, its number in the conversation from 0, and `figure`.
    pub figure: Template,
    /// After a turn that failed; slot `reason`.
    pub error: Template,
    /// Reason where code raised; slot `reason`, its message.
    pub raised: Template,
    /// Reason where the turn has neither code nor an answer.
    pub neither: String,
    /// Message of code that the look at it refuses.
    pub forbidden: String,
    /// Message of code that runs too long or ends its interpreter.
    pub late: String,
}
