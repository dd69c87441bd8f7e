//! Hours of evaluations, from the operations of a model and the bytes that it reads.

use std::fmt;
use std::ops::Add;

use paravt_suite::media::VideoRequest;
use paravt_suite::plan::Channel;
use paravt_suite::protocol::{AgentLoop, FramePolicy, Protocol, SentAs};
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
/// Calls of a sample whose model writes code, at most as a rule.
const CODE_CALLS: usize = 8;
/// Sizes of videos of which most are none smaller, and none larger.
const SIZES: [(u32, u32); 2] = [(640, 360), (1920, 1080)];

/// Seconds of videos of which most are none shorter.
const SHORT: f64 = 60.0;

/// A release's protocol that was not imported.
pub(super) struct Unknown(pub String);

/// What a sample of an evaluation shows the model.
pub(super) struct Shown {
    /// Pixels of its images or, of a video, of one of each pair of frames: fewest and most.
    visual: [f64; 2],
    /// They are one video.
    is_video: bool,
    has_tool: bool,
    windows: usize,
}

impl Shown {
    /// Of an agent's own protocol what its policy says, else what the run does.
    pub(super) fn of(
        asked: &Evaluation,
        imported: &dyn Fn(&str) -> Option<Protocol>,
    ) -> Result<Self, Unknown> {
        let config = &asked.config;
        // ParaVT's modes with another agent's text (`paravt+longvt`) show the frames of the run.
        let is_release = |name: &&str| paravt_agents::releases().any(|release| release.name == *name);
        let own = asked.protocol.as_deref().filter(is_release);
        let own = own.map(|name| imported(name).ok_or_else(|| Unknown(name.to_owned())));
        let own = own.transpose()?;
        if let Some((_, code)) = own.as_ref().and_then(Protocol::code) {
            // Figures of its calls, each smaller than a window.
            let shown = code.rules.clues.as_ref().and_then(|clues| clues.shown).unwrap_or_default();
            return Ok(Self {
                visual: shown.map(f64::from),
                is_video: false,
                has_tool: true,
                windows: CODE_CALLS,
            });
        }
        if let Some(protocol) = own
            && let Some(frames) = protocol.agent.as_ref().and_then(AgentLoop::frames)
        {
            let visual = [0, 1].map(|end| overview(&frames.policy, end));
            let calls = frames.turns - 1;
            let is_video = frames.policy.sent_as == SentAs::Video;
            return Ok(Self { visual, is_video, has_tool: calls > 0, windows: calls });
        }
        let is_direct = config.mode.as_ref().is_some_and(|mode| mode.as_str() == "direct");
        let has_tool = config.max_turns() > 1 && !is_direct;
        let nframes = config.nframes();
        // Two frames of a video share their tokens.
        let images = if config.channel() == Channel::Image { nframes } else { nframes.div_ceil(2) };
        let visual = SIZES.map(|(width, height)| {
            let size = VideoRequest::overview(nframes).frame_size(nframes, width, height);
            let (width, height) = size.unwrap_or((width, height));
            images as f64 * f64::from(width) * f64::from(height)
        });
        let is_video = config.channel() == Channel::FramesVideo;
        Ok(Self { visual, is_video, has_tool, windows: config.max_turns() * config.max_parallel().max(1) })
    }

    /// Visual tokens of the longest video; 0 where none is shown as one.
    pub(super) fn longest_video(&self, shape: &Shape) -> u64 {
        if self.is_video { self.tokens(shape)[1] as u64 } else { 0 }
    }

    /// Visual tokens, fewest and most.
    fn tokens(&self, shape: &Shape) -> [f64; 2] {
        let side = f64::from(2 * shape.vision.patch);
        self.visual.map(|pixels| pixels / (side * side))
    }
}

/// Pixels of the frames of an agent's first turn, those of a pair once.
fn overview(policy: &FramePolicy, end: usize) -> f64 {
    let Some(overview) = policy.overview else { return 0.0 };
    let at_rate = overview.fps.map_or(overview.frames, |fps| (fps * SHORT) as usize);
    let frames = [at_rate.clamp(1, overview.frames), overview.frames][end];
    let size = policy.size.apply(SIZES[end], 1.0, frames).unwrap_or(SIZES[end]);
    let images = if policy.sent_as == SentAs::Video { frames.div_ceil(2) } else { frames };
    images as f64 * f64::from(size.0) * f64::from(size.1)
}

