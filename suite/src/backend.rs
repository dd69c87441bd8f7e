//! `Backend`: the interface of every model, in this process or on a server.

mod placement;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::message::{Content, Message, Part, StructuredCall, VideoPart};
use crate::plan::RunPlan;
use crate::settings::{SamplingParams, ToolDialect};

pub use placement::{Placement, Seat};

/// Something that answers conversations.
pub trait Backend: Send + Sync {
    /// Name, model and details for the run manifest; no key.
    fn describe(&self) -> BackendInfo;

    /// Memory of a model in this process so far; `None` of servers.
    fn memory(&self) -> Option<Memory> {
        None
    }

    /// Refuses a plan with settings that this backend cannot honour; asked once, before the run.
    ///
    /// Without an implementation of its own a backend answers conversations as they are: no `tools`,
    /// no settings of a server.
    ///
    /// # Errors
    /// The setting that cannot be honoured, with its flag.
    fn accepts(&self, plan: &RunPlan) -> Result<(), String> {
        if let Some(setting) = plan.request.server_only().first() {
            return Err(format!(
                "{setting} is a server's setting; the backend {} has none",
                self.describe().name
            ));
        }
        if plan.dialect == ToolDialect::Native {
            return Err(format!(
                "tool dialect native: the backend {} has no chat API; use --tool-dialect text",
                self.describe().name
            ));
        }
        Ok(())
    }

    /// Answers one conversation. Retries, back-off and time-outs happen inside.
    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Completion, BackendError>>;
}

/// Bytes that a model takes on its device; of several devices, on the fullest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// By its plan: weights, the activations of a pass, and the caches that lived at the same time.
    pub planned: u64,
    /// Measured maximum: of a GPU's memory pool, on a CPU the resident memory of the whole process. Absent where the engine
    /// cannot tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<u64>,
}

impl Memory {
    /// The maximum of each figure.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { planned: self.planned.max(other.planned), peak: self.peak.max(other.peak) }
    }
}

/// Description of a backend for the manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackendInfo {
    /// Name in the registry, e.g. `openai`.
    pub name: String,
    /// Model as the backend calls it.
    pub model: String,
    /// Endpoints, devices, data types: free key/value pairs in a stable order.
    pub details: std::collections::BTreeMap<String, String>,
}

/// Details under which a run may be continued with other values: where the model is reached, how often
/// and how long it is asked, how much memory it has there and how fast that is.
const CHANGEABLE_DETAILS: [&str; 12] = [
    ENDPOINTS, "max_tries", "timeout_seconds", "retry_pause", "max_requests", "cache_tokens",
    "weights_bytes", "gpu_bandwidth", "gpu_matrix_rate", "batch", "recorded_by", "servers",
];
/// Key of the servers, separated by spaces.
const ENDPOINTS: &str = "base_urls";

impl BackendInfo {
    /// Details that say what made the answers. Not every server, folder or earlier version states them: one that is absent is
    /// unknown, which is not a difference.
    pub const PROVENANCE: [&str; 7] = [
        "weights_commit",
        "weights_files_sha256",
        "engine_version",
        "environment_sha256",
        "server_command_sha256",
        "server_version",
        Self::ANSWERED_BY,
    ];
    /// The model that replies name, once the run has some.
    pub(crate) const ANSWERED_BY: &str = "answered_by";

    /// The model that replies name, where it is not the one that was asked for.
    pub fn other_model(&self) -> Option<&str> {
        let answering = self.details.get(Self::ANSWERED_BY)?;
        let asked = [Some(self.model.as_str()), self.model.trim_end_matches('/').rsplit('/').next()];
        (!asked.contains(&Some(answering))).then_some(answering)
    }

