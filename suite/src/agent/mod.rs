//! One sample through one protocol, in the order of the reference driver (ParaVT cf55249
//! `paravt/eval/driver.py`).

mod apart;
mod clips;
mod code;
mod crops;
mod joined;
mod messages;
mod own;
mod reply;
mod tries;

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::backend::{Backend, BackendError, CallId, Completion, ErrorClass, Generation, Request, Usage};
use crate::code::{CodeTool, Episode};
use crate::frames::FrameSource;
use crate::message::{Message, Role};
use crate::plan::RunPlan;
use crate::protocol::{Protocol, render};
use crate::record::{
    Measured, ModelCall, Outcome, RECORD_VERSION, Record, RecordedMessage, SampleError, SampleErrorClass,
    Score, Transcript, conversation_hash,
};
use crate::redact;
use crate::reference::Reference;
use crate::sample::Sample;
use crate::scoring;
use crate::settings::ToolDialect;
use crate::videos::VideoStore;

/// Everything that is the same for all samples of a run.
pub struct Agent {
    /// The model.
    pub backend: Arc<dyn Backend>,
    /// The texts.
    pub protocol: Arc<Protocol>,
    /// The protocol's hash as records carry it.
    pub protocol_hash: String,
    /// Syntax of tool calls, and scoring of the release.
    pub reference: Reference,
    /// Settings of the evaluation.
    pub plan: RunPlan,
    /// Source of frames.
    pub frames: Arc<dyn FrameSource>,
    /// Runs code of the model, where the protocol has a tool for it.
    pub code: Option<Arc<dyn CodeTool>>,
    /// The files behind the samples' videos.
    pub videos: VideoStore,
}

/// The state of one sample on its way.
struct Session<'a> {
    agent: &'a Agent,
    sample: &'a Sample,
    epoch: usize,
    /// The conversation so far.
    messages: Vec<Message>,
    transcript: Transcript,
    measured: Measured,
    /// The last completion ended at the token limit.
    last_truncated: bool,
    /// Indices of the frames that an agent's own loop has shown.
    seen: Vec<usize>,
    /// What the last look says of its frames, for the text around them.
    described: Vec<(&'static str, String)>,
    /// Turns of the tries before this one.
    turns_before: usize,
    /// Messages that only the next request has.
    passing: Vec<Message>,
    /// The interpreter of the sample, where its protocol has the code tool.
    episode: Option<Box<dyn Episode>>,
}

impl Agent {
    /// Runs one sample to its record. Failures become part of the record.
    pub async fn run(&self, sample: &Sample) -> Record {
        self.run_epoch(sample, 0).await
    }

    /// As [`run`](Self::run), for one of the sample's repetitions.
    pub async fn run_epoch(&self, sample: &Sample, epoch: usize) -> Record {
        let started = Instant::now();
        let mut session = Session {
            agent: self,
            sample,
            epoch,
            messages: Vec::new(),
            transcript: Transcript::default(),
            measured: Measured::default(),
            last_truncated: false,
            seen: Vec::new(),
            described: Vec::new(),
            turns_before: 0,
            passing: Vec::new(),
            episode: None,
        };
        let outcome = session.converse().await;
        let Session { mut transcript, mut measured, messages, last_truncated, .. } = session;
        transcript.messages = messages.iter().map(RecordedMessage::from).collect();
        let (score, own, error) = match outcome {
            Ok(text) => {
                transcript
                    .messages
                    .push(RecordedMessage::from(&Message::text(Role::Assistant, text.as_str())));
                let truncated_call = last_truncated && self.reference.syntax.has_unclosed_call(&text);
                transcript.final_text = text;
                let score = self.score(sample, &transcript.final_text, truncated_call);
                (score, self.own_score(sample, &transcript), None)
            }
            Err(error) => {
                let score = Score { outcome: Outcome::Error, value: 0.0, prediction: None, rule: None };
                (score, None, Some(error))
            }
        };
        if measured.first_token_seconds.iter().all(Option::is_none) {
            measured.first_token_seconds.clear();
        }
        measured.seconds = started.elapsed().as_secs_f64();
        measured.finished_at =
            SystemTime::now().duration_since(UNIX_EPOCH).map(|time| time.as_secs_f64()).unwrap_or_default();
        Record {
            version: RECORD_VERSION,
            profile: self.plan.profile,
            protocol: self.protocol_hash.clone(),
            sample: sample.clone(),
            epoch,
            transcript,
            score,
            own,
            error,
            measured,
        }
    }

