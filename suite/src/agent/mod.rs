//! One sample through one protocol, in the order of spec/benchmarks.md §2.3.

mod crops;
mod messages;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::backend::{Backend, BackendError, CallId, Completion, FinishReason, Generation, Request};
use crate::frames::FrameSource;
use crate::message::{Message, Role};
use crate::protocol::{Protocol, render};
use crate::record::{
    Measured, ModelCall, Outcome, RECORD_VERSION, Record, RecordedMessage, SampleError, SampleErrorClass,
    Score, Transcript, conversation_hash,
};
use crate::run::RunPlan;
use crate::sample::Sample;
use crate::scoring;
use crate::toolcall;

/// Everything that is the same for all samples of a run.
pub struct Agent {
    /// Who answers.
    pub backend: Arc<dyn Backend>,
    /// The texts.
    pub protocol: Arc<Protocol>,
    /// The protocol's hash as records carry it.
    pub protocol_hash: String,
    /// How samples are put to the model.
    pub plan: RunPlan,
    /// Where frames come from.
    pub frames: Arc<dyn FrameSource>,
}

/// The state of one sample on its way.
struct Session<'a> {
    agent: &'a Agent,
    sample: &'a Sample,
    /// The conversation so far.
    messages: Vec<Message>,
    transcript: Transcript,
    measured: Measured,
    /// The last completion ended at the token limit.
    last_truncated: bool,
}

impl Agent {
    /// Runs one sample to its record. Failures become part of the record.
    pub async fn run(&self, sample: &Sample) -> Record {
        let started = Instant::now();
        let mut session = Session {
            agent: self,
            sample,
            messages: Vec::new(),
            transcript: Transcript::default(),
            measured: Measured::default(),
            last_truncated: false,
        };
        let outcome = session.converse().await;
        let Session { mut transcript, mut measured, messages, last_truncated, .. } = session;
        transcript.messages = messages.iter().map(RecordedMessage::from).collect();
        let (score, error) = match outcome {
            Ok(text) => {
                transcript
                    .messages
                    .push(RecordedMessage::from(&Message::text(Role::Assistant, text.as_str())));
                let truncated_call = last_truncated && toolcall::has_unclosed_call(&text);
                transcript.final_text = text;
                (self.score(sample, &transcript.final_text, truncated_call), None)
            }
            Err(error) => {
                (Score { outcome: Outcome::Error, value: 0.0, prediction: None, rule: None }, Some(error))
            }
        };
        measured.seconds = started.elapsed().as_secs_f64();
        measured.finished_at =
            SystemTime::now().duration_since(UNIX_EPOCH).map(|time| time.as_secs_f64()).unwrap_or_default();
        Record {
            version: RECORD_VERSION,
            profile: self.plan.profile,
            protocol: self.protocol_hash.clone(),
            sample: sample.clone(),
            transcript,
            score,
            error,
            measured,
        }
    }

    fn score(&self, sample: &Sample, text: &str, truncated_call: bool) -> Score {
        scoring::score(&sample.gold, &sample.question.letters, text, truncated_call, &self.plan.switches)
    }
}

impl Session<'_> {
    /// The conversation up to the text that is scored.
    async fn converse(&mut self) -> Result<String, SampleError> {
        self.open().await?;
        if !self.agent.plan.mode.is_agentic() {
            let completion = self.call("turn0", self.agent.plan.max_tokens, SampleErrorClass::Api).await?;
            return Ok(completion.text);
        }
        for turn in 0..=self.agent.plan.max_turns {
            let step = format!("turn{turn}");
            let completion =
                self.call(&step, self.agent.plan.max_tokens, SampleErrorClass::ApiInLoop).await?;
            let calls = toolcall::parse_driver(&completion.text);
            if calls.is_empty() {
                return Ok(completion.text);
            }
            let cap = match self.agent.plan.max_parallel {
                0 => calls.len(),
                cap => cap.min(calls.len()),
            };
            self.transcript.dropped_calls += calls.len() - cap;
            self.messages.push(Message::text(Role::Assistant, completion.text));
            self.run_tools(turn, &calls[..cap]).await?;
            if turn + 1 == self.agent.plan.max_turns {
                return self.force().await;
            }
        }
        // Only reached with max_turns = 0: the crops of turn 0 were run and nothing was answered.
        Ok(String::new())
    }

    /// Asks for the final answer after the last tool turn.
    async fn force(&mut self) -> Result<String, SampleError> {
        let force = render::force(&self.agent.protocol, self.sample.gold.kind())
            .map_err(|error| protocol_error("force", &error))?;
        self.messages.push(Message::text(Role::User, force.text.as_str()));
        self.transcript.forced = true;
        let completion = self.call("force", force.max_tokens, SampleErrorClass::ApiInLoop).await?;
        Ok(completion.text)
    }

    /// One call over the main conversation.
    async fn call(
        &mut self,
        step: &str,
        max_tokens: u32,
        class: SampleErrorClass,
    ) -> Result<Completion, SampleError> {
        // The messages travel with the request and come back: frames are shared, text is not copied.
        let request = self.agent.request(self.sample, step, std::mem::take(&mut self.messages), max_tokens);
        let answer = self.agent.backend.complete(&request).await;
        let conversation = conversation_hash(&request.messages);
        self.messages = request.messages;
        self.note_call(step, conversation, &answer);
        match answer {
            Ok(completion) => {
                self.last_truncated = completion.finish_reason == Some(FinishReason::Length);
                Ok(completion)
            }
            Err(error) => Err(SampleError { class, message: error.to_string(), step: step.to_owned() }),
        }
    }

    /// Writes a call into the transcript; what varies from run to run goes to `measured`.
    fn note_call(&mut self, step: &str, conversation: String, answer: &Result<Completion, BackendError>) {
        let call = match answer {
            Ok(completion) => {
                self.measured.call_seconds.push(completion.latency.as_secs_f64());
                self.measured.call_retries.push(completion.retries);
                self.transcript.truncated |= completion.finish_reason == Some(FinishReason::Length);
                ModelCall {
                    step: step.to_owned(),
                    conversation,
                    text: completion.text.clone(),
                    finish_reason: completion.finish_reason.clone(),
                    usage: completion.usage,
                    error: None,
                }
            }
            Err(error) => {
                self.measured.call_seconds.push(0.0);
                self.measured.call_retries.push(error.tries.saturating_sub(1));
                ModelCall {
                    step: step.to_owned(),
                    conversation,
                    text: String::new(),
                    finish_reason: None,
                    usage: None,
                    error: Some(error.clone()),
                }
            }
        };
        self.transcript.calls.push(call);
    }
}

impl Agent {
    fn request(&self, sample: &Sample, step: &str, messages: Vec<Message>, max_tokens: u32) -> Request {
        Request {
            id: CallId { sample: sample.uid.clone(), step: step.to_owned() },
            messages,
            generation: Generation {
                temperature: self.plan.temperature,
                seed: self.plan.seed,
                ..Generation::greedy(max_tokens)
            },
        }
    }
}

fn protocol_error(step: &str, error: &dyn std::fmt::Display) -> SampleError {
    SampleError { class: SampleErrorClass::Protocol, message: error.to_string(), step: step.to_owned() }
}