    /// The details that can change an answer: number type, weights, request settings, whatever else a
    /// backend says of itself, less where it runs.
    pub fn identity(&self) -> std::collections::BTreeMap<String, String> {
        let details = self.details.iter().filter(|(key, _)| !CHANGEABLE_DETAILS.contains(&key.as_str()));
        details.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Adds the servers of another part of the run.
    pub(crate) fn join_endpoints(&mut self, other: &BackendInfo) {
        let Some(more) = other.details.get(ENDPOINTS) else { return };
        let ours = self.details.entry(ENDPOINTS.to_owned()).or_default();
        for url in more.split_whitespace() {
            if !ours.split_whitespace().any(|known| known == url) {
                ours.push_str(if ours.is_empty() { "" } else { " " });
                ours.push_str(url);
            }
        }
    }
}

/// One model call.
#[derive(Debug, Clone)]
pub struct Request {
    /// Which call of which sample this is.
    pub id: CallId,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// Sampling settings and limits.
    pub generation: Generation,
    /// Tools that the reply may call, as the chat API defines them; `None` sends none.
    pub tools: Option<Arc<Vec<serde_json::Value>>>,
    /// Chat template in the place of the model's own (Jinja2).
    pub chat_template: Option<Arc<str>>,
}

impl Request {
    /// A request without tools, under the model's own chat template.
    pub fn new(id: CallId, messages: Vec<Message>, generation: Generation) -> Self {
        Self { id, messages, generation, tools: None, chat_template: None }
    }

    /// Its videos, in order.
    pub fn videos(&self) -> impl Iterator<Item = &VideoPart> {
        let parts = self.messages.iter().filter_map(|message| match &message.content {
            Content::Parts(parts) => Some(parts),
            Content::Text(_) => None,
        });
        parts.flatten().filter_map(|part| match part {
            Part::Video(video) => Some(video),
            Part::Text(_) | Part::Image(_) | Part::Frames(_) => None,
        })
    }
}

/// Identity of a call inside a run; a replay finds the recorded answer by it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallId {
    /// `Sample::uid`.
    pub sample: String,
    /// Step within the sample: `turn0`, `turn0/sub1`, `force`.
    pub step: String,
    /// Which repetition of the sample, from 0.
    #[serde(default)]
    pub epoch: usize,
}

impl CallId {
    /// A call of a sample that is asked once.
    pub fn new(sample: impl Into<String>, step: impl Into<String>) -> Self {
        Self { sample: sample.into(), step: step.into(), epoch: 0 }
    }
}

/// Generation parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generation {
    /// Most tokens to generate.
    pub max_tokens: u32,
    /// 0 is greedy.
    pub temperature: f64,
    /// Sampling beside the temperature; the texts of `stop` are not part of the answer.
    #[serde(flatten)]
    pub sampling: SamplingParams,
    /// Seed for sampling; the reference driver sends none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Ask for the log-probability of each generated token.
    #[serde(default)]
    pub logprobs: bool,
}

impl Generation {
    /// Greedy decoding of at most `max_tokens` tokens, everything else left to the backend.
    pub fn greedy(max_tokens: u32) -> Self {
        Self {
            max_tokens,
            temperature: 0.0,
            sampling: SamplingParams::default(),
            seed: None,
            logprobs: false,
        }
    }
}

/// A model's answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Completion {
    /// Generated text. An in-process engine may generate nothing; a server's reply without text and
    /// without calls is an error ([`ErrorClass::EmptyReply`]) that holds it, and the plan decides
    /// ([`says_nothing`](Self::says_nothing)).
    pub text: String,
    /// Calls that the server took out of the text.
    pub tool_calls: Vec<StructuredCall>,
    /// Thoughts that the server took out of the text.
    pub reasoning: Option<String>,
    /// The server's words where it refuses to answer.
    pub refusal: Option<String>,
    /// `text` was put together from text, thoughts and calls (a recorded reply; a server's never is).
    pub reassembled: bool,
    /// Why generation ended; `None` when the backend does not say.
    pub finish_reason: Option<FinishReason>,
    pub stopped_by: StoppedBy,
    /// Token counts, when the backend gives them.
    pub usage: Option<Usage>,
    /// The model that answered, as the backend calls it there; a server may answer with another than was asked for.
    pub model: Option<String>,
    /// Tokens of the conversation by the forecast, where the backend counts less than half of them: it may have cut it.
    pub forecast: Option<u64>,
    /// Generated token ids, when the backend gives them.
    pub token_ids: Option<Vec<u32>>,
    /// Natural-log probability of each generated token, when asked for and given.
    pub logprobs: Option<Vec<f32>>,
    /// Tries beyond the first.
    pub retries: u32,
    /// Time from the first try's start to the answer.
    pub latency: Duration,
    /// Of that, the time to the first generated token, when the backend sees it.
    pub first_token: Option<Duration>,
}

impl Completion {
    /// Whether it ended at the token limit.
    pub fn is_cut(&self) -> bool {
        self.finish_reason == Some(FinishReason::Length)
    }

