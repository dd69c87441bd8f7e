//! Turns of an agent with a loop of its own: its frames, its messages, its extraction.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::joined::joined;
use super::messages::NoFrames;
use super::{Agent, Session, protocol_error};
use crate::backend::Completion;
use crate::frames::Pick;
use crate::media::VideoFacts;
use crate::message::{Frames, Image, Message, Part, Role};
use crate::protocol::render::{self, RenderError};
use crate::protocol::{AgentLoop, CallMessages, Clips, FailedCalls, FramePolicy, ResultRole, Scored, SentAs};
use crate::record::{
    OwnScore, RecordedMessage, RecordedPart, SampleError, SampleErrorClass, ToolCall, ToolOutcome, Transcript,
};
use crate::reference::{Call, Look, Looks, View};
use crate::sample::Sample;
use crate::span::TimeSpan;

/// A frame with the time that is shown with it, in seconds.
type Shown = (Arc<Image>, f64);

/// Result of one call.
pub(super) enum Looked {
    Frames(Vec<Shown>),
    Failed(String),
    Malformed(String),
    Text(String),
}

impl Agent {
    /// Score by the agent's own extraction, where its loop is its own.
    pub(super) fn own_score(&self, sample: &Sample, transcript: &Transcript) -> Option<OwnScore> {
        let own = self.protocol.agent.as_ref()?;
        let is_last = own.is_last(transcript.calls.len().saturating_sub(1));
        let unanswered = |clips: &Clips| is_last && !clips.is_answered(&transcript.final_text);
        let text = match own.scored {
            Scored::Last if own.clips.as_ref().is_some_and(unanswered) => String::new(),
            Scored::Last => transcript.final_text.clone(),
            Scored::All => replies(&transcript.messages).join(" "),
            Scored::Joined => joined(transcript),
            Scored::Conversation => conversation(&transcript.messages),
        };
        let counts = transcript.tries.as_ref().is_none_or(|tries| tries.accepted);
        let text = if counts { text } else { String::new() };
        let score = self.reference.scorer.score_sample(sample, &text);
        Some(OwnScore { fidelity: self.plan.fidelity(&self.protocol, &sample.task)?, score })
    }

    pub(super) fn looks(&self) -> Result<&'static dyn Looks, SampleError> {
        self.reference.looks.ok_or_else(|| {
            let message = format!(
                "protocol {} has a loop of its own, and reference {} has no rules for one",
                self.protocol.name, self.reference.name
            );
            SampleError { class: SampleErrorClass::Protocol, message, step: "open".to_owned() }
        })
    }
}

/// Texts of the model.
fn replies(messages: &[RecordedMessage]) -> Vec<String> {
    messages.iter().filter(|message| message.role == Role::Assistant).map(words).collect()
}

/// What follows on the first user message.
fn conversation(messages: &[RecordedMessage]) -> String {
    messages.iter().skip_while(|message| message.role != Role::Assistant).map(words).collect()
}

/// The text of a message.
fn words(message: &RecordedMessage) -> String {
    let texts = message.parts.iter().map(|part| match part {
        RecordedPart::Text { text } => text.as_str(),
        _ => "",
    });
    texts.collect()
}

