//! How many tokens a prompt has, about, before a model reads it: what `--dry-run` forecasts, and what the count of a
//! server is compared with. Images and frames are counted by the rule of Qwen3-VL.

use crate::backend::Request;
use crate::message::{Content, Message, Part};

/// Pixels along one side that become one visual token (patch 16, merged 2 by 2).
const TOKEN_SIDE: f64 = 32.0;
/// English text averages about this many bytes a token.
const BYTES_PER_TOKEN: u64 = 4;
/// Most visual tokens of one video (`longest_edge` of Qwen/Qwen3-VL-8B-Instruct, over two frames).
const MOST_OF_A_VIDEO: u64 = 12_288;

/// About the tokens of one prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PromptTokens {
    pub text: u64,
    /// Visual tokens. Of a video that the server samples, whose frames have a size of the server's, one a pair of frames.
    pub visual: u64,
    /// Images, those of videos not counted.
    pub images: u64,
}

impl PromptTokens {
    /// The tokens of a request.
    pub fn of(request: &Request) -> Self {
        let tools = request.tools.iter().flat_map(|tools| tools.iter()).map(|tool| tool.to_string().len());
        let mut found = Self::default();
        let mut bytes = tools.sum::<usize>();
        for message in &request.messages {
            bytes += message.tool_calls.iter().map(|call| call.arguments.len()).sum::<usize>();
            bytes += found.add(message);
        }
        Self { text: of_text(bytes as u64), ..found }
    }

    /// Both kinds together.
    pub fn total(&self) -> u64 {
        self.text + self.visual
    }

    /// Adds what a message shows and answers with the bytes of its texts.
    fn add(&mut self, message: &Message) -> usize {
        let parts = match &message.content {
            Content::Text(text) => return text.len(),
            Content::Parts(parts) => parts,
        };
        let mut bytes = 0;
        for part in parts {
            match part {
                Part::Text(text) => bytes += text.len(),
                Part::Image(image) => {
                    self.images += 1;
                    self.visual += of_image(image.width, image.height);
                }
                Part::Frames(frames) => {
                    let size = frames.images.first().map_or((0, 0), |image| (image.width, image.height));
                    self.visual += of_frames(frames.images.len(), size);
                }
                Part::Video(video) => self.visual += video.nframes.unwrap_or(0).div_ceil(2) as u64,
            }
        }
        bytes
    }
}

/// About the tokens of a text of this many bytes.
pub(crate) fn of_text(bytes: u64) -> u64 {
    bytes / BYTES_PER_TOKEN
}

/// Visual tokens of one image.
pub(crate) fn of_image(width: u32, height: u32) -> u64 {
    along(width) * along(height)
}

/// Visual tokens of frames that go out as one video: two frames share theirs.
pub fn of_frames(count: usize, (width, height): (u32, u32)) -> u64 {
    (count.div_ceil(2) as u64 * of_image(width, height)).min(MOST_OF_A_VIDEO)
}

/// Tokens along a side. Python rounds half a token to the even number.
fn along(side: u32) -> u64 {
    (f64::from(side) / TOKEN_SIDE).round_ties_even() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_token_is_rounded_to_the_even_number() {
        // `round(side / 32)` of Python.
        assert_eq!([304, 336, 480, 560, 640, 720].map(along), [10, 10, 15, 18, 20, 22]);
    }

    #[test]
    fn frames_of_a_video_share_their_tokens_in_pairs() {
        assert_eq!((of_image(616, 364), of_frames(7, (616, 364))), (19 * 11, 4 * 19 * 11));
        assert_eq!(of_frames(768, (1920, 1080)), MOST_OF_A_VIDEO);
    }
}
