//! Hours of evaluations, from the operations of a model and the bytes that it reads.

use std::fmt;
use std::iter::Sum;
use std::ops::Add;

use paravt_suite::media::VideoRequest;
use paravt_suite::plan::Channel;
use paravt_suite::task::Task as _;

use super::{Card, Placement, Shape};
use crate::host::Evaluation;

/// Shares of a card's operations that long prompts reach.
const PREFILL: [f64; 2] = [0.55, 0.25];
/// Shares of the bytes a second that replies reach.
const DECODE: [f64; 2] = [0.75, 0.35];
/// Samples in flight of a server, as in the release's driver.
const IN_FLIGHT: f64 = 4.0;
/// Tokens of the texts of a prompt.
const TEXT: f64 = 700.0;
/// Tokens of a reply without a tool, and of all replies of a sample with one.
const REPLIES: [[f64; 2]; 2] = [[10.0, 400.0], [150.0, 1500.0]];
/// Visual tokens of a window of sixteen small frames.
const OF_WINDOW: f64 = 16.0 * 64.0;
/// Sizes of videos of which most are none smaller, and none larger.
const SIZES: [(u32, u32); 2] = [(640, 360), (1920, 1080)];

/// Hours, fewest and most.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Hours {
    least: f64,
    most: f64,
}

impl Hours {
    /// Hours of an evaluation on servers of a card; `None` of a split that is not known.
    pub(super) fn of(asked: &Evaluation, shape: &Shape, card: &Card, placed: &Placement) -> Option<Self> {
        let tasks = paravt_tasks::select(&asked.splits).ok()?;
        let limit = asked.limit.unwrap_or(usize::MAX);
        let samples: usize = tasks.iter().map(|task| task.spec().expected_rows.min(limit)).sum();
        let [least, most] = [0, 1].map(|end| {
            samples as f64 * seconds_of_sample(asked, shape, card, placed.cards, end)
                / placed.servers as f64
                / 3600.0
        });
        Some(Self { least, most })
    }
}

/// Seconds of a server for a sample, at the lower or the upper end.
fn seconds_of_sample(asked: &Evaluation, shape: &Shape, card: &Card, cards: usize, end: usize) -> f64 {
    let config = &asked.config;
    let is_direct = config.mode.as_ref().is_some_and(|mode| mode.as_str() == "direct");
    let has_tool = asked.protocol.is_some() || config.max_turns() > 1 && !is_direct;
    let nframes = config.nframes();
    let (width, height) = SIZES[end];
    let size = VideoRequest::overview(nframes).frame_size(nframes, width, height);
    let (width, height) = size.unwrap_or((width, height));
    let side = f64::from(2 * shape.vision.patch);
    let of_frame = f64::from(width) * f64::from(height) / (side * side);
    // Two frames of a video share their tokens.
    let images = if config.channel() == Channel::Image { nframes } else { nframes.div_ceil(2) };
    let windows = [1, config.max_turns() * config.max_parallel().max(1)][end];
    let windows = if has_tool { windows as f64 * OF_WINDOW } else { 0.0 };
    let visual = images as f64 * of_frame + windows;
    // What a turn repeats is in the cache of the server.
    let prompt = visual + TEXT;
    let attention = 2.0 * shape.attention_width() * prompt * prompt;
    let operations = 2.0 * prompt * shape.text_weights() + attention + 8.0 * visual * shape.vision_weights();
    let prefill = operations / (card.tflops * 1e12 * cards as f64 * PREFILL[end]);
    let bytes = shape.weights_gb * 1e9 + IN_FLIGHT * prompt * shape.cache_bytes();
    let step = bytes / (card.tb_per_s * 1e12 * cards as f64 * DECODE[end]);
    prefill + REPLIES[usize::from(has_tool)][end] * step / IN_FLIGHT
}

impl Add for Hours {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { least: self.least + other.least, most: self.most + other.most }
    }
}

impl Sum for Hours {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let precision = |hours: f64| usize::from(hours < 10.0);
        write!(f, "{:.*} to {:.*} h", precision(self.least), self.least, precision(self.most), self.most)
    }
}