impl Session<'_> {
    /// Puts the system text, the overview and the question into the conversation.
    pub(super) async fn open_own(
        &mut self,
        own: &AgentLoop,
        policy: &FramePolicy,
        system: String,
    ) -> Result<(), SampleError> {
        let broken = |error: RenderError| protocol_error("open", &error);
        let looks = self.agent.looks()?;
        let video = self.facts().await.map_err(|lost| self.lost(lost))?;
        let policy = &policy.of(&video);
        let system = render::system_of_try(own, policy, self.number()).map_err(broken)?.unwrap_or(system);
        let overview = policy.overview.filter(|_| !self.agent.plan.is_blind());
        let shown = match overview {
            Some(overview) => {
                let look = looks.overview(&overview, &video);
                if look.indices.is_empty() {
                    let message = format!("{} frames are too few for an overview", video.frames);
                    return Err(self.lost(NoFrames { message, timed_out: false }));
                }
                self.picked(policy, &video, look, true).await.map_err(|lost| self.lost(lost))?
            }
            None => Vec::new(),
        };
        let plan = &self.agent.plan;
        let name = self.sample.video_name();
        let protocol = &self.agent.protocol;
        let question = render::user_text(protocol, self.sample, &plan.mode, &plan.switches, &name, None);
        let parts = self.as_parts(policy, &shown).map_err(broken)?;
        let question = question.map_err(broken)?;
        let parts = render::opening(own, self.sample, &question, (Some(&video), &self.described), parts);
        self.begin(system, message(Role::User, parts.map_err(broken)?));
        Ok(())
    }

    /// Runs the calls of a turn and appends the reply and its answer; false where the conversation ends instead.
    pub(super) async fn run_own(
        &mut self,
        own: &AgentLoop,
        turn: usize,
        calls: &[Call],
        reply: &Completion,
    ) -> Result<bool, SampleError> {
        let broken = |error: RenderError| protocol_error("tool", &error);
        // A loop without frames of its own has one turn.
        let Some(policy) = &own.frames else { return Ok(false) };
        if own.harness.calls == CallMessages::Apart {
            return self.run_apart(own, policy, turn, calls, reply).await;
        }
        if let Some(clips) = &own.clips {
            return self.run_clips(own, clips, policy, (turn, calls), reply).await;
        }
        let looks = self.agent.looks()?;
        let (mut shown, mut windows, mut texts, mut failure) = (Vec::new(), Vec::new(), String::new(), None);
        for (index, call) in calls.iter().enumerate() {
            let looked = self.look_own(policy, looks, call).await?;
            let window = *call.window.as_ref().unwrap_or(&TimeSpan::new(f64::NAN, f64::NAN));
            let outcome = match looked {
                Looked::Frames(frames) => {
                    let outcome = frames.iter().filter_map(|(image, _)| image.origin).collect();
                    windows.push(window);
                    shown.extend(frames);
                    ToolOutcome::Frames { frames: outcome }
                }
                Looked::Failed(reason) => ToolOutcome::CropFailed { reason },
                Looked::Malformed(reason) => ToolOutcome::Malformed { reason },
                Looked::Text(text) => {
                    texts.push_str(&text);
                    ToolOutcome::Text { text }
                }
            };
            failure = failure.or_else(|| self.failure(window, &outcome));
            self.note_tool_call((turn, index), call, outcome);
        }
        let parts = match windows.first().zip(windows.last()) {
            Some((first, last)) => {
                let prompt = self.later_question(own, turn + 1).map_err(broken)?;
                let parts = self.as_parts(policy, &shown).map_err(broken)?;
                let window = (first.start, last.end);
                render::own_response(&self.agent.protocol, own, &prompt, turn + 1, window, parts)
                    .map_err(broken)?
            }
            None if !texts.is_empty() => render::with_last_turn(own, turn + 1, vec![Part::Text(texts)]),
            None if own.failed_calls == FailedCalls::Stop => return Ok(false),
            None => {
                let text = failure.transpose().map_err(broken)?.unwrap_or_default();
                render::with_last_turn(own, turn + 1, vec![Part::Text(text)])
            }
        };
        self.messages.push(match reply.tool_calls.is_empty() {
            true => Message::text(Role::Assistant, reply.text.as_str()),
            false => Message::calls(reply.text.as_str(), reply.tool_calls.clone()),
        });
        self.messages.push(message(own.result_role.into(), parts));
        Ok(true)
    }

    /// Writes a call and its outcome, by its turn and its place there, into the transcript.
    pub(super) fn note_tool_call(
        &mut self,
        (turn, index): (usize, usize),
        call: &Call,
        outcome: ToolOutcome,
    ) {
        let window = call.window.as_ref().ok();
        let finite = |time: fn(&TimeSpan) -> f64| window.map(time).filter(|value| value.is_finite());
        let (start, end) = (finite(|window| window.start), finite(|window| window.end));
        self.transcript.tool_calls.push(ToolCall {
            turn: self.turns_before + turn,
            index,
            call: call.value.clone(),
            start,
            end,
            outcome,
        });
    }

    /// What the model is answered with where a call failed.
    pub(super) fn failure(
        &self,
        window: TimeSpan,
        outcome: &ToolOutcome,
    ) -> Option<Result<String, RenderError>> {
        let protocol = &self.agent.protocol;
        match outcome {
            ToolOutcome::CropFailed { reason } => {
                Some(render::crop_error(protocol, window.start, window.end, reason))
            }
            ToolOutcome::Malformed { reason } => Some(render::call_error(protocol, reason)),
            ToolOutcome::Frames { .. }
            | ToolOutcome::Text { .. }
            | ToolOutcome::Summary { .. }
            | ToolOutcome::Ran { .. }
            | ToolOutcome::CodeFailed { .. } => None,
        }
    }

    fn later_question(&self, own: &AgentLoop, turn: usize) -> Result<String, RenderError> {
        let (protocol, plan) = (&self.agent.protocol, &self.agent.plan);
        render::later_question(protocol, own, turn, self.sample, &plan.mode, &plan.switches)
    }

    /// Frames as the model is given them; a single one as an image.
    pub(super) fn as_parts(&self, policy: &FramePolicy, shown: &[Shown]) -> Result<Vec<Part>, RenderError> {
        if policy.sent_as == SentAs::Video && shown.len() > 1 {
            let clips = self.agent.protocol.agent.as_ref().and_then(|own| own.clips.as_ref());
            let images = shown.iter().map(|(image, _)| Arc::clone(image)).collect();
            return Ok(vec![Part::Frames(Frames { images, even: clips.map(|clips| clips.fps) })]);
        }
        render::labelled(&self.agent.protocol, shown.iter().map(|(image, time)| (image, Some(*time))))
    }

    /// The reply, or what it becomes where its answer is generated a second time.
    pub(super) async fn continued(
        &mut self,
        own: &AgentLoop,
        reply: Completion,
    ) -> Result<String, SampleError> {
        let again = own.continued(self.sample);
        let Some((again, beginning)) = again.and_then(|again| Some((again, again.beginning(&reply.text)?)))
        else {
            return Ok(reply.text);
        };
        self.messages.push(Message::text(Role::Assistant, beginning.as_str()));
        let rest = self.call("answer", again.max_tokens, None, SampleErrorClass::ApiInLoop).await;
        // The whole reply stands in its place.
        self.messages.pop();
        Ok(beginning + &rest?.text)
    }

    /// One call: its frames, or why there are none.
    pub(super) async fn look_own(
        &mut self,
        policy: &FramePolicy,
        looks: &'static dyn Looks,
        call: &Call,
    ) -> Result<Looked, SampleError> {
        if let Err(error) = &call.window {
            let reason = render::call_reason(&self.agent.protocol, error);
            return Ok(Looked::Malformed(reason.map_err(|error| protocol_error("tool", &error))?));
        }
        let video = match self.facts().await {
            Ok(video) => video,
            Err(lost) => return Ok(Looked::Failed(self.noted(lost))),
        };
        let none = BTreeMap::new();
        let policy = policy.of(&video);
        let own = self.agent.protocol.agent.as_ref();
        let errors = own.map_or(&none, |own| &own.harness.errors);
        let name = self.sample.video_name();
        let view = View {
            video: &video,
            name: &name,
            seen: &self.seen,
            max_frames: self.agent.protocol.tool.max_frames,
            policy: &policy,
            clips: own.and_then(|own| own.clips.as_ref()),
            errors,
        };
        if let Some(text) = looks.text(call, &view) {
            return Ok(Looked::Text(text));
        }
        let look = match looks.look(call, &view) {
            Ok(look) => look,
            Err(reason) => return Ok(Looked::Failed(reason)),
        };
        Ok(match self.picked(&policy, &video, look, false).await {
            Ok(frames) => Looked::Frames(frames),
            Err(lost) => Looked::Failed(self.noted(lost)),
        })
    }

    /// The frames of a look, of the first message or of a call, decoded off the async threads.
    pub(super) async fn picked(
        &mut self,
        policy: &FramePolicy,
        video: &VideoFacts,
        look: Look,
        is_first: bool,
    ) -> Result<Vec<Shown>, NoFrames> {
        let sizes = self.sizes(policy, video, &look, is_first);
        let (size, stored) = sizes.map_err(|message| NoFrames { message, timed_out: false })?;
        self.described = look.slots;
        let (filter, encoding) = (policy.filter, policy.encoding);
        let pick = Pick { indices: look.indices, stored, size, filter, encoding };
        self.seen.extend(&pick.indices);
        let source = Arc::clone(&self.agent.frames);
        let set = self.blocking(move |path| source.pick(path, &pick)).await?;
        self.measured.media_seconds += set.seconds;
        Ok(set.images.into_iter().zip(look.times).collect())
    }

    pub(super) async fn facts(&mut self) -> Result<VideoFacts, NoFrames> {
        let source = Arc::clone(&self.agent.frames);
        let started = Instant::now();
        let facts = self.blocking(move |path| source.facts(path)).await;
        self.measured.media_seconds += started.elapsed().as_secs_f64();
        facts
    }

    /// An overview without frames.
    pub(super) fn lost(&mut self, lost: NoFrames) -> SampleError {
        let message = self.noted(lost);
        SampleError { class: SampleErrorClass::FrameLoss, message, step: "open".to_owned() }
    }

    fn noted(&mut self, lost: NoFrames) -> String {
        self.transcript.decode_timeout |= lost.timed_out;
        lost.message
    }
}

impl From<ResultRole> for Role {
    fn from(role: ResultRole) -> Self {
        match role {
            ResultRole::User => Self::User,
            ResultRole::Tool => Self::Tool,
        }
    }
}

/// A message; a text alone is a plain string, as the authors' clients send it.
pub(super) fn message(role: Role, parts: Vec<Part>) -> Message {
    match <[Part; 1]>::try_from(parts) {
        Ok([Part::Text(text)]) => Message::text(role, text),
        Ok([part]) => Message::parts(role, vec![part]),
        Err(parts) => Message::parts(role, parts),
    }
}
