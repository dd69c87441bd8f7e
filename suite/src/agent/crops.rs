//! Tool calls of one turn: crops are decoded and looked at concurrently, results go in in call order.

use std::sync::Arc;

use futures::future::join_all;

use super::model::Answer;
use super::{Kit, NoFrames, protocol_error};
use crate::frames::FrameSet;
use crate::media::VideoRequest;
use crate::message::{Content, Message, Part, Role, StructuredCall};
use crate::plan::CropMode;
use crate::profile::MalformedCall;
use crate::protocol::CallError;
use crate::protocol::render::{self, RenderError};
use crate::record::{SampleError, SampleErrorClass, ToolCall, ToolOutcome, conversation_hash};
use crate::reference::{Call, RESPONSE};
use crate::settings::ToolDialect;
use crate::span::TimeSpan;

/// Result of one call, and what the record notes of it.
struct CropResult {
    outcome: ToolOutcome,
    set: Option<Arc<FrameSet>>,
    timed_out: bool,
    sub_call: Option<SubCall>,
}

impl From<ToolOutcome> for CropResult {
    fn from(outcome: ToolOutcome) -> Self {
        Self { outcome, set: None, timed_out: false, sub_call: None }
    }
}

/// A sub-agent's call, kept for the transcript.
struct SubCall {
    step: String,
    conversation: String,
    answer: Answer,
}

