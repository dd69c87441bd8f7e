//! The loop of an agent that is shown frames for the calls of a turn, and that of one with a single turn.

use super::{Conversation, Kit, Loop, NoFrames, Shown, SpecialFields, protocol_error};
use crate::backend::Completion;
use crate::media::VideoFacts;
use crate::message::{Message, Part, Role};
use crate::protocol::render::{self, RenderError};
use crate::protocol::{FailedCalls, FrameLoop, FramePolicy, Overview, ResultRole};
use crate::record::{SampleError, SampleErrorClass, ToolOutcome};
use crate::reference::{Call, CallContext, CallResult, FrameChoice, FrameRules};

impl<R: FrameRules> Loop for R {
    fn run<'a>(&'a self, kit: &'a mut Kit<'_>) -> Conversation<'a> {
        Box::pin(converse(kit, self))
    }

    fn fields(&self) -> SpecialFields {
        let allowed: &[_] = if self.has_overview() { &["frames.overview"] } else { &[] };
        SpecialFields { needed: &[], allowed }
    }
}

/// A conversation up to the text that it ends with: first the overview and the question, then frames for the calls of
/// each reply.
///
/// # Errors
/// A call of the model failed, the video gives no frames, or the protocol lacks a text.
pub async fn converse(kit: &mut Kit<'_>, rules: &dyn FrameRules) -> Result<String, SampleError> {
    let FrameSetup { frame_loop, policy, system, video } = kit.set_up_frames().await?;
    let broken = |error: RenderError| protocol_error("open", &error);
    let of_try = render::system_of_try(frame_loop, &policy, kit.number_of_try()).map_err(broken)?;
    let mut seen = Vec::new();
    let overview = |wanted: &Overview| {
        let choice = rules.overview(wanted, &video);
        seen.extend(&choice.indices);
        choice
    };
    let shown = kit.show_overview(&policy, &video, overview).await?;
    let frames = kit.frame_parts(&policy, &shown, None).map_err(broken)?;
    kit.open(of_try.unwrap_or(system), (Some(&video), &[]), frames)?;
    for turn in 0.. {
        let reply = kit.ask(kit.turn()).await?;
        if !kit.offers_tool() {
            return kit.continue_answer(reply).await;
        }
        let calls = kit.calls(&reply);
        // The calls in the last reply are not run.
        if calls.is_empty() || frame_loop.is_last(turn) {
            return Ok(reply.text);
        }
        let results = results(kit, rules, (frame_loop, &policy, &mut seen), turn, &calls).await?;
        let Some(parts) = results else { return Ok(reply.text) };
        kit.messages.push(match reply.tool_calls.is_empty() {
            true => Message::text(Role::Assistant, reply.text),
            false => Message::calls(reply.text, reply.tool_calls),
        });
        kit.messages.push(message(frame_loop.result_role.into(), parts));
    }
    unreachable!("the last turn ends the conversation")
}

/// The message that answers the calls of a turn; `None` where the conversation ends instead.
async fn results(
    kit: &mut Kit<'_>,
    rules: &dyn FrameRules,
    (frame_loop, policy, seen): (&FrameLoop, &FramePolicy, &mut Vec<usize>),
    turn: usize,
    calls: &[Call],
) -> Result<Option<Vec<Part>>, SampleError> {
    let broken = |error: RenderError| protocol_error("tool", &error);
    let (mut shown, mut windows, mut texts, mut failure) = (Vec::new(), Vec::new(), String::new(), None);
    for (index, call) in calls.iter().enumerate() {
        let (outcome, frames) = run_call(kit, rules, policy, seen, call).await?;
        match &outcome {
            ToolOutcome::Frames { .. } => windows.push(call.span()),
            ToolOutcome::Text { text } => texts.push_str(text),
            _ => {}
        }
        shown.extend(frames);
        failure = failure.or_else(|| kit.error_text(call.span(), &outcome));
        kit.note_tool_call(index, call, outcome);
    }
    let next = turn + 1;
    Ok(Some(match windows.first().zip(windows.last()) {
        Some((first, last)) => {
            let (protocol, plan) = (kit.protocol(), &kit.agent.plan);
            let prompt =
                render::later_question(protocol, frame_loop, next, kit.sample, &plan.mode, plan.switches());
            let frames = kit.frame_parts(policy, &shown, None).map_err(broken)?;
            let window = (first.start, last.end);
            render::frames_response(protocol, frame_loop, &prompt.map_err(broken)?, next, window, frames)
                .map_err(broken)?
        }
        None if !texts.is_empty() => render::with_last_turn(frame_loop, next, vec![Part::Text(texts)]),
        None if frame_loop.failed_calls == FailedCalls::Stop => return Ok(None),
        None => {
            let text = failure.transpose().map_err(broken)?.unwrap_or_default();
            render::with_last_turn(frame_loop, next, vec![Part::Text(text)])
        }
    }))
}