/// Hours, fewest and most.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Hours {
    least: f64,
    most: f64,
}

impl Hours {
    /// Hours of an evaluation on servers of a card; `None` of a split that is not known.
    pub(super) fn of(
        asked: &Evaluation,
        shown: &Shown,
        shape: &Shape,
        card: &Card,
        placed: &Placement,
    ) -> Option<Self> {
        let tasks = paravt_tasks::select(&asked.splits).ok()?;
        let limit = asked.limit.unwrap_or(usize::MAX);
        let samples: usize = tasks.iter().map(|task| task.spec().expected_rows.min(limit)).sum();
        let [least, most] = [0, 1].map(|end| {
            samples as f64 * seconds_of_sample(shown, shape, card, (placed.cards, IN_FLIGHT), end)
                / placed.servers as f64
                / 3600.0
        });
        Some(Self { least, most })
    }
}

/// Seconds of a server per sample, by its number of cards and the samples in flight; at the lower or the upper end.
fn seconds_of_sample(
    shown: &Shown,
    shape: &Shape,
    card: &Card,
    (cards, in_flight): (usize, f64),
    end: usize,
) -> f64 {
    let windows = if shown.has_tool { [1, shown.windows][end] as f64 * OF_WINDOW } else { 0.0 };
    let visual = shown.tokens(shape)[end] + windows;
    // What a turn repeats is in the cache of the server.
    let prompt = visual + TEXT;
    let attention = 2.0 * shape.attention_width() * prompt * prompt;
    let operations = 2.0 * prompt * shape.text_weights() + attention + 8.0 * visual * shape.vision_weights();
    let prefill = operations / (card.tflops * 1e12 * cards as f64 * PREFILL[end]);
    let bytes = shape.weights_gb * 1e9 + in_flight * prompt * shape.cache_bytes();
    let step = bytes / (card.tb_per_s * 1e12 * cards as f64 * DECODE[end]);
    prefill + REPLIES[usize::from(shown.has_tool)][end] * step / in_flight
}

impl Add for Hours {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { least: self.least + other.least, most: self.most + other.most }
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let precision = |hours: f64| usize::from(hours < 10.0);
        write!(f, "{:.*} to {:.*} h", precision(self.least), self.least, precision(self.most), self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::Cards;

    /// The only timing of the release: about 250 s for a step of its PARA-GRPO on eight GPUs (ParaVT cf55249: 7 prompts of 8
    /// rollouts, up to 64 in flight on one GPU, up to 64 frames of 784 to 50,176 pixels; on the other seven two passes for
    /// log-probabilities, and one with gradients and recomputed activations, which is four). It lies between the ends
    /// that the rates of an evaluation's hours give, which leave out decoding and waiting.
    #[test]
    fn the_published_step_lies_within_the_rates_of_evaluations() {
        let shape = Shape::listed("ParaVT/ParaVT-8B").unwrap();
        let card = "8xH100".parse::<Cards>().unwrap().card;
        let pairs = 32.0;
        let visual = [pairs * 784.0, pairs * 50_176.0];
        let shown = Shown { visual, is_video: true, has_tool: true, windows: 15 };
        let rollouts = 56.0;
        let [least, most] = [0, 1].map(|end| {
            let written = REPLIES[1][end];
            let generated = rollouts * seconds_of_sample(&shown, &shape, &card, (1, rollouts), end);
            let tokens = shown.tokens(&shape)[end] + TEXT + written;
            let passes = 6.0 * 2.0 * rollouts * tokens * shape.text_weights();
            generated + passes / (card.tflops * 1e12 * 7.0 * PREFILL[end])
        });
        assert!(least < 250.0 && 250.0 < most);
        assert_eq!([least.round(), most.round()], [6.0, 310.0]);
    }
}