impl Kit<'_> {
    /// Runs the calls of one turn and appends one user message each.
    ///
    /// The path that the model wrote is never used: a crop is always of the sample's own video.
    pub(super) async fn run_tools(
        &mut self,
        turn: usize,
        calls: &[Call],
        structured: &[StructuredCall],
    ) -> Result<(), SampleError> {
        if self.agent.plan.switches().malformed_call == MalformedCall::SampleError
            && let Some(error) = calls.iter().find_map(|call| call.window.as_ref().err())
        {
            let reason = render::call_reason(&self.agent.protocol, error)
                .map_err(|error| protocol_error("tool", &error))?;
            let message = format!("tool call that stops the reference driver: {reason}");
            let step = format!("turn{turn}");
            return Err(SampleError { class: SampleErrorClass::MalformedCall, message, step });
        }
        let looks = calls.iter().enumerate().map(|(index, call)| self.look(turn, index, &call.window));
        let results = join_all(looks).await;

        let native = self.agent.plan.dialect == ToolDialect::Native;
        let (mut failed, mut shown) = (None, Vec::new());
        for (index, result) in results.into_iter().enumerate() {
            let broken = |error: RenderError| protocol_error("tool", &error);
            let CropResult { outcome, set, timed_out, sub_call } = result.map_err(broken)?;
            self.measured.media_seconds += set.as_ref().map_or(0.0, |set| set.seconds);
            if let (ToolOutcome::Frames { .. } | ToolOutcome::Summary { .. }, Some(set)) = (&outcome, &set) {
                self.transcript.second_reader |= set.second_reader;
            }
            self.transcript.decode_timeout |= timed_out;
            if let Some(sub) = sub_call {
                self.note_call(&sub.step, sub.conversation, &sub.answer);
                if let Err(error) = sub.answer {
                    failed.get_or_insert(SampleError {
                        class: SampleErrorClass::ApiInLoop,
                        message: error.to_string(),
                        step: sub.step,
                    });
                }
            }
            let call = &calls[index];
            let unread = TimeSpan::new(f64::NAN, f64::NAN);
            let window = *call.window.as_ref().unwrap_or(&unread);
            let message = self.respond(window, &outcome, set.as_deref()).map_err(broken)?;
            match structured.get(index).filter(|_| native) {
                Some(call) => self.messages.push(as_tool_result(&call.id, message, &mut shown)),
                None => self.messages.push(message),
            }
            let [start, end] =
                [window.start, window.end].map(|time| Some(time).filter(|time| time.is_finite()));
            self.transcript.tool_calls.push(ToolCall {
                turn,
                index,
                call: call.value.clone(),
                start,
                end,
                outcome,
            });
        }
        if !shown.is_empty() {
            self.messages.push(Message::parts(Role::User, shown));
        }
        failed.map_or(Ok(()), Err)
    }

    /// Decodes one window and, in sub-agent mode, asks the sub-agent about it.
    async fn look(
        &self,
        turn: usize,
        index: usize,
        window: &Result<TimeSpan, CallError>,
    ) -> Result<CropResult, RenderError> {
        let protocol = &self.agent.protocol;
        let window = match window {
            Ok(window) => *window,
            Err(error) => {
                let reason = render::call_reason(protocol, error)?;
                return Ok(ToolOutcome::Malformed { reason }.into());
            }
        };
        let request = VideoRequest::crop(window.start, window.end, protocol.tool.max_frames);
        let set = match self.frames(request).await {
            Ok(set) => set,
            Err(NoFrames { message: reason, timed_out }) => {
                let result = CropResult::from(ToolOutcome::CropFailed { reason });
                return Ok(CropResult { timed_out, ..result });
            }
        };
        let result = match self.agent.plan.crop {
            CropMode::Frames => ToolOutcome::Frames { frames: set.origins() }.into(),
            CropMode::Subagent => self.ask_subagent(turn, index, window, &set).await?,
        };
        Ok(CropResult { set: Some(set), ..result })
    }

    /// One sub-agent: the same model, a fresh conversation over the crop's frames.
    async fn ask_subagent(
        &self,
        turn: usize,
        index: usize,
        TimeSpan { start, end }: TimeSpan,
        set: &FrameSet,
    ) -> Result<CropResult, RenderError> {
        let (step, protocol) = (format!("turn{turn}/sub{index}"), &self.agent.protocol);
        if !(start.is_finite() && end.is_finite()) && protocol.subagent_prompt.has_slot("start_clock") {
            let reason = format!("no clock shows a window from {start} s to {end} s");
            return Ok(ToolOutcome::CropFailed { reason }.into());
        }
        let prompt = render::subagent_prompt(protocol, self.sample, start, end, set.images.len())?;
        let mut parts = render::frame_parts(protocol, &set.images)?;
        parts.push(Part::Text(prompt));
        let messages = vec![Message::parts(Role::User, parts)];
        let request = self.request(&step, messages, self.agent.plan.max_tokens);
        let answer = self.agent.ask(self.sample, &request).await;
        let conversation = conversation_hash(&request.messages);
        let outcome = match &answer {
            Ok(completion) => ToolOutcome::Summary { frames: set.origins(), text: completion.text.clone() },
            Err(error) => ToolOutcome::CropFailed { reason: error.to_string() },
        };
        let sub_call = Some(SubCall { step, conversation, answer });
        Ok(CropResult { sub_call, ..outcome.into() })
    }

    /// The user message that answers a call.
    fn respond(
        &self,
        window: TimeSpan,
        outcome: &ToolOutcome,
        set: Option<&FrameSet>,
    ) -> Result<Message, RenderError> {
        let (protocol, TimeSpan { start, end }) = (&self.agent.protocol, window);
        Ok(match (outcome, set) {
            (ToolOutcome::Frames { .. }, Some(set)) => {
                let mut parts = render::frame_parts(protocol, &set.images)?;
                parts.push(Part::Text(render::crop_response(protocol, set.images.len(), start, end)?));
                Message::parts(Role::User, parts)
            }
            (ToolOutcome::Summary { text, .. }, _) => {
                Message::text(Role::User, render::subagent_response(protocol, start, end, text)?)
            }
            (outcome, _) => {
                let text = self.error_text(window, outcome).transpose()?;
                Message::text(Role::User, text.unwrap_or_default())
            }
        })
    }
}

/// A response as the chat API has it: text with the call's id. Not every server takes images in a message
/// of role `tool`, so a crop's frames follow in one user message after the turn's last result, each
/// crop's before the text that names its window.
fn as_tool_result(id: &str, response: Message, shown: &mut Vec<Part>) -> Message {
    let bare = |text: &str| {
        let (open, close) = RESPONSE;
        let inner = text.strip_prefix(open).and_then(|text| text.strip_suffix(close));
        inner.unwrap_or(text).trim().to_owned()
    };
    match response.content {
        Content::Text(text) => Message::tool_result(id, bare(&text)),
        Content::Parts(parts) => {
            // The last part is the response's text; labels of frames stay with their frames.
            let text = match parts.last() {
                Some(Part::Text(text)) => bare(text),
                _ => String::new(),
            };
            shown.extend(parts[..parts.len().saturating_sub(1)].iter().cloned());
            shown.push(Part::Text(text.clone()));
            Message::tool_result(id, text)
        }
    }
}