/// Outcome of a call, and its frames.
async fn run_call(
    kit: &mut Kit<'_>,
    rules: &dyn FrameRules,
    policy: &FramePolicy,
    seen: &mut Vec<usize>,
    call: &Call,
) -> Result<(ToolOutcome, Vec<Shown>), SampleError> {
    if let Err(error) = &call.window {
        let reason = render::call_reason(kit.protocol(), error);
        let reason = reason.map_err(|error| protocol_error("tool", &error))?;
        return Ok((ToolOutcome::Malformed { reason }, Vec::new()));
    }
    let failed = |reason: String| Ok((ToolOutcome::CropFailed { reason }, Vec::new()));
    let video = match kit.facts().await {
        Ok(video) => video,
        Err(lost) => return failed(kit.note_loss(lost)),
    };
    let context = CallContext { video: &video, seen, max_frames: kit.protocol().tool.max_frames, policy };
    let choice = match rules.run(call, &context) {
        Ok(CallResult::Frames(choice)) => choice,
        Ok(CallResult::Text(text)) => return Ok((ToolOutcome::Text { text }, Vec::new())),
        Err(reason) => return failed(reason),
    };
    seen.extend(&choice.indices);
    match kit.show(policy, &video, choice).await {
        Ok(shown) => {
            let frames = shown.iter().filter_map(|(image, _)| image.origin).collect();
            Ok((ToolOutcome::Frames { frames }, shown))
        }
        Err(lost) => failed(kit.note_loss(lost)),
    }
}

/// One model call over the overview of the run: the loop of a protocol that chooses neither frames nor code.
pub(super) struct OneTurn;

impl Loop for OneTurn {
    fn run<'a>(&'a self, kit: &'a mut Kit<'_>) -> Conversation<'a> {
        Box::pin(async move {
            let agent_loop = kit.agent_loop()?;
            kit.require_video()?;
            let system = kit.system_text()?;
            let (frames, duration) = kit.overview().await?;
            let question = kit.question_text(duration).map_err(|error| protocol_error("open", &error))?;
            let parts = render::opening(agent_loop, kit.sample, &question, (None, &[]), frames);
            let parts = parts.map_err(|error| protocol_error("open", &error))?;
            kit.begin(system, Message::parts(Role::User, parts));
            let reply = kit.ask(kit.turn()).await?;
            match kit.offers_tool() {
                true => Ok(reply.text),
                false => kit.continue_answer(reply).await,
            }
        })
    }
}

/// What a loop with frames of its own starts from.
pub struct FrameSetup<'a> {
    /// The protocol's turns.
    pub frame_loop: &'a FrameLoop,
    /// Its frames for the length of the video.
    pub policy: FramePolicy,
    /// System text of the run's mode.
    pub system: String,
    pub video: VideoFacts,
}

impl<'a> Kit<'a> {
    /// Turns, system text and video of the sample.
    ///
    /// # Errors
    /// The protocol has no frames of its own or not the mode, or the video cannot be read.
    pub async fn set_up_frames(&mut self) -> Result<FrameSetup<'a>, SampleError> {
        let frame_loop = self.frame_loop()?;
        self.require_video()?;
        let system = self.system_text()?;
        let video = self.require_facts().await?;
        Ok(FrameSetup { frame_loop, policy: frame_loop.policy.of(&video), system, video })
    }

    /// The protocol's turns over frames.
    pub fn frame_loop(&self) -> Result<&'a FrameLoop, SampleError> {
        let missing = || protocol_error("open", &"the protocol has no `agent.frames`");
        self.agent_loop()?.frames().ok_or_else(missing)
    }

    /// The frames of the first turn; none where the policy has no overview, or the run shows nothing of the video.
    pub async fn show_overview(
        &mut self,
        policy: &FramePolicy,
        video: &VideoFacts,
        choose: impl FnOnce(&Overview) -> FrameChoice,
    ) -> Result<Vec<Shown>, SampleError> {
        let Some(overview) = policy.overview.filter(|_| !self.agent.plan.is_blind()) else {
            return Ok(Vec::new());
        };
        let choice = choose(&overview);
        if choice.indices.is_empty() {
            let message = format!("{} frames are too few for an overview", video.frames);
            return Err(self.frame_loss(NoFrames { message, timed_out: false }));
        }
        let shown = self.show(policy, video, choice).await;
        shown.map_err(|lost| self.frame_loss(lost))
    }

    /// Begins the conversation with the protocol's first message: question and frames; `video` and `slots` are what its
    /// template may name besides.
    ///
    /// # Errors
    /// The protocol has no text for the sample, or one asks for something else.
    pub fn open(
        &mut self,
        system: String,
        (video, slots): (Option<&VideoFacts>, &[(&'static str, String)]),
        frames: Vec<Part>,
    ) -> Result<(), SampleError> {
        let agent_loop = self.agent_loop()?;
        let parts = self
            .question_text(None)
            .and_then(|question| render::opening(agent_loop, self.sample, &question, (video, slots), frames));
        let parts = parts.map_err(|error| protocol_error("open", &error))?;
        self.begin(system, message(Role::User, parts));
        Ok(())
    }

    /// The text of a reply, or what it becomes where its answer is generated a second time.
    ///
    /// # Errors
    /// The second call failed, or the plan cannot use its reply.
    pub async fn continue_answer(&mut self, reply: Completion) -> Result<String, SampleError> {
        let second = self.agent_loop()?.continued(self.sample);
        let Some((second, beginning)) =
            second.and_then(|second| Some((second, second.beginning(&reply.text)?)))
        else {
            return Ok(reply.text);
        };
        self.messages.push(Message::text(Role::Assistant, beginning.as_str()));
        let mut ask = self.turn();
        (ask.step, ask.max_tokens) = ("answer".to_owned(), second.max_tokens);
        (ask.tools, ask.class) = (None, SampleErrorClass::ApiInLoop);
        let rest = self.ask(ask).await;
        // The whole reply stands in its place.
        self.messages.pop();
        Ok(beginning + &rest?.text)
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
pub fn message(role: Role, parts: Vec<Part>) -> Message {
    match <[Part; 1]>::try_from(parts) {
        Ok([Part::Text(text)]) => Message::text(role, text),
        Ok([part]) => Message::parts(role, vec![part]),
        Err(parts) => Message::parts(role, parts),
    }
}
