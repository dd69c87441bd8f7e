//! ParaVT's loop, in the order of its driver (ParaVT cf55249 `paravt/eval/driver.py`): crops of the calls of each turn, and
//! a forced answer after the last.

use super::{Ask, Conversation, Kit, Loop, NoFrames, protocol_error};
use crate::backend::{Completion, FinishReason};
use crate::media::VideoRequest;
use crate::message::{Frames, Message, Part, Role, VideoPart};
use crate::plan::Channel;
use crate::protocol::render;
use crate::record::{SampleError, SampleErrorClass, ToolOutcome};
use crate::settings::ToolDialect;

pub(super) struct Driver;

impl Loop for Driver {
    fn run<'a>(&'a self, kit: &'a mut Kit<'_>) -> Conversation<'a> {
        Box::pin(converse(kit))
    }
}

async fn converse(kit: &mut Kit<'_>) -> Result<String, SampleError> {
    open(kit).await?;
    if !kit.offers_tool() {
        let reply = kit.ask(kit.turn()).await?;
        return kit.note_served(reply);
    }
    let plan = &kit.agent.plan;
    for turn in 0..=plan.max_turns {
        // Sub-agents are calls of the model, too: a turn has its own number.
        let reply = kit.ask(Ask { step: format!("turn{turn}"), ..kit.turn() }).await?;
        let calls = kit.calls(&reply);
        if calls.is_empty() {
            return Ok(reply.text);
        }
        let cap = match plan.max_parallel {
            0 => calls.len(),
            cap => cap.min(calls.len()),
        };
        kit.transcript.dropped_calls += calls.len() - cap;
        kit.messages.push(match plan.dialect {
            // The chat API wants a result for every call that stands in the message.
            ToolDialect::Native => {
                Message::calls(reply.text, reply.tool_calls.iter().take(cap).cloned().collect())
            }
            ToolDialect::Text | ToolDialect::Auto => Message::text(Role::Assistant, reply.text),
        });
        kit.run_tools(turn, &calls[..cap], &reply.tool_calls).await?;
        if turn + 1 == plan.max_turns {
            return force(kit).await;
        }
    }
    // Only reached with max_turns = 0: the crops of turn 0 were run and nothing was answered.
    Ok(String::new())
}

/// Puts system text, overview and question into the conversation.
async fn open(kit: &mut Kit<'_>) -> Result<(), SampleError> {
    kit.require_video()?;
    let system = kit.system_text()?;
    let (mut parts, duration) = kit.overview().await?;
    let question = kit.question_text(duration).map_err(|error| protocol_error("open", &error))?;
    parts.push(Part::Text(question));
    kit.begin(system, Message::parts(Role::User, parts));
    Ok(())
}

/// Asks for the final answer after the last tool turn.
async fn force(kit: &mut Kit<'_>) -> Result<String, SampleError> {
    let force = render::force(kit.protocol(), kit.sample.gold.kind())
        .map_err(|error| protocol_error("force", &error))?;
    kit.messages.push(Message::text(Role::User, force.text.as_str()));
    kit.transcript.forced = true;
    // No tools: the reply is the answer, and not every server has a `tool_choice` that forbids calls.
    let ask = Ask { step: "force".to_owned(), max_tokens: force.max_tokens, tools: None, ..kit.turn() };
    Ok(kit.ask(ask).await?.text)
}

impl Kit<'_> {
    /// The text of the only reply; where the server has the tool, the calls that it ran are noted.
    fn note_served(&mut self, reply: Completion) -> Result<String, SampleError> {
        if !self.protocol().has_tool(&self.agent.plan.mode) {
            return Ok(reply.text);
        }
        if reply.finish_reason == Some(FinishReason::Other("tool_calls".to_owned())) {
            let message = "the reply ends with calls that the client is to run (finish_reason `tool_calls`): this server \
                           has no tool of its own; use a mode in which the suite runs the tool"
                .to_owned();
            return Err(SampleError { class: SampleErrorClass::Api, message, step: "turn0".to_owned() });
        }
        for (index, call) in self.calls(&reply).iter().enumerate() {
            let outcome = match &call.window {
                Ok(_) => ToolOutcome::Served,
                Err(error) => ToolOutcome::Malformed { reason: error.to_string() },
            };
            self.note_tool_call(index, call, outcome);
        }
        Ok(reply.text)
    }

    /// The overview of the run as parts, and the video's duration in seconds. A video that gives none is a text-only
    /// question upstream (counted here as frame loss), an error under `strict`; images that cannot be read are one always.
    pub(super) async fn overview(&mut self) -> Result<(Vec<Part>, Option<f64>), SampleError> {
        let plan = &self.agent.plan;
        if plan.is_blind() {
            return Ok((Vec::new(), None));
        }
        if self.sample.is_about_images() {
            let images = self.images().await;
            return images.map(|images| (images, None)).map_err(|lost| self.frame_loss(lost));
        }
        if plan.channel == Channel::Video {
            let path = self.agent.videos.resolve(&self.sample.video);
            let path = std::path::absolute(&path).unwrap_or(path);
            let nframes = Some(plan.switches().video_channel_frames);
            let video = VideoPart { path, nframes, spread: plan.switches().video_channel_spread };
            return Ok((vec![Part::Video(video)], None));
        }
        match self.frames(VideoRequest::overview(plan.nframes)).await {
            Ok(set) => {
                self.measured.media_seconds += set.seconds;
                self.transcript.second_reader |= set.second_reader;
                let parts = match plan.channel {
                    Channel::FramesVideo => vec![Part::Frames(Frames::placed(set.images.clone()))],
                    _ => render::frame_parts(self.protocol(), &set.images)
                        .map_err(|error| protocol_error("open", &error))?,
                };
                Ok((parts, Some(set.duration)))
            }
            Err(NoFrames { message, timed_out }) => {
                self.transcript.decode_timeout |= timed_out;
                if plan.switches().frame_loss_is_error {
                    let (class, step) = (SampleErrorClass::FrameLoss, "open".to_owned());
                    return Err(SampleError { class, message, step });
                }
                self.transcript.frame_loss = Some(message);
                Ok((Vec::new(), None))
            }
        }
    }
}
