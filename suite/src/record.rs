//! The record of one finished sample: everything from which its score can be recomputed.
//!
//! Fields that differ between two equal runs (times, retries) are in
//! [`Measured`] alone, so that "same records" is a comparison of everything else.

use serde::{Deserialize, Serialize};

use crate::backend::{BackendError, FinishReason, Usage};
use crate::fingerprint::Fingerprint;
use crate::message::{Content, FrameOrigin, Message, Part, Role, StructuredCall};
use crate::profile::Profile;
use crate::protocol::Fidelity;
use crate::sample::Sample;

/// Version of the record format; see [`format`](crate::format) for when it rises.
pub const RECORD_VERSION: u32 = 1;

/// One finished sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Record {
    /// Version of the record format, see `RECORD_VERSION` in `suite/src/record.rs`.
    pub version: u32,
    /// Profile under which the sample was run and scored.
    pub profile: Profile,
    /// SHA-256 over the protocol's texts; `unpinned:` in front where an imported file was not the pinned one.
    pub protocol: String,
    /// The sample, gold included.
    pub sample: Sample,
    /// Which repetition of the sample this is, from 0; absent for the first.
    #[serde(default, skip_serializing_if = "is_first")]
    pub epoch: usize,
    /// Messages, model calls, tool calls and the text that is scored.
    pub transcript: Transcript,
    /// Outcome and score.
    pub score: Score,
    /// Score by the agent's own answer extraction, beside that of the suite; absent where the protocol has no loop of its own,
    /// and of failed samples.
    #[serde(rename = "own", default, skip_serializing_if = "Option::is_none")]
    pub agent_score: Option<AgentScore>,
    /// Why the sample has no answer, if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<SampleError>,
    /// Times and retries.
    pub measured: Measured,
}

impl Record {
    /// What a record is known by in its run: uid and epoch.
    pub fn key(&self) -> (&str, usize) {
        (&self.sample.uid, self.epoch)
    }

    /// The model that answered, as the server names it in the last reply that does.
    pub fn answered_by(&self) -> Option<&str> {
        self.transcript.calls.iter().rev().find_map(|call| call.model.as_deref())
    }

    /// The error of the model call that failed the sample.
    pub fn failed_call(&self) -> Option<&BackendError> {
        let step = &self.error.as_ref()?.step;
        self.transcript.calls.iter().rev().find(|call| call.step == *step)?.error.as_ref()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_first(epoch: &usize) -> bool {
    *epoch == 0
}

/// Everything that was said, in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Transcript {
    /// The main conversation, the final answer included.
    pub messages: Vec<RecordedMessage>,
    /// Every model call, sub-agent calls included, in dispatch order.
    pub calls: Vec<ModelCall>,
    /// Every tool call, in call order.
    pub tool_calls: Vec<ToolCall>,
    /// Tool calls beyond `max_parallel`, which were not run.
    pub dropped_calls: usize,
    /// The text that is scored.
    pub final_text: String,
    /// Whether `final_text` answers the forced-answer message.
    pub forced: bool,
    /// Why the overview has no frames; the question was then sent as text alone.
    pub frame_loss: Option<String>,
    /// Whether a reply of the sample's own conversation ended at the token limit; a sub-agent's says so in its call.
    pub truncated: bool,
    /// Whether some frames are those of the reference's second video reader, which takes over where the first
    /// fails: a window of less than two frames, or a damaged file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub second_reader: bool,
    /// Fingerprint of the opening: text, frames, their size and bytes; absent where the sample failed before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Fingerprint>,
    /// Whether decoding the video was given up after its time limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub decode_timeout: bool,
    /// Tries of an agent that begins afresh where its answer does not count; absent of other protocols.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tries: Option<TriesRecord>,
    /// How an episode with the code tool ended; absent of other protocols, and of failed samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub episode: Option<EpisodeRecord>,
}

/// Tries of an agent. Turns are numbered through all of them, in calls of the model and of tools.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TriesRecord {
    /// The messages of each try before that of `messages`, its last reply included: none of them counts.
    pub before: Vec<Vec<RecordedMessage>>,
    /// Whether the last try counts; the sample has no answer by the agent's own rules otherwise.
    pub accepted: bool,
}

