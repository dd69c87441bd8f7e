//! Frames as an agent with a loop of its own shows them: which, in which size, in which form.

use serde::{Deserialize, Serialize};

use super::harness::is_default;
pub use crate::media::resample::Resampler as Filter;
use crate::media::{VideoFacts, VideoRequest};

/// Which frames are shown, and how they are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FramePolicy {
    /// Frames of the first turn; none where it has only text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overview: Option<Overview>,
    /// Maximum of visual tokens of one call, by the agent's own estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    pub size: SizeRule,
    pub filter: Filter,
    /// Form in which a frame is sent.
    pub encoding: Encoding,
    /// What the frames of a message are to the model.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sent_as: SentAs,
    /// The model's processor leaves the frames of a video in their size.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keep_size: bool,
    /// What is another for long videos.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long: Option<LongVideos>,
}

/// Frames of videos beyond a length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongVideos {
    /// Length in seconds that is not long yet: frames by their average rate.
    pub seconds: f64,
    /// Frames of the first turn, in the place of those of the overview.
    pub frames: usize,
    /// Size of a frame.
    pub size: SizeRule,
}

impl FramePolicy {
    /// Single images of a size, by calls alone.
    pub fn new(size: SizeRule, filter: Filter, encoding: Encoding) -> Self {
        Self {
            overview: None,
            budget: None,
            size,
            filter,
            encoding,
            sent_as: SentAs::Images,
            keep_size: false,
            long: None,
        }
    }

    /// The policy for a video, by its length.
    pub fn of(&self, video: &VideoFacts) -> Self {
        match self.long {
            Some(long) if video.frames as f64 / video.rate > long.seconds => Self {
                overview: self.overview.map(|overview| Overview { frames: long.frames, ..overview }),
                size: long.size,
                long: None,
                ..*self
            },
            _ => *self,
        }
    }
}

/// What frames are to the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SentAs {
    #[default]
    Images,
    /// One video with the positions of its frames, which have no labels.
    Video,
}

/// Frames over the whole video.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overview {
    /// Number of frames; a maximum where `fps` is given.
    pub frames: usize,
    /// Frames per second, as far as `frames` and `at_least` allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fps: Option<f64>,
    /// Fewest frames where `fps` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<usize>,
}

/// Maximum of a call: beyond it frames are first reduced to a shorter side, then number and size together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Visual tokens.
    pub tokens: u32,
    /// Pixels of the shorter side to which frames are reduced first.
    pub side: u32,
}

/// Size of a frame, from its size in the video.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SizeRule {
    /// The longer side reduced to this many pixels, the other rounded down.
    LongSide(u32),
    /// Reduced to fit into this width and height, the sides rounded down.
    Within(u32, u32),
    /// At most `max` pixels and then at least `min`, sides rounded down.
    Pixels {
        /// Fewest pixels of a frame that is reduced.
        min: u32,
        /// Most pixels.
        max: u32,
    },
    /// Sides multiplied by the call's scale and rounded (half to even) to multiples of this many pixels.
    Multiple(u32),
    /// Multiples of `side` within bounds that depend on the number of frames (`fetch_video` of qwen-vl-utils).
    Qwen {
        /// Pixels along a side of a visual token: 28 of Qwen2.5-VL, 32 of Qwen3-VL.
        #[serde(default = "qwen25_side", skip_serializing_if = "is_qwen25_side")]
        side: u32,
        /// Fewest pixels of a frame.
        min: u64,
        /// Most pixels of a frame.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<u64>,
        /// Most pixels of half the frames: two of them are one step of the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<u32>,
    },
}

impl SizeRule {
    /// Width and height of each of `count` frames that have `size` in the video; `scale` is the call's own factor, 1
    /// without one.
    ///
    /// # Errors
    /// A side comes to nothing, or the sides are too unequal.
    pub fn apply(self, size: (u32, u32), scale: f64, count: usize) -> Result<(u32, u32), String> {
        let (width, height) = (f64::from(size.0), f64::from(size.1));
        let found = match self {
            Self::LongSide(side) if size.0.max(size.1) > side => {
                let side_length = f64::from(side);
                if size.0 > size.1 {
                    (side, (height * (side_length / width)) as u32)
                } else {
                    ((width * (side_length / height)) as u32, side)
                }
            }
            Self::Within(wide, high) if size.0 > wide || size.1 > high => {
                let factor = (f64::from(wide) / width).min(f64::from(high) / height);
                ((width * factor) as u32, (height * factor) as u32)
            }
            Self::Pixels { min, max } if width * height > f64::from(max) => within(size, min, max),
            Self::Multiple(unit) => {
                let side = |side: f64| {
                    let units = (side * scale / f64::from(unit)).round_ties_even();
                    ((units * f64::from(unit)) as u32).max(1)
                };
                (side(width), side(height))
            }
            Self::Qwen { side, min, max, total } => {
                let request = VideoRequest {
                    image_patch_size: side / MERGED_PATCHES,
                    min_pixels: Some(min),
                    max_pixels: max,
                    total_pixels: total.map(f64::from),
                    ..VideoRequest::at_default_rate()
                };
                request.frame_size(count, size.0, size.1)?
            }
            Self::LongSide(_) | Self::Within(..) | Self::Pixels { .. } => size,
        };
        match found {
            (0, _) | (_, 0) => Err(format!("{} by {} pixels come to {found:?}", size.0, size.1)),
            _ => Ok(found),
        }
    }
}

