//! What an agent with a loop of its own adds to a protocol: where frames and texts stand, how many turns there are,
//! which frames are shown in which size. Without it a protocol runs the loop of the first reference.
//!
//! What is arithmetic rather than a choice (how a call is written, which frames a window comes to) is a
//! [`Reference`](crate::reference::Reference) that [`Protocol::reference`](super::Protocol::reference) names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::harness::{Harness, is_default};
use super::{Clips, CodeRules, Stages, Template, Tries};
pub use crate::media::resample::Resampler as Filter;
use crate::media::{VideoFacts, VideoRequest};
use crate::sample::Sample;

/// An agent's own loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentLoop {
    /// How near the whole is to what the authors run.
    pub fidelity: Fidelity,
    /// Maximum of model calls of a sample; the calls in the last reply are not run.
    pub turns: usize,
    /// The first user message; slots `frames` (the overview), `question` (the split's question text), `stripped` (the
    /// same without blanks around it), `seconds` (length of the video, half a second less, at least 1, rounded down) and
    /// `side` (its shorter side in pixels); with [`clips`](Self::clips) also `fps` and `count` of the frames, `duration` (frames
    /// by their rate) and `file_duration` in seconds; with [`code`](Self::code) `question` and `video_info`.
    #[serde(default = "opening", skip_serializing_if = "is_opening")]
    pub opening: Template,
    /// The question in the results of later turns, by split, else by kind: slot `prompt` of `crop_response`. By
    /// default that of the first turn.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub round: BTreeMap<String, Template>,
    /// The same in the result that the last turn answers; by default [`round`](Self::round).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub last: BTreeMap<String, Template>,
    /// Stands behind the text of the result that the last turn answers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_turn: String,
    /// Role of the message with the results of a turn.
    #[serde(default, skip_serializing_if = "is_default")]
    pub result_role: ResultRole,
    /// What follows a turn whose calls all failed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failed_calls: FailedCalls,
    /// Stands before the label of every frame of a message but the first.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label_separator: String,
    /// Text that the agent's own extraction reads.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scored: Scored,
    /// A second generation for the answer alone, by split, else by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub continued: BTreeMap<String, Continued>,
    /// Conventions of the evaluation harness that the authors use.
    #[serde(default, skip_serializing_if = "is_default")]
    pub harness: Harness,
    /// Frames and their size; without it an overview as the run says, of one turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<FramePolicy>,
    /// A video for each call, in the place of frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clips: Option<Clips>,
    /// Fresh beginnings where an answer does not count.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tries: Tries,
    /// A tool that runs code of the model, in the place of frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<CodeRules>,
    /// Conversations of two messages each, in the place of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<Stages>,
    /// How tokens are drawn, where the run does not say otherwise.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sampling: Sampling,
}

/// How near a protocol is to what the authors of an agent run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Fidelity {
    /// Texts and rules are the authors'.
    Exact,
    /// The rules are the authors'; a text that they did not publish is in our words.
    WordingOurs,
    /// Something that can change an answer is another.
    Variant,
}

impl Fidelity {
    /// Name in files and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::WordingOurs => "wording-ours",
            Self::Variant => "variant",
        }
    }
}

/// Role of the message that carries results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultRole {
    /// `user`.
    #[default]
    User,
    /// `tool`, without the id of a call.
    Tool,
}

/// What follows a turn whose calls all failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedCalls {
    /// The model is answered with the first error (`call_error`, `crop_error`).
    #[default]
    Answer,
    /// The conversation ends; the reply is the answer.
    Stop,
}

/// Text that an extraction reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scored {
    /// The last reply.
    #[default]
    Last,
    /// All replies, a blank between two.
    All,
    /// All replies with their calls and results between them, as lmms-eval joins them.
    Joined,
    /// All replies and what the model was answered with, as they follow on each other.
    Conversation,
}

/// A second generation that continues a reply from where its answer begins: what stands behind the last `after` is
/// replaced by `opening`, which the model then goes on with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Continued {
    /// A reply without it stands as it is.
    pub after: String,
    /// Follows `after`.
    pub opening: String,
    /// Token limit of the second generation.
    pub max_tokens: u32,
}

impl Continued {
    /// The beginning of the reply that is continued.
    pub fn beginning(&self, reply: &str) -> Option<String> {
        let at = reply.rfind(&self.after)? + self.after.len();
        Some(format!("{}{}", &reply[..at], self.opening))
    }
}

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
    /// Size of a frame.
    pub size: SizeRule,
    /// Filter of the reduction.
    pub filter: Filter,
    /// Form in which a frame is sent.
    pub encoding: Encoding,
    /// What the frames of a message are to the model.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sent_as: SentAs,
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
    /// Single images.
    #[default]
    Images,
    /// One video with the positions of its frames, which have no labels.
    Video,
}

