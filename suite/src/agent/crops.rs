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

/// Result of one call.
enum CropResult {
    Frames(Arc<FrameSet>),
    Summary(Arc<FrameSet>, String),
    Failed(String),
    /// As failed: the time limit of decoding was over.
    TimedOut(String),
    Malformed(String),
    /// The protocol has no text for it.
    NoText(RenderError),
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
        for (index, (result, seconds, sub_call)) in results.into_iter().enumerate() {
            self.measured.media_seconds += seconds;
            if let CropResult::Frames(set) | CropResult::Summary(set, _) = &result {
                self.transcript.second_reader |= set.second_reader;
            }
            self.transcript.decode_timeout |= matches!(&result, CropResult::TimedOut(_));
            if let Some(sub) = sub_call {
                self.note_call(&sub.step, sub.conversation, &sub.answer);
                if let Some(error) = sub.answer.error() {
                    failed.get_or_insert(SampleError {
                        class: SampleErrorClass::ApiInLoop,
                        message: error.to_string(),
                        step: sub.step,
                    });
                }
            }
            let unread = TimeSpan::new(f64::NAN, f64::NAN);
            let TimeSpan { start, end } = *calls[index].window.as_ref().unwrap_or(&unread);
            let (message, outcome) =
                self.respond(start, end, result).map_err(|error| protocol_error("tool", &error))?;
            match structured.get(index).filter(|_| native) {
                Some(call) => self.messages.push(as_tool_result(&call.id, message, &mut shown)),
                None => self.messages.push(message),
            }
            self.transcript.tool_calls.push(ToolCall {
                turn,
                index,
                call: calls[index].value.clone(),
                start: Some(start).filter(|value| value.is_finite()),
                end: Some(end).filter(|value| value.is_finite()),
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
    ) -> (CropResult, f64, Option<SubCall>) {
        let window = match window {
            Ok(window) => *window,
            Err(error) => {
                let reason = render::call_reason(&self.agent.protocol, error);
                return (reason.map_or_else(CropResult::NoText, CropResult::Malformed), 0.0, None);
            }
        };
        let request = VideoRequest::crop(window.start, window.end, self.agent.protocol.tool.max_frames);
        let set = match self.frames(request).await {
            Ok(set) => set,
            Err(NoFrames { message, timed_out: true }) => return (CropResult::TimedOut(message), 0.0, None),
            Err(NoFrames { message, .. }) => return (CropResult::Failed(message), 0.0, None),
        };
        let seconds = set.seconds;
        match self.agent.plan.crop {
            CropMode::Frames => (CropResult::Frames(set), seconds, None),
            CropMode::Subagent => {
                let (result, sub) = self.ask_subagent(turn, index, window, set).await;
                (result, seconds, sub)
            }
        }
    }

    /// One sub-agent: the same model, a fresh conversation over the crop's frames.
    async fn ask_subagent(
        &self,
        turn: usize,
        index: usize,
        TimeSpan { start, end }: TimeSpan,
        set: Arc<FrameSet>,
    ) -> (CropResult, Option<SubCall>) {
        let step = format!("turn{turn}/sub{index}");
        let prompt_text = &self.agent.protocol.subagent_prompt;
        if !(start.is_finite() && end.is_finite()) && prompt_text.has_slot("start_clock") {
            let reason = format!("no clock shows a window from {start} s to {end} s");
            return (CropResult::Failed(reason), None);
        }
        let prompt =
            match render::subagent_prompt(&self.agent.protocol, self.sample, start, end, set.images.len()) {
                Ok(prompt) => prompt,
                Err(error) => return (CropResult::NoText(error), None),
            };
        let mut parts = match render::frame_parts(&self.agent.protocol, &set.images) {
            Ok(parts) => parts,
            Err(error) => return (CropResult::NoText(error), None),
        };
        parts.push(Part::Text(prompt));
        let messages = vec![Message::parts(Role::User, parts)];
        let request = self.request(&step, messages, self.agent.plan.max_tokens);
        let answer = self.agent.ask(self.sample, &request).await;
        let conversation = conversation_hash(&request.messages);
        let result = match &answer {
            Answer::Usable(completion) => CropResult::Summary(set, completion.text.clone()),
            Answer::Refused(_, error) | Answer::Failed(error) => CropResult::Failed(error.to_string()),
        };
        (result, Some(SubCall { step, conversation, answer }))
    }

    /// The user message that answers a call, and what the transcript says about it.
    fn respond(
        &self,
        start: f64,
        end: f64,
        result: CropResult,
    ) -> Result<(Message, ToolOutcome), RenderError> {
        let protocol = &self.agent.protocol;
        Ok(match result {
            CropResult::Frames(set) => {
                let mut parts = render::frame_parts(protocol, &set.images)?;
                parts.push(Part::Text(render::crop_response(protocol, set.images.len(), start, end)?));
                (Message::parts(Role::User, parts), ToolOutcome::Frames { frames: set.origins() })
            }
            CropResult::Summary(set, text) => {
                let response = render::subagent_response(protocol, start, end, &text)?;
                (Message::text(Role::User, response), ToolOutcome::Summary { frames: set.origins(), text })
            }
            CropResult::Failed(reason) | CropResult::TimedOut(reason) => {
                let response = render::crop_error(protocol, start, end, &reason)?;
                (Message::text(Role::User, response), ToolOutcome::CropFailed { reason })
            }
            CropResult::Malformed(reason) => {
                let response = render::call_error(protocol, &reason)?;
                (Message::text(Role::User, response), ToolOutcome::Malformed { reason })
            }
            CropResult::NoText(error) => return Err(error),
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
