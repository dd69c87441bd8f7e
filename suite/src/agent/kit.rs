//! What a loop has of a sample: its conversation, the model, and the transcript of both.

use std::sync::Arc;

use super::model::Answer;
use super::{Agent, reply};
use crate::backend::{BackendError, CallId, Completion, Generation, Request, Usage};
use crate::fingerprint::Fingerprint;
use crate::message::{Message, Role};
use crate::protocol::render::{self, RenderError};
use crate::protocol::{AgentLoop, Protocol};
use crate::record::{
    Measured, ModelCall, SampleError, SampleErrorClass, ToolCall, ToolOutcome, Transcript, conversation_hash,
};
use crate::reference::Call;
use crate::sample::Sample;
use crate::span::TimeSpan;

/// One sample on its way through a loop.
pub struct Kit<'a> {
    /// What is the same for all samples.
    pub agent: &'a Agent,
    pub sample: &'a Sample,
    /// Its repetition, from 0.
    pub epoch: usize,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// Calls, tool calls and what was lost, for the record.
    pub transcript: Transcript,
    /// Seconds of model and media.
    pub measured: Measured,
    /// The last completion ended at the token limit.
    pub(super) last_truncated: bool,
}

/// One request over the conversation.
pub struct Ask {
    /// Name of the call in the record.
    pub step: String,
    /// Token limit of the reply.
    pub max_tokens: u32,
    /// Tools that are offered by the chat API.
    pub tools: Option<Arc<Vec<serde_json::Value>>>,
    /// Class of the sample's error where the call fails.
    pub class: SampleErrorClass,
    /// Messages behind the conversation that later requests do not have.
    pub then: Vec<Message>,
    /// Chat template in place of the model's own.
    pub chat_template: Option<Arc<str>>,
}

impl<'a> Kit<'a> {
    pub(super) fn new(agent: &'a Agent, sample: &'a Sample, epoch: usize) -> Self {
        Self {
            agent,
            sample,
            epoch,
            messages: Vec::new(),
            transcript: Transcript::default(),
            measured: Measured::default(),
            last_truncated: false,
        }
    }