    /// The model ended at once: no text, and no sign that the server took any away or refuses.
    pub fn says_nothing(&self) -> bool {
        let taken = matches!(&self.finish_reason, Some(FinishReason::Other(reason)) if is_call(reason));
        let parts = [&self.reasoning, &self.refusal];
        self.text.is_empty()
            && self.tool_calls.is_empty()
            && !taken
            && parts.iter().all(|part| part.is_none())
    }

    /// Whether all of a finished reply went to the thoughts: a reasoning parser (vLLM's `qwen3`) takes a text in which
    /// no thought is closed for one.
    pub fn is_only_thoughts(&self) -> bool {
        let thinks = self.reasoning.as_ref().is_some_and(|reasoning| !reasoning.is_empty());
        let finished = self.finish_reason == Some(FinishReason::Stop);
        finished && thinks && self.text.is_empty() && self.tool_calls.is_empty()
    }
}

/// Whether a finish reason says that the reply ends with a call.
pub fn is_call(finish_reason: &str) -> bool {
    matches!(finish_reason, "tool_calls" | "function_call")
}

/// Why generation ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// A stop token.
    Stop,
    /// The token limit: the text is truncated.
    Length,
    /// Anything else, as the backend names it.
    Other(String),
}

/// What stopped a generation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum StoppedBy {
    /// The backend does not say.
    #[default]
    Unsaid,
    /// None of the stop texts: the model ended it, or the limit did.
    Model,
    /// This stop text, which is not in the answer.
    Text(String),
}

/// Token counts of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Usage {
    /// Tokens of the conversation, visual tokens included.
    pub prompt_tokens: u64,
    /// Generated tokens.
    pub completion_tokens: u64,
    /// Those of them that are thoughts, where the backend counts them apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
}

impl Usage {
    /// Tokens that a call can have; a count beyond this is damage, and would overflow sums.
    pub const MAX: u64 = 1_000_000_000_000;

    /// Its counts, or `None` where one of them is beyond [`Usage::MAX`].
    pub fn in_range(self) -> Option<Self> {
        let Self { prompt_tokens, completion_tokens, reasoning_tokens } = self;
        let counts = [prompt_tokens, completion_tokens, reasoning_tokens.unwrap_or(0)];
        counts.iter().all(|&count| count <= Self::MAX).then_some(self)
    }
}

/// Class of a failed call, by what can be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// No connection, or it broke.
    Connection,
    /// No answer in time.
    Timeout,
    /// HTTP 429.
    RateLimited,
    /// HTTP 5xx.
    Server,
    /// The server refuses the request (another 4xx), or cannot find its video.
    BadRequest,
    /// 401 or 403.
    Unauthorized,
    /// The reply is not a chat completion: not JSON, cut short, or without a choice.
    Malformed,
    /// The conversation does not fit the model's context.
    ContextLength,
    /// The reply has neither text nor calls.
    EmptyReply,
    /// The server took calls or thoughts out of the text, and the plan needs the text whole.
    ServerParsed,
    /// The reply is larger than the limit.
    TooLarge,
    /// A replay has no recorded answer for this call, or the conversation differs.
    NotRecorded,
    /// The engine itself failed (in-process backends).
    Engine,
}

impl ErrorClass {
    /// Whether a failed call says that no call would work now, rather than that this one cannot: the
    /// server or the engine is down, or set up wrong.
    pub fn concerns_every_call(self) -> bool {
        match self {
            Self::Connection
            | Self::Timeout
            | Self::RateLimited
            | Self::Server
            | Self::Unauthorized
            | Self::Malformed
            | Self::EmptyReply
            | Self::ServerParsed
            | Self::Engine => true,
            Self::BadRequest | Self::ContextLength | Self::TooLarge | Self::NotRecorded => false,
        }
    }
}

/// A failed model call. Never an answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[error("{message} ({class:?}, {tries} {})", if *.tries == 1 { "try" } else { "tries" })]
pub struct BackendError {
    /// Class, by what can be done about it.
    pub class: ErrorClass,
    /// Endpoint, status, the start of the body; never a key.
    pub message: String,
    /// Number of tries.
    pub tries: u32,
    /// The reply, where one came that is not an answer; a record has it in the fields of its call.
    #[serde(skip)]
    pub reply: Option<Box<Completion>>,
}

impl BackendError {
    /// A failure without a reply.
    pub fn new(class: ErrorClass, message: impl Into<String>, tries: u32) -> Self {
        Self { class, message: message.into(), tries, reply: None }
    }
}
