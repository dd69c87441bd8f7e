//! Several videos in one conversation, one in the first message and one for each call: data of a protocol.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{SizeRule, Template};

/// Rules of a conversation with a video for each call. `size` of the frames is a rule of `fetch_video`
/// ([`SizeRule::Qwen`]), and they are sent as a video.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clips {
    /// Frames per second at which the frames of each video follow on each other to the model, from 0 on, wherever they
    /// are.
    pub fps: f64,
    /// Quality of the JPEG files, of the size in the video, in which the frames of the first message are kept. They are
    /// read from there within the bounds of one frame, by Pillow's bicubic filter, before they are sized as a video.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<u8>,
    /// Fewest pixels of a frame of the first message in single splits; elsewhere, and in calls, those of `size`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub least: BTreeMap<String, u64>,
    /// Most pixels of half the frames of a call, in the place of `total` of `size`, by the name of its sampling.
    pub totals: BTreeMap<String, u32>,
    /// Texts without one of which the reply of the last turn has no answer for the agent's own extraction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<String>,
    /// In the place of `crop_response` in the result that the last turn answers.
    pub last_response: Template,
    /// In the place of `crop_error` and `call_error` there.
    pub last_error: Template,
    /// Chat template of the requests, in the place of the model's own.
    pub chat_template: String,
}

/// Form of frames between the video and their size there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Quality of a JPEG file of the size in the video.
    pub quality: u8,
    /// Width and height in which that is read.
    pub size: (u32, u32),
}

/// Sizes of frames: as they are sent, and in between.
pub(crate) type Sizes = ((u32, u32), Option<Stored>);

impl Clips {
    /// Whether a reply of the last turn has an answer.
    pub fn is_answered(&self, reply: &str) -> bool {
        self.marks.iter().all(|mark| reply.contains(mark))
    }

    /// Sizes of `count` frames of the first message that have `size` in the video.
    ///
    /// # Errors
    /// As [`SizeRule::apply`].
    pub fn overview(
        &self,
        split: &str,
        rule: SizeRule,
        size: (u32, u32),
        count: usize,
    ) -> Result<Sizes, String> {
        let rule = match (rule, self.least.get(split)) {
            (SizeRule::Qwen { max, total, .. }, Some(&min)) => SizeRule::Qwen { min, max, total },
            _ => rule,
        };
        let Some(quality) = self.stored else { return Ok((rule.apply(size, 1.0, count)?, None)) };
        let one = match rule {
            SizeRule::Qwen { min, max, .. } => SizeRule::Qwen { min, max, total: None },
            rule => rule,
        };
        // Two frames, one step of the model, have the bounds of one.
        let read = one.apply(size, 1.0, 2)?;
        Ok((rule.apply(read, 1.0, count)?, Some(Stored { quality, size: read })))
    }

    /// Size of `count` frames of a call.
    ///
    /// # Errors
    /// As [`SizeRule::apply`].
    pub fn call(
        &self,
        rule: SizeRule,
        total: Option<u32>,
        size: (u32, u32),
        count: usize,
    ) -> Result<Sizes, String> {
        let rule = match rule {
            SizeRule::Qwen { min, max, .. } if total.is_some() => SizeRule::Qwen { min, max, total },
            rule => rule,
        };
        Ok((rule.apply(size, 1.0, count)?, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(clips.overview("videomme", rule, (1280, 720), 768), Ok(((224, 112), stored)));
        assert_eq!(clips.overview("lvbench", rule, (1280, 720), 768), Ok(((420, 224), stored)));
        assert_eq!(clips.call(rule, Some(2048 * 784), (1280, 720), 20), Ok(((532, 280), None)));
    }
}
