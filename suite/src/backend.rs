//! What a model is to the engine.

use std::time::Duration;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::message::Message;

/// Something that answers conversations.
pub trait Backend: Send + Sync {
    /// What the run manifest says about this backend. Never contains a key.
    fn describe(&self) -> BackendInfo;

    /// Answers one conversation. Retries, back-off and time-outs happen inside.
    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Completion, BackendError>>;
}

/// Description of a backend for the manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendInfo {
    /// Name in the registry, e.g. `openai`.
    pub name: String,
    /// Model as the backend calls it.
    pub model: String,
    /// Endpoints, devices, data types: free key/value pairs in a stable order.
    pub details: std::collections::BTreeMap<String, String>,
}

/// One model call.
#[derive(Debug, Clone)]
pub struct Request {
    /// Which call of which sample this is.
    pub id: CallId,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// How to generate.
    pub generation: Generation,
}

/// Identity of a call inside a run; a replay finds the recorded answer by it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallId {
    /// `Sample::uid`.
    pub sample: String,
    /// Step within the sample: `turn0`, `turn0/sub1`, `force`.
    pub step: String,
}

/// Generation parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generation {
    /// Most tokens to generate.
    pub max_tokens: u32,
    /// 0 is greedy.
    pub temperature: f64,
    /// Nucleus sampling; `None` leaves the backend's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Sampling from the k most probable tokens; 0 is no limit, `None` leaves the backend's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// Divisor of positive logits (factor of negative ones) of tokens that the conversation already
    /// holds; 1 is off, `None` leaves the backend's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetition_penalty: Option<f64>,
    /// Texts that end the generation; they are not part of the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
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
            top_p: None,
            top_k: None,
            repetition_penalty: None,
            stop: Vec::new(),
            seed: None,
            logprobs: false,
        }
    }
}

/// A model's answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Completion {
    /// Generated text; empty is a legal answer.
    pub text: String,
    /// Why generation ended; `None` when the backend does not say.
    pub finish_reason: Option<FinishReason>,
    /// Token counts, when the backend gives them.
    pub usage: Option<Usage>,
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

/// Why generation ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// A stop token.
    Stop,
    /// The token limit: the text is truncated.
    Length,
    /// Anything else, as the backend names it.
    Other(String),
}

/// Token counts of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the conversation, visual tokens included.
    pub prompt_tokens: u64,
    /// Generated tokens.
    pub completion_tokens: u64,
}

/// What went wrong, by what can be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
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
    /// The server refused the request as it is (4xx): retrying is useless.
    BadRequest,
    /// 401 or 403.
    Unauthorized,
    /// The answer is no chat completion (garbage, half a body, no choice).
    Malformed,
    /// The conversation does not fit the model's context.
    ContextLength,
    /// A replay has no recorded answer for this call, or the conversation differs.
    NotRecorded,
    /// The engine itself failed (in-process backends).
    Engine,
}

/// A failed model call. Never an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message} ({class:?}, {tries} tries)")]
pub struct BackendError {
    /// What kind of failure.
    pub class: ErrorClass,
    /// For people: endpoint, status, the start of the body; never a key.
    pub message: String,
    /// How often it was tried.
    pub tries: u32,
}