    fn score(&self, sample: &Sample, text: &str, truncated_call: bool) -> Score {
        scoring::score(sample, text, truncated_call, &self.plan.switches, &self.reference)
    }
}

impl Session<'_> {
    /// One conversation up to the text that it ends with.
    async fn attempt(&mut self) -> Result<String, SampleError> {
        self.open().await?;
        if let Some(episode) = self.episode.take() {
            return self.run_episode(episode).await;
        }
        if !self.agent.protocol.offers_tool(&self.agent.plan.mode) {
            let limit = self.agent.plan.max_tokens;
            let completion = self.call(&self.step(0), limit, None, SampleErrorClass::Api).await?;
            return match &self.agent.protocol.agent {
                Some(own) => self.continued(own, completion).await,
                None => Ok(completion.text),
            };
        }
        for turn in 0..=self.agent.plan.max_turns {
            let step = self.step(turn);
            let tools = self.agent.tools();
            let completion =
                self.call(&step, self.agent.plan.max_tokens, tools, SampleErrorClass::ApiInLoop).await?;
            let calls = reply::calls(self.agent, &completion);
            if calls.is_empty() {
                return Ok(completion.text);
            }
            if let Some(own) = &self.agent.protocol.agent {
                // The calls in the last reply are not run.
                if own.is_last(turn) || !self.run_own(own, turn, &calls, &completion).await? {
                    return Ok(completion.text);
                }
                continue;
            }
            let cap = match self.agent.plan.max_parallel {
                0 => calls.len(),
                cap => cap.min(calls.len()),
            };
            self.transcript.dropped_calls += calls.len() - cap;
            self.messages.push(match self.agent.plan.dialect {
                // The chat API wants a result for every call that stands in the message.
                ToolDialect::Native => {
                    Message::calls(completion.text, completion.tool_calls.iter().take(cap).cloned().collect())
                }
                ToolDialect::Text | ToolDialect::Auto => Message::text(Role::Assistant, completion.text),
            });
            self.run_tools(turn, &calls[..cap], &completion.tool_calls).await?;
            if turn + 1 == self.agent.plan.max_turns {
                return self.force().await;
            }
        }
        // Only reached with max_turns = 0: the crops of turn 0 were run and nothing was answered.
        Ok(String::new())
    }

    /// Name of a turn's call: turns are numbered through all tries.
    fn step(&self, turn: usize) -> String {
        format!("turn{}", self.turns_before + turn)
    }

    /// Asks for the final answer after the last tool turn.
    async fn force(&mut self) -> Result<String, SampleError> {
        let force = render::force(&self.agent.protocol, self.sample.gold.kind())
            .map_err(|error| protocol_error("force", &error))?;
        self.messages.push(Message::text(Role::User, force.text.as_str()));
        self.transcript.forced = true;
        // No tools: the reply is the answer, and not every server has a `tool_choice` that forbids calls.
        let completion = self.call("force", force.max_tokens, None, SampleErrorClass::ApiInLoop).await?;
        Ok(completion.text)
    }

    /// One call over the main conversation.
    async fn call(
        &mut self,
        step: &str,
        max_tokens: u32,
        tools: Option<Arc<Vec<serde_json::Value>>>,
        class: SampleErrorClass,
    ) -> Result<Completion, SampleError> {
        // The messages travel with the request and come back: frames are shared, text is not copied.
        let mut messages = std::mem::take(&mut self.messages);
        let kept = messages.len();
        messages.append(&mut self.passing);
        let mut request = self.request(step, messages, max_tokens);
        request.tools = tools;
        request.chat_template = self.agent.chat_template();
        let answer = self.agent.ask(self.sample, &request).await;
        let conversation = conversation_hash(&request.messages);
        self.messages = request.messages;
        self.messages.truncate(kept);
        self.note_call(step, conversation, &answer);
        self.transcript.truncated |= answer.completion().is_some_and(Completion::is_cut);
        match answer.usable() {
            Ok(completion) => {
                self.last_truncated = completion.is_cut();
                Ok(completion)
            }
            Err(error) => Err(SampleError { class, message: error.to_string(), step: step.to_owned() }),
        }
    }

    fn request(&self, step: &str, messages: Vec<Message>, max_tokens: u32) -> Request {
        let (plan, epoch) = (&self.agent.plan, self.epoch);
        let id = CallId { epoch, ..CallId::new(self.sample.uid.as_str(), step) };
        let settings = &plan.request;
        // A seed of its own: a try may ask the same again.
        let draw = epoch + self.number() * plan.repeat;
        let generation = Generation {
            max_tokens,
            temperature: plan.temperature,
            top_p: settings.top_p,
            top_k: settings.top_k,
            repetition_penalty: settings.repetition_penalty,
            stop: settings.stop.clone(),
            seed: plan.seed_of(draw),
            logprobs: false,
        };
        Request::new(id, messages, generation)
    }

    /// Writes a call into the transcript; what varies from run to run goes to `measured`.
    fn note_call(&mut self, step: &str, conversation: String, answer: &Answer) {
        let mut call = ModelCall { step: step.to_owned(), conversation, ..ModelCall::default() };
        call.error = answer.error().map(|error| BackendError { reply: None, ..error.clone() });
        let completion = answer.completion();
        let seconds = completion.map_or(0.0, |completion| completion.latency.as_secs_f64());
        let tries_before = answer.error().map(|error| error.tries.saturating_sub(1));
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
}