/// Frames over the whole video.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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
    /// Multiples of 28 pixels within bounds that depend on the number of frames (`fetch_video` of qwen-vl-utils).
    Qwen {
        /// Fewest pixels of a frame.
        min: u64,
        /// Most pixels of a frame.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<u64>,
        /// Most pixels of half the frames: two of them are one step of the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<u32>,
    },
    /// The size in the video.
    Whole,
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
            Self::Qwen { min, max, total } => {
                let request = VideoRequest {
                    min_pixels: Some(min),
                    max_pixels: max,
                    total_pixels: total.map(f64::from),
                    ..VideoRequest::at_default_rate()
                };
                request.frame_size(count, size.0, size.1)?
            }
            Self::LongSide(_) | Self::Within(..) | Self::Pixels { .. } | Self::Whole => size,
        };
        match found {
            (0, _) | (_, 0) => Err(format!("{} by {} pixels come to {found:?}", size.0, size.1)),
            _ => Ok(found),
        }
    }
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

/// How tokens are drawn.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    /// Sampling temperature; 0 is greedy.
    pub temperature: f64,
    /// Nucleus sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Tokens among which one is drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// Repetition penalty; without it a server takes that of the model's folder, as `generate` of transformers does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repetition_penalty: Option<f64>,
    /// Texts that end a generation and stay in the reply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
}

impl AgentLoop {
    /// A loop of so many turns; all else is as in a file that leaves it out.
    pub fn new(fidelity: Fidelity, turns: usize) -> Self {
        Self {
            fidelity,
            turns,
            opening: opening(),
            round: BTreeMap::new(),
            last: BTreeMap::new(),
            last_turn: String::new(),
            result_role: ResultRole::default(),
            failed_calls: FailedCalls::default(),
            label_separator: String::new(),
            scored: Scored::default(),
            continued: BTreeMap::new(),
            harness: Harness::default(),
            frames: None,
            clips: None,
            tries: Tries::default(),
            code: None,
            stages: None,
            sampling: Sampling::default(),
        }
    }

    /// Question texts of the result that turn `turn` (from 0) answers; empty where they are those of the first turn.
    pub fn later(&self, turn: usize) -> &BTreeMap<String, Template> {
        if self.is_last(turn) && !self.last.is_empty() { &self.last } else { &self.round }
    }

    /// The second generation of a sample's answer.
    pub fn continued(&self, sample: &Sample) -> Option<&Continued> {
        let kinds = sample.gold.kind().text_keys();
        let mut names = std::iter::once(sample.task.as_str()).chain(kinds.iter().copied());
        names.find_map(|name| self.continued.get(name))
    }

    /// Frames of the first turn, where the agent chooses them.
    pub fn overview(&self) -> Option<Overview> {
        self.frames.as_ref()?.overview
    }

    /// Whether no turn follows this one.
    pub fn is_last(&self, turn: usize) -> bool {
        turn + 1 >= self.turns
    }
}

fn opening() -> Template {
    Template::parse("{frames}{question}")
}

fn is_opening(template: &Template) -> bool {
    *template == opening()
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
        let total = SizeRule::Qwen { min: 16 * 784, max: None, total: Some(3584 * 784) };
        assert_eq!(total.apply((1280, 720), 1.0, 60), Ok((392, 224)), "93,653 pixels a frame");
        assert_eq!(total.apply((1280, 720), 1.0, 768), Ok((140, 84)), "never below 1.05 times the minimum");
        let each = SizeRule::Qwen { min: 784, max: Some(50_176), total: None };
        assert_eq!(each.apply((1280, 720), 1.0, 4), Ok((280, 168)));
    }

    #[test]
    fn a_loop_is_read_and_written_without_what_it_leaves_at_its_default() {
        let text = r#"{"fidelity":"exact","turns":3,"frames":{"overview":{"frames":16},
            "size":{"long_side":448},"filter":"lanczos","encoding":{"jpeg":75}},"sampling":{"temperature":1.0}}"#;
        let own: AgentLoop = serde_json::from_str(text).unwrap();
        assert_eq!(
            serde_json::to_value(&own).unwrap(),
            serde_json::from_str::<serde_json::Value>(text).unwrap()
        );
        assert!(own.is_last(2) && !own.is_last(1));
        assert!(serde_json::from_str::<AgentLoop>(&text.replace("turns", "turn")).is_err());
    }
}
