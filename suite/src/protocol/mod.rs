//! A protocol as data: the modes in which a model is addressed, the texts around a sample, the tool.
//!
//! Texts of a release are imported from its pinned files and are never part of this tree; the suite's own
//! protocol is [`native`]; a user's is a [`file`](mod@file). All are the same struct, rendered by [`render`].

mod agent;
pub mod cache;
mod check;
mod clips;
mod code;
pub mod file;
mod frames;
mod harness;
mod inherit;
mod mode;
pub mod native;
pub mod render;
pub mod template;
mod tool;
mod tries;

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

pub use agent::{
    AgentLoop, CodeLoop, Continued, FailedCalls, Fidelity, FrameLoop, ResultRole, Sampling, Scored, Shape,
};
pub use check::InvalidProtocol;
pub use clips::{Clips, Stored};
pub use code::{CodeRules, CodeTexts, FileInfo, ImageClues};
pub use frames::{Budget, Encoding, Filter, FramePolicy, LongVideos, Overview, SentAs, SizeRule};
pub use harness::{CallMessages, Harness, History};
pub use inherit::KindOf;
pub use mode::{PromptMode, UnknownMode};
pub use template::Template;
pub use tool::{CallError, Tool};
pub use tries::Tries;

/// All texts of one protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protocol {
    /// Its name, e.g. `native`.
    pub name: String,
    /// Origin of the texts.
    pub source: Source,
    /// System text by mode: the protocol has these modes and no others. An empty one is not sent.
    pub system: IndexMap<PromptMode, String>,
    /// Mode of a run that names none.
    pub default_mode: PromptMode,
    /// It asks about images in the place of a video.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub images: bool,
    /// The tool, and the modes that offer it; none by default.
    #[serde(default)]
    pub tool: Tool,
    /// Instruction at the end of a choice question, slot-free.
    #[serde(default)]
    pub instructions: Instructions,
    /// Question templates by split name (`videomme`), then by kind (`choice`, `grounding`, `open`).
    /// Slots: `question`, `options`, `instruction`, `subtitles_block`, `caption`, `duration_note`.
    pub questions: BTreeMap<String, Template>,
    /// One option line; slots `letter`, `option`.
    #[serde(default = "option_line")]
    pub option_line: Template,
    /// Between two option lines; a line break by default.
    #[serde(default = "line_break", skip_serializing_if = "is_line_break")]
    pub option_separator: String,
    /// Options of single splits, by their names, where they are written otherwise.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub option_forms: BTreeMap<String, OptionForm>,
    /// What precedes a question with subtitles; slot `subtitles`. Renders into `subtitles_block`
    /// when the subtitle text is not empty.
    #[serde(default)]
    pub subtitles_block: Template,
    /// Says how long the video is; slot `seconds` (one decimal). Renders into `duration_note` where the
    /// duration is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_note: Option<Template>,
    /// Appended in modes with the tool; slots `question`, `video_name`.
    #[serde(default)]
    pub video_path: Option<VideoPathSuffix>,
    /// Text and token limit of the forced final answer, by question kind.
    #[serde(default)]
    pub force: BTreeMap<String, Force>,
    /// Text beside a crop's frames; slots `n`, `start`, `end` (one decimal). With a loop of its own also `frames` (where
    /// they stand; in front without it) and `prompt` (the question, see [`FrameLoop::round`]).
    #[serde(default)]
    pub crop_response: Template,
    /// Response to a crop that failed; slots `start`, `end`, `reason`.
    #[serde(default)]
    pub crop_error: Template,
    /// Response to a call that could not be understood (profile `strict`); slot `reason`.
    #[serde(default)]
    pub call_error: Template,
    /// Response that carries a sub-agent's summary; slots `start`, `end`, `summary`.
    #[serde(default)]
    pub subagent_response: Template,
    /// Prompt of a sub-agent about its frames; slots `question`, `start`, `end`, `n`.
    #[serde(default)]
    pub subagent_prompt: Template,
    /// What precedes each frame; slots `time`, in seconds with one decimal, `time2` with two, `hms` (`HH:MM:SS`) and
    /// `mmss` (`mm:ss`), both rounded down, `index`, the frame's place in its message, and `frame`, its number in the
    /// video, both from 0. The reference's evaluation shows bare frames, its training labels them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_label: Option<Template>,
    /// The tool for the chat API; a protocol without it has no dialect `native`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_tools: Option<ChatTools>,
    /// Name of the [`Reference`](crate::agent::Reference) whose tool calls the texts describe; none for
    /// the suite's own texts, which are written for the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// An agent's own loop; none runs that of the first reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentLoop>,
    /// Default token limit of a turn.
    pub max_tokens: u32,
}