/// The outcome of one model call.
enum Answer {
    /// A completion to go on with.
    Usable(Completion),
    /// A completion that the plan cannot use, kept for the record.
    Refused(Completion, BackendError),
    /// No completion; the error may hold a reply that is not an answer.
    Failed(BackendError),
}

impl Answer {
    fn completion(&self) -> Option<&Completion> {
        match self {
            Answer::Usable(completion) | Answer::Refused(completion, _) => Some(completion),
            Answer::Failed(error) => error.reply.as_deref(),
        }
    }

    fn error(&self) -> Option<&BackendError> {
        match self {
            Answer::Usable(_) => None,
            Answer::Refused(_, error) | Answer::Failed(error) => Some(error),
        }
    }

    fn usable(self) -> Result<Completion, BackendError> {
        match self {
            Answer::Usable(completion) => Ok(completion),
            Answer::Refused(_, error) | Answer::Failed(error) => Err(error),
        }
    }
}

impl Agent {
    /// One model call, its reply read as dialect and profile say.
    async fn ask(&self, sample: &Sample, request: &Request) -> Answer {
        let answer = match self.backend.complete(request).await {
            // The authors' loops of agents read such a reply as any other.
            Err(error) if self.plan.switches.empty_answer || self.protocol.agent.is_some() => {
                empty_answer(error)
            }
            answer => answer,
        };
        match answer {
            Ok(completion) => {
                let (offered, limit) = (request.tools.is_some(), request.generation.max_tokens);
                match reply::read(self, &request.id.step, offered, limit, completion) {
                    (completion, None) => Answer::Usable(completion),
                    (completion, Some(error)) => Answer::Refused(completion, error),
                }
            }
            Err(error) => Answer::Failed(portable(sample, request, error)),
        }
    }

    /// The chat template of an agent whose own is another than the model's.
    fn chat_template(&self) -> Option<Arc<str>> {
        let clips = self.protocol.agent.as_ref()?.clips.as_ref()?;
        Some(Arc::from(clips.chat_template.as_str()))
    }

    /// Tools that a turn offers by the chat API.
    fn tools(&self) -> Option<Arc<Vec<serde_json::Value>>> {
        let chat = self.protocol.chat_tools.as_ref().filter(|_| self.plan.dialect == ToolDialect::Native)?;
        Some(Arc::new(vec![chat.definition.clone()]))
    }
}

/// See quirk `empty_answer`: a reply with nothing in it is an answer.
fn empty_answer(mut error: BackendError) -> Result<Completion, BackendError> {
    let is_empty = matches!(error.class, ErrorClass::EmptyReply | ErrorClass::ContextLength);
    let nothing = |reply: &mut Box<Completion>| is_empty && reply.says_nothing();
    match error.reply.take_if(nothing) {
        Some(reply) => Ok(*reply),
        None => Err(error),
    }
}

/// The error of a call as records keep it. A server repeats what it was sent: the path of a video, a URL with
/// credentials.
fn portable(sample: &Sample, request: &Request, mut error: BackendError) -> BackendError {
    for video in request.videos() {
        error.message =
            error.message.replace(&*video.path.to_string_lossy(), &sample.video.to_string_lossy());
    }
    error.message = redact::urls(&error.message);
    error
}

fn protocol_error(step: &str, error: &dyn std::fmt::Display) -> SampleError {
    SampleError { class: SampleErrorClass::Protocol, message: error.to_string(), step: step.to_owned() }
}