/// An episode with the code tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EpisodeRecord {
    /// Why it ended.
    pub end: EndReason,
    /// What the tool took for the answer, where it ended with one.
    pub answer: Option<String>,
    /// Figures that the model saw.
    pub figures: usize,
    /// Tokens and tags of the chat format that code printed and that were made text.
    pub neutralised: usize,
    /// Calls of which a limit of the jail cut text or figures.
    pub limited: usize,
    /// Times that the interpreter was started again, without its variables.
    pub restarts: usize,
}

/// Why an episode ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The model answered.
    Done,
    /// The context is full.
    OverLength,
    /// The last turn that is allowed was no answer.
    ExceedMaxTurns,
    /// As many images as the context may have.
    ExceedMaxImages,
    /// A turn failed: its code raised or ran too long, or it has neither code nor an answer, or it was cut.
    ErrorInAction,
}

/// A message as it is recorded: frames by position instead of pixels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordedMessage {
    /// Role of the speaker.
    pub role: Role,
    /// Content in order: texts, images, videos.
    pub parts: Vec<RecordedPart>,
    /// Structured calls of an assistant message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<StructuredCall>,
    /// The call that a message of role `tool` answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

impl RecordedMessage {
    /// A message without calls.
    pub fn new(role: Role, parts: Vec<RecordedPart>) -> Self {
        Self { role, parts, tool_calls: Vec::new(), tool_call_id: None }
    }
}

/// One recorded part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RecordedPart {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// One image.
    Image {
        /// Position in the video.
        origin: Option<FrameOrigin>,
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
        /// Encoded size in bytes.
        bytes: usize,
    },
    /// Frames that went out as one video.
    Frames {
        /// Positions in the video.
        frames: Vec<FrameOrigin>,
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
        /// Encoded size of all in bytes.
        bytes: usize,
    },
    /// The video by reference.
    Video {
        /// File name, without the folders of the machine.
        file: String,
        /// Frames asked for, if any.
        nframes: Option<usize>,
    },
}

impl RecordedPart {
    /// The frames of the part, each with its width and height in pixels.
    pub fn frames(&self) -> impl Iterator<Item = (Option<FrameOrigin>, (u32, u32))> {
        let (image, frames, size) = match self {
            Self::Image { origin, width, height, .. } => (Some(*origin), [].as_slice(), (*width, *height)),
            Self::Frames { frames, width, height, .. } => (None, frames.as_slice(), (*width, *height)),
            Self::Text { .. } | Self::Video { .. } => (None, [].as_slice(), (0, 0)),
        };
        image.into_iter().chain(frames.iter().copied().map(Some)).map(move |origin| (origin, size))
    }
}

/// One model call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelCall {
    /// Step within the sample: `turn0`, `turn0/sub1`, `force`.
    pub step: String,
    /// SHA-256 over the conversation as recorded; a replay answers only the same conversation.
    pub conversation: String,
    /// The generated text.
    pub text: String,
    /// Why generation ended.
    pub finish_reason: Option<FinishReason>,
    /// Token counts.
    pub usage: Option<Usage>,
    /// Tokens of the conversation by the forecast, where the server counts less than half of them: it may have cut it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast_tokens: Option<u64>,
    /// The model that answered, as the server names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Calls that the server took out of the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<StructuredCall>,
    /// Thoughts that the server took out of the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The server's words where it refuses to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// Whether `text` was reassembled from what the server took apart; white space and the spelling of
    /// JSON may differ from what the model wrote.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reassembled: bool,
    /// The failure, when the call failed; then `text` is empty. Thoughts and counts of a reply that is not an
    /// answer are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<BackendError>,
}

