//! Turns of an agent that is shown a video for each call, and asked for an answer in the last one.

use super::own::{Looked, message};
use super::{Session, protocol_error};
use crate::backend::Completion;
use crate::message::{Message, Part, Role};
use crate::protocol::{AgentLoop, Clips, FramePolicy, render};
use crate::record::{SampleError, ToolOutcome};
use crate::reference::Call;
use crate::span::TimeSpan;

impl Session<'_> {
    /// As [`run_own`](Self::run_own), for the one call of a turn. A call that can be read and shows nothing has its reply
    /// in the conversation twice, as the release has it.
    pub(super) async fn run_clips(
        &mut self,
        own: &AgentLoop,
        clips: &Clips,
        policy: &FramePolicy,
        (turn, calls): (usize, &[Call]),
        reply: &Completion,
    ) -> Result<bool, SampleError> {
        let Some(call) = calls.first() else { return Ok(false) };
        let looks = self.agent.looks()?;
        let looked = self.look_own(policy, looks, call).await?;
        let TimeSpan { start, end } = *call.window.as_ref().unwrap_or(&TimeSpan::new(f64::NAN, f64::NAN));
        let protocol = &self.agent.protocol;
        let is_last = own.is_last(turn + 1);
        let failed = |reason: &str| {
            let own = if is_last { &clips.last_error } else { &protocol.crop_error };
            render::crop_error_by(own, start, end, reason).map(|text| vec![Part::Text(text)])
        };
        let said = Message::text(Role::Assistant, reply.text.as_str());
        self.messages.push(said.clone());
        let (parts, outcome) = match looked {
            Looked::Frames(shown) => {
                let template = if is_last { &clips.last_response } else { &protocol.crop_response };
                let video = self.as_parts(policy, &shown).map_err(|error| protocol_error("tool", &error))?;
                let frames = shown.iter().filter_map(|(image, _)| image.origin).collect();
                let parts = render::clip_response(template, turn + 1, (start, end), &self.described, video);
                (parts, ToolOutcome::Frames { frames })
            }
            Looked::Failed(reason) => {
                self.messages.push(said);
                (failed(&reason), ToolOutcome::CropFailed { reason })
            }
            Looked::Malformed(reason) => (failed(&reason), ToolOutcome::Malformed { reason }),
        };
        let parts = parts.map_err(|error| protocol_error("tool", &error))?;
        self.messages.push(message(own.result_role.into(), parts));
        self.note_tool_call((turn, 0), call, outcome);
        Ok(true)
    }
}