    /// The protocol.
    pub fn protocol(&self) -> &'a Protocol {
        &self.agent.protocol
    }

    /// The protocol's numbers and texts for the loop of an agent.
    pub fn agent_loop(&self) -> Result<&'a AgentLoop, SampleError> {
        let protocol = self.protocol();
        let missing = || protocol_error("open", &format!("protocol {} has no `agent`", protocol.name));
        protocol.agent.as_ref().ok_or_else(missing)
    }

    /// The system text of the run's mode.
    pub fn system_text(&self) -> Result<String, SampleError> {
        let plan = &self.agent.plan;
        let text = render::dialect_system_text(self.protocol(), &plan.mode, plan.dialect);
        Ok(text.map_err(|error| protocol_error("open", &error))?.to_owned())
    }

    /// The question as the protocol asks it; `duration` of the video in seconds, where known.
    pub(crate) fn question_text(&self, duration: Option<f64>) -> Result<String, RenderError> {
        let (plan, name) = (&self.agent.plan, self.sample.video_name());
        render::user_text(self.protocol(), self.sample, &plan.mode, plan.switches(), &name, duration)
    }

    /// Begins the conversation; an empty system text is none.
    pub fn begin(&mut self, system: String, user: Message) {
        let system = Some(system).filter(|text| !text.is_empty());
        let system = system.map(|text| Message::text(Role::System, text));
        self.messages = system.into_iter().chain([user]).collect();
        self.transcript.inputs.get_or_insert_with(|| Fingerprint::of(&self.messages));
    }

    /// Whether the run's mode has the tool.
    pub fn offers_tool(&self) -> bool {
        self.protocol().offers_tool(&self.agent.plan.mode)
    }

    /// A turn: its number is that of the model calls so far.
    pub fn turn(&self) -> Ask {
        let offers_tool = self.offers_tool();
        Ask {
            step: format!("turn{}", self.transcript.calls.len()),
            max_tokens: self.agent.plan.max_tokens,
            tools: self.agent.tools().filter(|_| offers_tool),
            class: if offers_tool { SampleErrorClass::ApiInLoop } else { SampleErrorClass::Api },
            then: Vec::new(),
            chat_template: None,
        }
    }

    /// Asks the model.
    ///
    /// # Errors
    /// The call failed, or the plan cannot use the reply.
    pub async fn ask(&mut self, ask: Ask) -> Result<Completion, SampleError> {
        let Ask { step, max_tokens, tools, class, mut then, chat_template } = ask;
        // The messages travel with the request and come back: frames are shared, text is not copied.
        let mut messages = std::mem::take(&mut self.messages);
        let kept = messages.len();
        messages.append(&mut then);
        let mut request = self.request(&step, messages, max_tokens);
        (request.tools, request.chat_template) = (tools, chat_template);
        let answer = self.agent.ask(self.sample, &request).await;
        let conversation = conversation_hash(&request.messages);
        self.messages = request.messages;
        self.messages.truncate(kept);
        self.note_call(&step, conversation, &answer);
        self.transcript.truncated |= reply_of(&answer).is_some_and(Completion::is_cut);
        match answer {
            Ok(completion) => {
                self.last_truncated = completion.is_cut();
                Ok(completion)
            }
            Err(error) => Err(SampleError { class, message: error.to_string(), step }),
        }
    }

    /// The calls of a reply, in the order in which they are run.
    pub fn calls(&self, reply: &Completion) -> Vec<Call> {
        reply::calls(self.agent, reply)
    }

    /// Number of this try, from 0.
    pub fn number_of_try(&self) -> usize {
        self.transcript.tries.as_ref().map_or(0, |tries| tries.before.len())
    }

    pub(super) fn request(&self, step: &str, messages: Vec<Message>, max_tokens: u32) -> Request {
        let (plan, epoch) = (&self.agent.plan, self.epoch);
        let id = CallId { epoch, ..CallId::new(self.sample.uid.as_str(), step) };
        // A seed of its own: a try may ask the same again.
        let draw = epoch + self.number_of_try() * plan.repeat;
        let generation = Generation {
            max_tokens,
            temperature: plan.temperature,
            sampling: plan.request.sampling.clone(),
            seed: plan.seed_of(draw),
            logprobs: false,
        };
        Request::new(id, messages, generation)
    }

    /// Writes a call into the transcript; what varies from run to run goes to `measured`.
    pub(super) fn note_call(&mut self, step: &str, conversation: String, answer: &Answer) {
        let mut call = ModelCall { step: step.to_owned(), conversation, ..ModelCall::default() };
        let error = answer.as_ref().err();
        call.error = error.map(|error| BackendError { reply: None, ..error.clone() });
        let completion = reply_of(answer);
        let seconds = completion.map_or(0.0, |completion| completion.latency.as_secs_f64());
        let tries_before = error.map(|error| error.tries.saturating_sub(1));
        let retries = tries_before.or(completion.map(|completion| completion.retries)).unwrap_or_default();
        self.measured.call_seconds.push(seconds);
        self.measured.call_retries.push(retries);
        let first = completion.and_then(|completion| completion.first_token);
        self.measured.first_token_seconds.push(first.map(|time| time.as_secs_f64()));
        if let Some(completion) = completion {
            if call.error.is_none() {
                call.text.clone_from(&completion.text);
            }
            call.finish_reason.clone_from(&completion.finish_reason);
            // A record with a count out of range would be refused by every reader.
            call.usage = completion.usage.and_then(Usage::in_range);
            (call.forecast_tokens, call.model) = (completion.forecast, completion.model.clone());
            call.tool_calls.clone_from(&completion.tool_calls);
            call.reasoning.clone_from(&completion.reasoning);
            call.refusal.clone_from(&completion.refusal);
            call.reassembled = completion.reassembled;
        }
        self.transcript.calls.push(call);
    }

    /// Writes a call of the last reply and its outcome into the transcript; `index` is its place there.
    pub fn note_tool_call(&mut self, index: usize, call: &Call, outcome: ToolOutcome) {
        let window = call.window.as_ref().ok();
        let finite = |time: fn(&TimeSpan) -> f64| window.map(time).filter(|value| value.is_finite());
        let (start, end) = (finite(|window| window.start), finite(|window| window.end));
        let turn = self.transcript.calls.len().saturating_sub(1);
        let call = call.value.clone();
        self.transcript.tool_calls.push(ToolCall { turn, index, call, start, end, outcome });
    }

    /// The protocol's text for a call that failed or could not be read; `None` for any other outcome.
    pub fn error_text(&self, window: TimeSpan, outcome: &ToolOutcome) -> Option<Result<String, RenderError>> {
        let protocol = self.protocol();
        match outcome {
            ToolOutcome::CropFailed { reason } => {
                Some(render::crop_error(protocol, window.start, window.end, reason))
            }
            ToolOutcome::Malformed { reason } => Some(render::call_error(protocol, reason)),
            ToolOutcome::Frames { .. }
            | ToolOutcome::Text { .. }
            | ToolOutcome::Summary { .. }
            | ToolOutcome::Ran { .. }
            | ToolOutcome::CodeFailed { .. }
            | ToolOutcome::Served => None,
        }
    }
}

/// The reply of a call, usable or not.
fn reply_of(answer: &Answer) -> Option<&Completion> {
    answer.as_ref().map_or_else(|error| error.reply.as_deref(), Some)
}

/// The error of a sample whose protocol cannot be rendered.
pub fn protocol_error(step: &str, error: &dyn std::fmt::Display) -> SampleError {
    SampleError { class: SampleErrorClass::Protocol, message: error.to_string(), step: step.to_owned() }
}