/// Patches along a side of a visual token.
const MERGED_PATCHES: u32 = 2;

fn qwen25_side() -> u32 {
    28
}

fn is_qwen25_side(side: &u32) -> bool {
    *side == qwen25_side()
}

/// Sides of at most `max` pixels and then at least `min`.
fn within((width, height): (u32, u32), min: u32, max: u32) -> (u32, u32) {
    let scaled = |(width, height): (f64, f64), pixels: u32| {
        let factor = (f64::from(pixels) / (width * height)).sqrt();
        ((width * factor).trunc(), (height * factor).trunc())
    };
    let reduced = scaled((f64::from(width), f64::from(height)), max);
    let pixels = reduced.0 * reduced.1;
    let (width, height) =
        if pixels > 0.0 && pixels < f64::from(min) { scaled(reduced, min) } else { reduced };
    (width as u32, height as u32)
}

/// Form in which a frame is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// JPEG of this quality, chroma halved.
    Jpeg(u8),
    /// PNG: the pixels themselves.
    Png,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes of the authors' own code: Conan's `save_video_frames`, FrameThinker's
    /// `scale_down_preserving_aspect_ratio`, VideoZoomer's `extract_video_clip`, EVA's
    /// `_resize_with_opencv`.
    #[test]
    fn sizes_are_those_of_the_authors_code() {
        let size = |rule: SizeRule, size, scale| rule.apply(size, scale, 1).ok();
        let long = SizeRule::LongSide(448);
        assert_eq!(size(long, (1920, 1080), 1.0), Some((448, 252)));
        assert_eq!(size(long, (1080, 1920), 1.0), Some((252, 448)));
        assert_eq!(size(long, (640, 360), 1.0), Some((448, 251)), "0.7 times 360 is below 252 in floats");
        assert_eq!(size(long, (448, 300), 1.0), Some((448, 300)));
        assert_eq!(size(long, (4096, 2), 1.0), None);
        let fitted = SizeRule::Within(640, 360);
        assert_eq!(size(fitted, (1920, 1080), 1.0), Some((640, 360)));
        assert_eq!(size(fitted, (100, 1000), 1.0), Some((36, 360)));
        assert_eq!(size(fitted, (320, 240), 1.0), Some((320, 240)));
        let pixels = SizeRule::Pixels { min: 25_088, max: 100_352 };
        assert_eq!(size(pixels, (1920, 1080), 1.0), Some((422, 237)));
        assert_eq!(size(pixels, (320, 240), 1.0), Some((320, 240)));
        assert_eq!(size(pixels, (200_000, 1), 1.0), None);
        let multiple = SizeRule::Multiple(28);
        assert_eq!(size(multiple, (1280, 720), 0.539_208_459_943_980_9), Some((700, 392)));
        assert_eq!(size(multiple, (20, 10), 0.1), Some((1, 1)));
        let total = SizeRule::Qwen { side: 28, min: 16 * 784, max: None, total: Some(3584 * 784) };
        assert_eq!(total.apply((1280, 720), 1.0, 60), Ok((392, 224)), "93,653 pixels a frame");
        assert_eq!(total.apply((1280, 720), 1.0, 768), Ok((140, 84)), "never below 1.05 times the minimum");
        let each = SizeRule::Qwen { side: 28, min: 784, max: Some(50_176), total: None };
        assert_eq!(each.apply((1280, 720), 1.0, 4), Ok((280, 168)));
        let wide =
            SizeRule::Qwen { side: 32, min: 20 * 1024, max: Some(768 * 1024), total: Some(6144 * 1024) };
        assert_eq!(wide.apply((1280, 720), 1.0, 4), Ok((1152, 640)), "at most 768 tokens of 32 by 32 pixels");
        assert_eq!(wide.apply((1280, 720), 1.0, 60), Ok((608, 320)));
    }

    #[test]
    fn the_side_of_a_token_is_written_where_it_is_not_28() {
        let rule = |side| SizeRule::Qwen { side, min: 784, max: None, total: None };
        let written = |side| serde_json::to_value(rule(side)).unwrap();
        assert_eq!(written(28), serde_json::json!({"qwen": {"min": 784}}));
        assert_eq!(written(32), serde_json::json!({"qwen": {"side": 32, "min": 784}}));
        assert_eq!(serde_json::from_value::<SizeRule>(written(28)).unwrap(), rule(28));
    }
}