impl ModelCall {
    /// Whether a sub-agent was asked: its step is below that of the turn with the tool call.
    pub fn is_subagent(&self) -> bool {
        self.step.contains("/sub")
    }

    /// Whether the reply ended at the token limit.
    pub fn is_cut(&self) -> bool {
        self.finish_reason == Some(FinishReason::Length)
    }
}

/// One tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolCall {
    /// Turn, from 0.
    pub turn: usize,
    /// Position within the turn, from 0.
    pub index: usize,
    /// The call as parsed, JSON.
    pub call: serde_json::Value,
    /// Window start in seconds, as asked; absent (null) where it is not finite or not understood.
    pub start: Option<f64>,
    /// Window end in seconds, as asked.
    pub end: Option<f64>,
    /// Result.
    pub outcome: ToolOutcome,
}

/// Result of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ToolOutcome {
    /// Frames were returned.
    Frames {
        /// Positions in the video.
        frames: Vec<FrameOrigin>,
    },
    /// The call asked for something else than frames.
    Text {
        /// What the model was answered with.
        text: String,
    },
    /// A sub-agent looked at the frames and wrote a summary.
    Summary {
        /// Positions of the frames in the video.
        frames: Vec<FrameOrigin>,
        /// The summary.
        text: String,
    },
    /// The window could not be cropped.
    CropFailed {
        /// Error of the crop.
        reason: String,
    },
    /// Code of the model ran to its end.
    Ran {
        /// Standard output without white space around it, as the model read it.
        stdout: String,
        /// Figures that it showed.
        figures: Vec<RecordedFigure>,
    },
    /// Code of the model raised, ran too long, ended its interpreter, or was refused.
    CodeFailed {
        /// The message.
        reason: String,
    },
    /// The server ran the call; the reply does not say what it showed the model.
    Served,
    /// The call could not be understood.
    Malformed {
        /// Error of the parser.
        reason: String,
    },
}

/// A figure that code showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordedFigure {
    /// SHA-256 of its PNG.
    pub sha256: String,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}

/// Outcome and score of one sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Score {
    /// Whether an answer was found and compared.
    pub outcome: Outcome,
    /// From 0 to 1: right or wrong for choices and text, IoU of an interval, mean relative accuracy of a number;
    /// 0 for errors.
    pub value: f64,
    /// Prediction taken from the text, e.g. `B` or `24.3-30.4`.
    pub prediction: Option<String>,
    /// Which extraction rule matched, e.g. `answer_tag`, `first_character`.
    pub rule: Option<String>,
}

/// Score by an agent's own answer extraction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentScore {
    /// Fidelity of the run to the authors' evaluation.
    pub fidelity: Fidelity,
    /// Outcome and score.
    pub score: Score,
}

/// Outcome of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// An answer was found and compared.
    Scored,
    /// The response has no answer in it: wrong, and counted apart.
    Unparsed,
    /// There is no response to score.
    Error,
}

/// Why a sample has no answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SampleError {
    /// Class, for counting.
    pub class: SampleErrorClass,
    /// What failed, where, and what to do.
    pub message: String,
    /// Step at which it happened, e.g. `turn1`.
    pub step: String,
}

/// Classes of sample errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SampleErrorClass {
    /// The video file is not there.
    VideoMissing,
    /// The video gives no frames, and the profile forbids a question without them.
    FrameLoss,
    /// The model call of a single-turn mode failed.
    Api,
    /// A model call failed inside the tool loop. The reference scores the text of the error; this suite does not.
    ApiInLoop,
    /// A tool call that makes the driver of the reference raise.
    MalformedCall,
    /// The protocol has no text for what this sample needs.
    Protocol,
    /// The published row cannot be asked.
    Data,
    /// The interpreter of the code tool does not run.
    CodeTool,
}

impl SampleErrorClass {
    /// Every class.
    pub const ALL: [SampleErrorClass; 8] = [
        Self::VideoMissing,
        Self::FrameLoss,
        Self::Api,
        Self::ApiInLoop,
        Self::MalformedCall,
        Self::Protocol,
        Self::Data,
        Self::CodeTool,
    ];

