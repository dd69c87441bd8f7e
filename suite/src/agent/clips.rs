//! Turns of an agent that is shown a video for each call, and asked for an answer in the last one.

use super::own::{Looked, message};
use super::{Session, protocol_error};
use crate::backend::Completion;
use crate::media::{VideoFacts, smart_resize};
use crate::message::{Message, Part, Role};
use crate::protocol::{AgentLoop, Clips, FramePolicy, SizeRule, Stored, render};
use crate::record::{SampleError, ToolOutcome};
use crate::reference::{Call, Look};
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
            Looked::Text(text) => (Ok(vec![Part::Text(text.clone())]), ToolOutcome::Text { text }),
        };
        let parts = parts.map_err(|error| protocol_error("tool", &error))?;
        self.messages.push(message(own.result_role.into(), parts));
        self.note_tool_call((turn, 0), call, outcome);
        Ok(true)
    }

    /// Sizes of the frames of a look, of the first message or of a call.
    pub(super) fn sizes(
        &self,
        policy: &FramePolicy,
        video: &VideoFacts,
        look: &Look,
        is_first: bool,
    ) -> Result<Sizes, String> {
        let (whole, count, rule) = ((video.width, video.height), look.indices.len(), policy.size);
        match self.agent.protocol.agent.as_ref().and_then(|own| own.clips.as_ref()) {
            Some(clips) if is_first => first_sizes(clips, &self.sample.task, rule, whole, count),
            Some(_) => call_sizes(rule, look.total, whole, count),
            None => Ok((rule.apply(whole, look.scale, count)?, None)),
        }
    }
}

/// Sides of a frame that is read from its file are multiples of this: `fetch_video` hands `fetch_image` the side of a
/// token for that of a patch, which is then doubled.
const READ_SIDE: u32 = 56;
/// Tokens of such a frame at most, where the rule has no bound.
const MOST_TOKENS: u64 = 16_384;

/// Sizes of frames: as they are sent, and in between.
pub(super) type Sizes = ((u32, u32), Option<Stored>);

/// Sizes of `count` frames of the first message that have `size` in the video.
fn first_sizes(
    clips: &Clips,
    split: &str,
    rule: SizeRule,
    size: (u32, u32),
    count: usize,
) -> Result<Sizes, String> {
    let rule = match (rule, clips.least.get(split)) {
        (SizeRule::Qwen { max, total, .. }, Some(&min)) => SizeRule::Qwen { min, max, total },
        _ => rule,
    };
    let Some(quality) = clips.stored else { return Ok((rule.apply(size, 1.0, count)?, None)) };
    let read = match rule {
        SizeRule::Qwen { min, max, .. } => {
            let max = max.unwrap_or(MOST_TOKENS * u64::from(READ_SIDE * READ_SIDE));
            smart_resize(size.0, size.1, READ_SIDE, min as f64, max as f64)?
        }
        _ => size,
    };
    Ok((rule.apply(read, 1.0, count)?, Some(Stored { quality, size: read })))
}

/// Sizes of `count` frames of a call, `total` in the place of that of the rule.
fn call_sizes(rule: SizeRule, total: Option<u32>, size: (u32, u32), count: usize) -> Result<Sizes, String> {
    let rule = match rule {
        SizeRule::Qwen { min, max, .. } if total.is_some() => SizeRule::Qwen { min, max, total },
        rule => rule,
    };
    Ok((rule.apply(size, 1.0, count)?, None))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::protocol::Template;

    /// Sizes of `fetch_video` (ZZQ987/Video-o3-Qwen3VL a6e0973, `Eval/vlmeval/vlm/video_o3/vision_process.py`).
    #[test]
    fn frames_are_read_in_the_bounds_of_one_and_sized_in_those_of_all() {
        let clips = Clips {
            fps: 2.0,
            stored: Some(75),
            least: BTreeMap::from([("lvbench".to_owned(), 128 * 784)]),
            totals: BTreeMap::new(),
            marks: Vec::new(),
            last_response: Template::default(),
            last_error: Template::default(),
            chat_template: String::new(),
        };
        let rule = SizeRule::Qwen { min: 20 * 784, max: Some(768 * 784), total: Some(16_384 * 784) };
        let stored = Some(Stored { quality: 75, size: (1008, 560) });
        let first = |split: &str| first_sizes(&clips, split, rule, (1280, 720), 768);
        assert_eq!(first("videomme"), Ok(((224, 112), stored)));
        assert_eq!(first("lvbench"), Ok(((420, 224), stored)));
        let odd = first_sizes(&clips, "videomme", rule, (642, 362), 306);
        assert_eq!(odd, Ok(((392, 196), Some(Stored { quality: 75, size: (616, 336) }))), "multiples of 56");
        assert_eq!(call_sizes(rule, Some(2048 * 784), (1280, 720), 20), Ok(((532, 280), None)));
    }
}
