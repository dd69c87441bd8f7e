//! Turns of a harness that writes text, calls and results as messages of their own (lmms-eval's `async_openai`).

use super::own::Looked;
use super::{Session, protocol_error};
use crate::backend::Completion;
use crate::message::{Message, Part, Role};
use crate::protocol::{AgentLoop, FramePolicy, History};
use crate::record::{SampleError, ToolOutcome};
use crate::reference::Call;
use crate::span::TimeSpan;

impl Session<'_> {
    /// As [`run_own`](Self::run_own), each call answered by itself; false where one cannot be read.
    pub(super) async fn run_apart(
        &mut self,
        own: &AgentLoop,
        policy: &FramePolicy,
        turn: usize,
        calls: &[Call],
        reply: &Completion,
    ) -> Result<bool, SampleError> {
        let looks = self.agent.looks()?;
        let mut results = Vec::new();
        for (index, call) in calls.iter().enumerate() {
            let looked = self.look_own(policy, looks, call).await?;
            let window = *call.window.as_ref().unwrap_or(&TimeSpan::new(f64::NAN, f64::NAN));
            let (frames, outcome) = match looked {
                Looked::Frames(frames) => {
                    let origins = frames.iter().filter_map(|(image, _)| image.origin).collect();
                    (frames, ToolOutcome::Frames { frames: origins })
                }
                Looked::Failed(reason) => (Vec::new(), ToolOutcome::CropFailed { reason }),
                Looked::Text(text) => (Vec::new(), ToolOutcome::Text { text }),
                Looked::Malformed(reason) => {
                    self.note_tool_call((turn, index), call, ToolOutcome::Malformed { reason });
                    return Ok(false);
                }
            };
            let broken = |error| protocol_error("tool", &error);
            let parts = match (&outcome, self.failure(window, &outcome)) {
                (ToolOutcome::Text { text }, _) => vec![Part::Text(text.clone())],
                (_, Some(text)) => vec![Part::Text(text.map_err(broken)?)],
                (_, None) => self.as_parts(policy, &frames).map_err(broken)?,
            };
            let mut result = Message::parts(own.result_role.into(), parts);
            result.tool_call_id = reply.tool_calls.get(index).map(|call| call.id.clone());
            results.push(result);
            self.note_tool_call((turn, index), call, outcome);
        }
        self.messages.push(Message::text(Role::Assistant, reply.text.as_str()));
        self.messages.push(Message::calls("", reply.tool_calls.clone()));
        match own.harness.history {
            History::Kept => self.messages.extend(results),
            History::Once => self.passing = results,
        }
        Ok(true)
    }
}