    /// Name in records and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::VideoMissing => "video_missing",
            Self::FrameLoss => "frame_loss",
            Self::Api => "api",
            Self::ApiInLoop => "api_in_loop",
            Self::MalformedCall => "malformed_call",
            Self::Protocol => "protocol",
            Self::Data => "data",
            Self::CodeTool => "code_tool",
        }
    }

    /// Whether the cause lies outside the run (data, server), so that the same sample may have an answer
    /// next time. What the model wrote and what the protocol lacks stays as it is.
    pub fn is_retryable(self) -> bool {
        match self {
            Self::VideoMissing | Self::FrameLoss | Self::Api | Self::ApiInLoop | Self::CodeTool => true,
            // A repaired row is another data file, and so another run.
            Self::MalformedCall | Self::Protocol | Self::Data => false,
        }
    }
}

impl std::str::FromStr for SampleErrorClass {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|class| class.as_str() == text).ok_or_else(|| {
            let all = Self::ALL.map(Self::as_str).join(", ");
            format!("unknown class of errors `{text}`: use one of {all}")
        })
    }
}

/// Measurements that differ from run to run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// The run that wrote the record, as its manifest calls it; absent of runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Seconds from start to end of the sample.
    pub seconds: f64,
    /// Seconds that the frames took to decode and encode, also where questions about one video shared them.
    pub media_seconds: f64,
    /// Seconds of each model call, in the order of `transcript.calls`.
    pub call_seconds: Vec<f64>,
    /// Retries of each model call.
    pub call_retries: Vec<u32>,
    /// Seconds to the first token of each model call; `null` where the backend does not see it.
    #[serde(default, skip_serializing_if = "is_unseen")]
    pub first_token_seconds: Vec<Option<f64>>,
    /// Unix time at the end, seconds.
    pub finished_at: f64,
}

fn is_unseen(seconds: &[Option<f64>]) -> bool {
    seconds.iter().all(Option::is_none)
}

/// The JSON schema (draft 2020-12) of a record as this build writes it: `suite/docs/record.schema.json`.
#[cfg(feature = "schema")]
pub fn schema() -> serde_json::Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<Record>().to_value()
}

/// SHA-256 over the conversation as it is recorded (frames by position): the identity by which a
/// replay knows that it answers the same question.
pub fn conversation_hash(messages: &[Message]) -> String {
    let recorded: Vec<RecordedMessage> = messages.iter().map(RecordedMessage::from).collect();
    paravt_files::sha256(serde_json::to_vec(&recorded).expect("plain structs with string keys serialise"))
}

impl From<&Message> for RecordedMessage {
    fn from(message: &Message) -> Self {
        let parts = match &message.content {
            Content::Text(text) => vec![RecordedPart::Text { text: text.clone() }],
            Content::Parts(parts) => parts.iter().map(RecordedPart::from).collect(),
        };
        let (tool_calls, tool_call_id) = (message.tool_calls.clone(), message.tool_call_id.clone());
        Self { role: message.role, parts, tool_calls, tool_call_id }
    }
}

impl From<&Part> for RecordedPart {
    fn from(part: &Part) -> Self {
        match part {
            Part::Text(text) => Self::Text { text: text.clone() },
            Part::Image(image) => Self::Image {
                origin: image.origin,
                width: image.width,
                height: image.height,
                bytes: image.bytes.len(),
            },
            Part::Frames(frames) => Self::Frames {
                frames: frames.images.iter().filter_map(|image| image.origin).collect(),
                width: frames.images.first().map_or(0, |image| image.width),
                height: frames.images.first().map_or(0, |image| image.height),
                bytes: frames.images.iter().map(|image| image.bytes.len()).sum(),
            },
            Part::Video(video) => Self::Video {
                file: video
                    .path
                    .file_name()
                    .map(|name| name.to_string_lossy().into_owned())
                    .unwrap_or_default(),
                nframes: video.nframes,
            },
        }
    }
}
