//! Code that a model writes over its video or images: limits and texts, data of a protocol.

use serde::{Deserialize, Serialize};

use super::Template;
use super::harness::is_default;
use crate::message::Part;

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
    /// The code has images in the place of a video.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clues: Option<ImageClues>,
    pub texts: CodeTexts,
}

/// Images that the code has as variables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageClues {
    /// Name of the variables without their number: `image_clue` is `image_clue_0`, `image_clue_1`, ….
    pub variable: String,
    /// Fewest and most pixels in which the first message shows them; it shows none without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<[u32; 2]>,
}

/// What the first message has of a sample's files.
#[derive(Debug, Clone, Default)]
pub struct FileInfo {
    /// The lines on the video or the images.
    pub info: String,
    /// Width of the first frame or image, in pixels.
    pub width: u32,
    /// Height of the first frame or image, in pixels.
    pub height: u32,
    /// The images that the model is shown, and the text around them.
    pub shown: Vec<Part>,
}

/// What a model reads of its code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodeTexts {
    /// The lines on the video or the images, slot `video_info` of the opening; slots `width`, `height` (pixels), `frames`,
    /// `fps` (two decimals).
    pub video: Template,
    /// After code that ran to its end; slots `stdout` and `figures`.
    pub result: Template,
    /// The same where it showed nothing, if that is another text; slot `stdout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<Template>,
    /// Stands before the figures, where there are any.
    pub heading: String,
    /// Around each figure and each image of the first message; slots `index`, its number in the conversation from 0, and
    /// `figure`.
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
