//! One sample through one protocol: a [`Loop`] over the [`Kit`] of its conversation.
//!
//! ParaVT's own loop is `driver`; agents whose calls show frames have [`turns`], and one that writes code `code`. A loop
//! in another order is a [`Loop`] of its release ([`Reference::agent_loop`]).

mod code;
mod crops;
mod driver;
mod kit;
mod media;
mod model;
mod reply;
pub mod scored;
pub mod turns;

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;

pub use kit::{Ask, Kit, protocol_error};
pub use media::{NoFrames, Shown};

use crate::backend::Backend;
use crate::code::CodeTool;
use crate::frames::FrameSource;
use crate::message::{Message, Role};
use crate::plan::RunPlan;
use crate::profile::{Extraction, Switches};
use crate::protocol::{AgentLoop, Protocol, Shape};
use crate::record::{
    AgentScore, Outcome, RECORD_VERSION, Record, RecordedMessage, SampleError, Score, Transcript,
};
use crate::reference::{Scorer, ToolSyntax};
use crate::sample::Sample;
use crate::scoring::Strict;
use crate::videos::VideoStore;

/// One release: its name, its tool calls, its scoring.
#[derive(Clone, Copy)]
pub struct Reference {
    /// Name, as [`Protocol::reference`](crate::protocol::Protocol::reference) has it.
    pub name: &'static str,
    /// Syntax of its models' tool calls.
    pub syntax: &'static dyn ToolSyntax,
    pub scorer: &'static dyn Scorer,
    /// Its loop, for protocols that choose their frames ([`FramePolicy`](crate::protocol::FramePolicy)).
    pub agent_loop: Option<&'static dyn Loop>,
}

/// A protocol with the release whose rules it follows.
#[derive(Clone)]
pub struct Bound {
    /// The texts around a sample.
    pub protocol: Arc<Protocol>,
    /// How tool calls are written, how a reply is scored.
    pub reference: Reference,
}

impl Reference {
    /// An agent's rules, all of them in one type.
    pub const fn of<T: ToolSyntax + Scorer + Loop>(name: &'static str, rules: &'static T) -> Self {
        Self { name, syntax: rules, scorer: rules, agent_loop: Some(rules) }
    }

    /// Scores the final text of a sample: a pure function of gold, text and switches. `truncated_call` says that the text
    /// ended at the token limit in the middle of a tool call.
    pub fn score(&self, sample: &Sample, text: &str, truncated_call: bool, switches: &Switches) -> Score {
        if truncated_call && switches.flag_truncated_calls {
            return Score {
                outcome: Outcome::Unparsed,
                value: 0.0,
                prediction: None,
                rule: Some("truncated_call".to_owned()),
            };
        }
        match switches.extraction {
            Extraction::Upstream => self.scorer.score_sample(sample, text),
            Extraction::Strict => Strict { tags: self.syntax.tags() }.score_sample(sample, text),
        }
    }
}

/// Everything that is the same for all samples of a run.
pub struct Agent {
    pub backend: Arc<dyn Backend>,
    pub protocol: Arc<Protocol>,
    /// The protocol's hash as records carry it.
    pub protocol_hash: String,
    /// Syntax of tool calls, and scoring of the release.
    pub reference: Reference,
    /// Settings of the evaluation.
    pub plan: RunPlan,
    pub frames: Arc<dyn FrameSource>,
    /// Runs code of the model, where the protocol has a tool for it.
    pub code: Option<Arc<dyn CodeTool>>,
    /// The files behind the samples' videos.
    pub videos: VideoStore,
}

/// A conversation that runs, up to the text that it ends with.
pub type Conversation<'a> = BoxFuture<'a, Result<String, SampleError>>;

/// A loop: one sample through one protocol.
pub trait Loop: Send + Sync {
    /// Runs the conversation up to the text that it ends with.
    fn run<'a>(&'a self, kit: &'a mut Kit<'_>) -> Conversation<'a>;

    /// The text that the agent's own extraction reads.
    fn scored_text(&self, agent_loop: &AgentLoop, transcript: &Transcript) -> String {
        scored::text(agent_loop.scored, transcript)
    }

    /// Its part of the rules that not every loop has.
    fn fields(&self) -> SpecialFields {
        SpecialFields::default()
    }
}

/// Names of [`AgentLoop::special_fields`] that a loop reads.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpecialFields {
    /// Without one of these it cannot run.
    pub needed: &'static [&'static str],
    /// These may be there.
    pub allowed: &'static [&'static str],
}

impl Agent {
    /// Runs one sample to its record. Failures become part of the record.
    pub async fn run(&self, sample: &Sample) -> Record {
        self.run_epoch(sample, 0).await
    }

    /// As [`run`](Self::run), for one of the sample's repetitions.
    pub(crate) async fn run_epoch(&self, sample: &Sample, epoch: usize) -> Record {
        let started = Instant::now();
        let mut kit = Kit::new(self, sample, epoch);
        let outcome = match self.choose_loop() {
            Ok(chosen) => chosen.run(&mut kit).await,
            Err(error) => Err(error),
        };
        let Kit { mut transcript, mut measured, messages, last_truncated, .. } = kit;
        transcript.messages = messages.iter().map(RecordedMessage::from).collect();
        let (score, agent_score, error) = match outcome {
            Ok(text) => {
                transcript
                    .messages
                    .push(RecordedMessage::from(&Message::text(Role::Assistant, text.as_str())));
                let truncated_call = last_truncated && self.reference.syntax.has_unclosed_call(&text);
                transcript.final_text = text;
                let score = self.reference.score(
                    sample,
                    &transcript.final_text,
                    truncated_call,
                    self.plan.switches(),
                );
                (score, self.agent_score(sample, &transcript), None)
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
            profile: self.plan.profile(),
            protocol: self.protocol_hash.clone(),
            sample: sample.clone(),
            epoch,
            transcript,
            score,
            agent_score,
            error,
            measured,
        }
    }

    /// Score by the agent's own extraction, where it has a loop of its own.
    fn agent_score(&self, sample: &Sample, transcript: &Transcript) -> Option<AgentScore> {
        let agent_loop = self.protocol.agent.as_ref()?;
        let counts = transcript.tries.as_ref().is_none_or(|tries| tries.accepted);
        let text = match self.choose_loop() {
            Ok(chosen) if counts => chosen.scored_text(agent_loop, transcript),
            _ => String::new(),
        };
        let score = self.reference.scorer.score_sample(sample, &text);
        Some(AgentScore { fidelity: self.plan.fidelity(&self.protocol, &sample.task)?, score })
    }

    /// The loop that the protocol asks for.
    fn choose_loop(&self) -> Result<&'static dyn Loop, SampleError> {
        Ok(match self.protocol.agent.as_ref().map(|agent_loop| &agent_loop.shape) {
            None => &driver::Driver,
            Some(Shape::OneTurn) => &turns::OneTurn,
            Some(Shape::Code(_)) => &code::Code,
            Some(Shape::Frames(_)) => self.reference.agent_loop.ok_or_else(|| {
                let message = format!(
                    "protocol {} has a loop of its own, and reference {} has no rules for one",
                    self.protocol.name, self.reference.name
                );
                protocol_error("open", &message)
            })?,
        })
    }
}
