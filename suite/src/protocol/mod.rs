//! A protocol: the texts around a sample, as data.
//!
//! Texts of a release are imported from its pinned files and never stand in this tree; the suite's own
//! protocol is [`native`]. Both are the same struct, rendered by [`render`].

pub mod cache;
pub mod native;
pub mod render;
pub mod template;

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use template::Template;

/// How a model is addressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptMode {
    /// One call, short system text.
    Direct,
    /// One call, think-then-answer system text.
    Reasoning,
    /// Tool loop with the verbose agentic system text.
    AgenticGeneral,
    /// Tool loop with the bare tool schema.
    AgenticMinimal,
    /// Tool loop in the suite's own words.
    Native,
}

impl PromptMode {
    /// All modes.
    pub const ALL: [PromptMode; 5] =
        [Self::Direct, Self::Reasoning, Self::AgenticGeneral, Self::AgenticMinimal, Self::Native];

    /// Name on the command line and upstream.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Reasoning => "reasoning",
            Self::AgenticGeneral => "agentic_general",
            Self::AgenticMinimal => "agentic_minimal",
            Self::Native => "native",
        }
    }

    /// Whether the mode runs the tool loop.
    pub fn is_agentic(self) -> bool {
        matches!(self, Self::AgenticGeneral | Self::AgenticMinimal | Self::Native)
    }
}

impl std::fmt::Display for PromptMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for PromptMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text).ok_or_else(|| {
            format!("unknown prompt mode `{text}`: use direct, reasoning, agentic_general, agentic_minimal or native")
        })
    }
}

/// All texts of one protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protocol {
    /// `native`, or `paravt` for the imported one.
    pub name: String,
    /// Where the texts come from.
    pub source: Source,
    /// System text by mode; a mode that is absent is not available under this protocol.
    pub system: BTreeMap<PromptMode, String>,
    /// Instruction at the end of a choice question, slot-free.
    pub instructions: Instructions,
    /// Question templates by split name (`videomme`), then by kind (`choice`, `grounding`, `open`).
    /// Slots: `question`, `options`, `instruction`, `subtitles_block`, `caption`, `duration_note`.
    pub questions: BTreeMap<String, Template>,
    /// One option line; slots `letter`, `option`. Lines are joined with `\n`.
    pub option_line: Template,
    /// What precedes a question with subtitles; slot `subtitles`. Renders into `subtitles_block`
    /// when the subtitle text is not empty.
    pub subtitles_block: Template,
    /// Says how long the video is; slot `seconds` (one decimal). Renders into `duration_note` where the
    /// duration is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_note: Option<Template>,
    /// Appended in agentic modes; slots `question`, `video_name`.
    pub video_path: Option<VideoPathSuffix>,
    /// Text and token limit of the forced final answer, by question kind.
    pub force: BTreeMap<String, Force>,
    /// Text beside a crop's frames; slots `n`, `start`, `end` (one decimal).
    pub crop_response: Template,
    /// Response to a crop that failed; slots `start`, `end`.
    pub crop_error: Template,
    /// Response to a call that could not be understood (profile `strict`); slot `reason`.
    pub call_error: Template,
    /// Response that carries a sub-agent's summary; slots `start`, `end`, `summary`.
    pub subagent_response: Template,
    /// What a sub-agent is asked about its frames; slots `question`, `start`, `end`, `n`.
    pub subagent_prompt: Template,
    /// What precedes each frame; slot `time`, in seconds with one decimal. The reference's evaluation
    /// shows bare frames, its training labels them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_label: Option<Template>,
    /// The tool for the chat API; a protocol without it has no dialect `native`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_tools: Option<ChatTools>,
    /// Name of the [`Reference`](crate::reference::Reference) whose tool calls the texts describe; none for
    /// the suite's own texts, which are written for the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Default token limit of a turn.
    pub max_tokens: u32,
}

/// What dialect `native` needs of a protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatTools {
    /// Definition of the tool, as `tools` of the chat API has it.
    pub definition: serde_json::Value,
    /// System texts that do not say how a call is written, by mode; a mode that is absent has its own text.
    pub system: BTreeMap<PromptMode, String>,
}

impl Protocol {
    /// SHA-256 over all texts (not over where they come from), lower-case hexadecimal; with a mark
    /// in front when a file was not the pinned one, so that every record shows it.
    ///
    /// Every text that reaches a model is in it, but for what the slots are filled with: the sample, times,
    /// numbers of frames, summaries, and the reason of a call that cannot be run
    /// ([`CallError`](crate::reference::CallError)).
    pub fn hash(&self) -> String {
        use sha2::{Digest as _, Sha256};
        let mut value = serde_json::to_value(self).expect("a protocol is plain data with string keys");
        if let Some(fields) = value.as_object_mut() {
            fields.remove("source");
            fields.sort_keys();
        }
        let hash = crate::record::hex(&Sha256::digest(value.to_string().as_bytes()));
        if self.source.pinned { hash } else { format!("unpinned:{hash}") }
    }
}

/// Where a protocol's texts come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Repository, or `paravt-bench` for the native protocol.
    pub repository: String,
    /// Commit, or the suite's version. Of unpinned files, the commit they were found at and whether
    /// they were edited since, in words.
    pub commit: String,
    /// SHA-256 by file.
    pub files: BTreeMap<String, String>,
    /// False when a file's hash differed and `--unpinned` let it pass; then every record says so.
    pub pinned: bool,
}

/// Instructions that end a choice question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instructions {
    /// Upstream's text of mode `direct` (it mentions the tool; see quirk `inverted_instruction`).
    pub direct: String,
    /// Upstream's text of every other mode.
    pub other: String,
    /// Neutral text for `strict`, by mode family: without tools.
    pub neutral: String,
    /// Neutral text for `strict`: tool loop.
    pub neutral_agentic: String,
}

/// The sentence that tells an agentic model the video's path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VideoPathSuffix {
    /// The whole user text with the sentence; slots `question`, `video_name`.
    pub template: Template,
    /// Not added when the text contains this, compared in lower case.
    pub unless: String,
}

/// The forced final answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Force {
    /// User message.
    pub text: String,
    /// Token limit of the reply.
    pub max_tokens: u32,
}
