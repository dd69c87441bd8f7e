//! Several videos in one conversation, one in the first message and one for each call: data of a protocol.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::harness::is_default;
use super::{SizeRule, Template};

/// Rules of a conversation with a video for each call. `size` of the frames is a rule of `fetch_video`
/// ([`SizeRule::Qwen`](super::SizeRule::Qwen)), and they are sent as a video.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clips {
    /// Frames per second at which the frames of each video follow on each other to the model, from 0 on, wherever they
    /// are.
    pub fps: f64,
    /// Frames of a call have their own positions in the place of those at `fps`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub own_positions: bool,
    /// Quality of the JPEG files, of the size in the video, in which the frames of the first message are kept. They are
    /// read from there within the bounds of one frame, in multiples of two tokens, by Pillow's bicubic filter, before they
    /// are sized as a video.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<u8>,
    /// Fewest pixels of a frame of the first message in single splits; elsewhere, and in calls, those of `size`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub least: BTreeMap<String, u64>,
    /// Size of a frame of the first message in single splits, where more than the fewest pixels differs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<String, SizeRule>,
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

impl Clips {
    /// Whether a reply of the last turn has an answer.
    pub fn is_answered(&self, reply: &str) -> bool {
        self.marks.iter().all(|mark| reply.contains(mark))
    }
}
