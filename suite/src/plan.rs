//! How samples are put to the model: what a recipe or a command line asks for, and a backend accepts.

use serde::{Deserialize, Serialize};

use crate::profile::{Profile, Switches};
use crate::protocol::PromptMode;
use crate::settings::{RequestSettings, ToolDialect};

/// How samples are put to the model. Two runs are comparable where this and the data agree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPlan {
    /// Profile.
    pub profile: Profile,
    /// The switches that the profile set.
    pub switches: Switches,
    /// Prompt mode.
    pub mode: PromptMode,
    /// How the overview travels.
    pub channel: Channel,
    /// Overview frames on the image channel.
    pub nframes: usize,
    /// Tool turns before the forced answer, in modes with the tool.
    pub max_turns: usize,
    /// Maximum of calls that are run per turn; 0 runs all.
    pub max_parallel: usize,
    /// What a crop returns.
    pub crop: CropMode,
    /// Token limit of a turn.
    pub max_tokens: u32,
    /// Sampling temperature; 0 is greedy.
    pub temperature: f64,
    /// Seed sent to the backend, if any.
    pub seed: Option<u64>,
    /// How tool calls travel.
    #[serde(default)]
    pub dialect: ToolDialect,
    /// Sampling and server settings of every request.
    #[serde(default)]
    pub request: RequestSettings,
}

/// How the overview of a video travels to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// Frames sampled here, sent as JPEG images.
    Image,
    /// The file by a file:// URL that the server must be able to read; the server samples.
    Video,
}

/// What a crop returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum CropMode {
    /// Its frames, one for each second, at most as many as the protocol's tool shows (16 by default).
    Frames,
    /// A text summary of its frames by a sub-agent, the same model in a conversation of its own.
    Subagent,
}
