//! How samples are put to the model: what a recipe or a command line asks for, and a backend accepts.

use serde::{Deserialize, Serialize};

use crate::media::paired_frames;
use crate::probe::Probe;
use crate::profile::{Profile, Rules, Switches};
use crate::protocol::{Fidelity, PromptMode, Protocol, Shape};
use crate::settings::{RequestSettings, ToolDialect};

/// Settings that decide what is sent and scored. Two runs are comparable where these and the data agree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPlan {
    /// Profile, with the switches that it sets.
    #[serde(flatten)]
    pub rules: Rules,
    pub mode: PromptMode,
    pub channel: Channel,
    /// Overview frames on the image channel.
    pub nframes: usize,
    /// Tool turns before the forced answer, in modes with the tool.
    pub max_turns: usize,
    /// Maximum of calls that are run per turn; 0 runs all.
    pub max_parallel: usize,
    /// Result of a tool call.
    pub crop: CropMode,
    /// Token limit of a turn.
    pub max_tokens: u32,
    /// Sampling temperature; 0 is greedy.
    pub temperature: f64,
    /// Seed sent to the backend, if any.
    pub seed: Option<u64>,
    pub dialect: ToolDialect,
    /// Sampling and server settings of every request.
    pub request: RequestSettings,
    /// What the run takes away from its samples or frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
    /// Most kB (1,000 bytes) of a frame as it is sent; JPEG of a lower quality where it has more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_image_kb: Option<u32>,
    /// The videos of a request have positions of their own each.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_positions: bool,
    /// How often each sample is asked.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub repeat: usize,
}

impl RunPlan {
    /// Profile.
    pub fn profile(&self) -> Profile {
        self.rules.profile
    }

    /// Switches that the profile sets.
    pub fn switches(&self) -> &Switches {
        &self.rules.switches
    }

    /// Most bytes of a frame as it is sent.
    pub fn max_image_bytes(&self) -> Option<usize> {
        self.max_image_kb.map(|kb| kb as usize * 1000)
    }

    /// Whether every token is the most probable one. What a server does without a temperature is its own choice.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0 && self.request.name_of("temperature").is_some()
    }

    /// Sampling temperature, or that the server's own holds.
    pub fn temperature_text(&self) -> String {
        match self.request.name_of("temperature") {
            Some(_) => self.temperature.to_string(),
            None => "of the server".to_owned(),
        }
    }

    /// Whether the model is shown nothing of the video.
    pub fn is_blind(&self) -> bool {
        self.probe == Some(Probe::Blind)
    }

    /// Fidelity of a split's run to the authors' evaluation; `None` for a protocol without an agent's loop.
    pub fn fidelity(&self, protocol: &Protocol, split: &str) -> Option<Fidelity> {
        let agent_loop = protocol.agent.as_ref()?;
        let request = RequestSettings {
            sampling: agent_loop.sampling.params.clone(),
            chat_template_kwargs: self.request.chat_template_kwargs.clone(),
            header_env: self.request.header_env.clone(),
            ..RequestSettings::default()
        };
        let as_published = protocol.source.pinned
            && self.probe.is_none()
            && self.max_image_kb.is_none()
            && self.temperature == agent_loop.sampling.temperature
            && self.max_tokens == protocol.reply_tokens(split)
            && !agent_loop.harness.variants.contains(split)
            && self.request == request;
        Some(if as_published { agent_loop.fidelity } else { Fidelity::Variant })
    }

    /// Warnings about these settings, for before the run.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let repeated = (self.repeat > 1 && self.is_greedy()).then(|| {
            let times = self.repeat;
            format!(
                "--repeat {times} at temperature 0 asks the same {times} times: set --temperature above 0"
            )
        });
        repeated.into_iter()
    }

    /// Frames of the overview that are sampled here by [`nframes`](Self::nframes); `None` where a server samples them or
    /// the agent's own loop chooses them.
    pub fn overview_frames(&self, protocol: &Protocol) -> Option<usize> {
        let chosen = protocol.agent.as_ref().is_some_and(|agent_loop| agent_loop.shape != Shape::OneTurn);
        let sampled = self.channel.samples_here() && !protocol.is_about_images();
        (sampled && !chosen && !self.is_blind()).then(|| paired_frames(self.nframes))
    }

    /// Seed of a repetition.
    pub(crate) fn seed_of(&self, epoch: usize) -> Option<u64> {
        self.seed.map(|seed| seed.wrapping_add(epoch as u64))
    }
}

fn once() -> usize {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_once(repeat: &usize) -> bool {
    *repeat == 1
}

impl Channel {
    /// Whether frames are sampled here.
    pub fn samples_here(self) -> bool {
        self != Self::Video
    }
}

/// Channel of the overview of a video.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// Sample frames here and send them as JPEG images.
    Image,
    /// Send a file:// URL that the server can read; the server samples.
    Video,
    /// Sample frames here and send them as one video of JPEG frames with their positions (vLLM from 0.20).
    FramesVideo,
}

/// Result of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum CropMode {
    /// One frame per second, up to the protocol's limit (16 by default).
    Frames,
    /// A text summary by a sub-agent: the same model in a separate conversation.
    Subagent,
}