/// How the options of one split are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptionForm {
    /// As [`Protocol::option_line`].
    pub line: Template,
    /// As [`Protocol::option_separator`].
    pub separator: String,
    /// Stands for a line break inside the question; a line break without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_break: Option<String>,
}

/// Texts and tool definition for dialect `native`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatTools {
    /// Definition of the tool, as `tools` of the chat API has it.
    pub definition: serde_json::Value,
    /// System texts that do not say how a call is written, by mode; a mode that is absent has its own text.
    pub system: IndexMap<PromptMode, String>,
}

fn option_line() -> Template {
    Template::parse("{letter}. {option}")
}

fn line_break() -> String {
    "\n".to_owned()
}

fn is_line_break(text: &str) -> bool {
    text == "\n"
}

impl Protocol {
    /// The turns of the model's code, where the agent's own loop has a tool for it.
    pub fn code(&self) -> Option<(&AgentLoop, &CodeLoop)> {
        let agent_loop = self.agent.as_ref()?;
        Some((agent_loop, agent_loop.code()?))
    }

    /// Whether a mode runs the tool loop; the others are one call.
    pub fn offers_tool(&self, mode: &PromptMode) -> bool {
        self.tool.modes.contains(mode)
    }

    /// Whether the model has a tool in this mode, which the suite runs or the server.
    pub fn has_tool(&self, mode: &PromptMode) -> bool {
        self.offers_tool(mode) || self.tool.served.contains(mode)
    }

    /// Whether it asks about images, and not about a video.
    pub fn is_about_images(&self) -> bool {
        self.images || self.code().is_some_and(|(_, code)| code.rules.clues.is_some())
    }

    /// Whether the videos of a request have positions of their own each.
    pub(crate) fn has_own_positions(&self) -> bool {
        let clips = self.agent.as_ref().and_then(AgentLoop::clips);
        clips.is_some_and(|clips| clips.own_positions)
    }

    /// Token limit of a reply in a split, where a run gives none.
    pub fn reply_tokens(&self, split: &str) -> u32 {
        let of_split = self.agent.as_ref().and_then(|agent_loop| agent_loop.harness.max_tokens.get(split));
        of_split.copied().unwrap_or(self.max_tokens)
    }

    /// The system text of a mode.
    pub fn system_text(&self, mode: &PromptMode) -> Result<&str, UnknownMode> {
        self.system.get(mode).map(String::as_str).ok_or_else(|| UnknownMode::of(self, mode))
    }

    /// SHA-256 over all texts and the tool (not over where they come from), lower-case hexadecimal; with a
    /// mark in front when a file was not the pinned one, so that every record shows it.
    ///
    /// Every text that reaches a model is in it, but for what the slots are filled with: the sample, times,
    /// numbers of frames, summaries. The default mode is left out: it reaches no model, and a run's plan names
    /// its mode.
    pub fn hash(&self) -> String {
        let mut value = serde_json::to_value(self).expect("a protocol is plain data with string keys");
        if let Some(fields) = value.as_object_mut() {
            fields.remove("source");
            fields.remove("default_mode");
            fields.sort_keys();
        }
        let hash = paravt_files::sha256(value.to_string());
        if self.source.pinned { hash } else { format!("unpinned:{hash}") }
    }
}

/// Origin of a protocol's texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Repository, or `paravt-bench` for the native protocol.
    pub repository: String,
    /// Commit, or the suite's version. Of files that were not the pinned ones, the commit they were found at and whether
    /// they were edited since, in words.
    pub commit: String,
    /// SHA-256 by file.
    pub files: BTreeMap<String, String>,
    /// False where a text is not the release's, as earlier versions imported it; then every record says so.
    pub pinned: bool,
}

/// Instructions that end a choice question.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instructions {
    /// Texts of single modes. The release that is repeated mentions the tool in the mode that has none; see
    /// quirk `inverted_instruction`.
    #[serde(flatten)]
    pub modes: IndexMap<PromptMode, String>,
    /// Text of every other mode.
    pub other: String,
    /// Where quirk `inverted_instruction` is off: text of all modes without the tool; by default as above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neutral: Option<String>,
    /// Where quirk `inverted_instruction` is off: text of all modes with the tool; by default as above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neutral_agentic: Option<String>,
    /// Modes whose own text is asked whether the quirk is on or off, before a neutral one.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub always: BTreeSet<PromptMode>,
}

/// The sentence with the video's path, in modes with the tool.
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
