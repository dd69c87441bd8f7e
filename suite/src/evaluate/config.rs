//! The configuration of a run: one type for flags, recipes and callers of the library.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::media::paired_frames;
use crate::nearest;
use crate::plan::{Channel, CropMode, RunPlan};
use crate::probe::{FEWEST_TO_HALVE, Probe};
use crate::profile::Profile;
use crate::protocol::{PromptMode, Protocol, UnknownMode};
use crate::record::SampleErrorClass;
use crate::runner::Retry;
use crate::settings::{RequestSettings, ToolDialect};

/// Settings of an evaluation: protocol, sampling, selection of samples and dispatch.
///
/// A field that is not given has its default, which an agent's own loop may change; an unknown field is an error.
///
/// ```
/// use paravt_suite::evaluate::RunConfig;
///
/// let config = RunConfig::from_json(r#"{"profile": "strict", "nframes": 32, "shard": "2/8"}"#)?;
/// assert_eq!((config.nframes, config.max_turns), (Some(32), None));
/// assert_eq!(RunConfig::from_json(&config.to_string())?, config);
///
/// let error = RunConfig::from_json(r#"{"max_turn": 4}"#).unwrap_err().to_string();
/// assert!(error.contains("did you mean `max_turns`?"));
/// # Ok::<(), paravt_suite::evaluate::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunConfig {
    /// Rules; [`Profile::default_for`] the [`paper_row`](Self::paper_row) by default, and those of the run that is
    /// continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Prompt mode; the protocol's by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<PromptMode>,
    /// Channel of the overview; `image` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    /// Frames of the overview on the image channel, at least 2; 64 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nframes: Option<usize>,
    /// Turns with tools before the forced answer, in modes with the tool; 3 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<usize>,
    /// Maximum of tool calls that are run per turn, 0 runs all; 5 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<usize>,
    /// What a tool call returns; `frames` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop: Option<CropMode>,
    /// Token limit of a reply; the protocol's by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Sampling temperature, 0 is greedy; 0 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Seed sent with every request; none by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Dialect of tool calls; `auto` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dialect: Option<ToolDialect>,
    /// Sampling and server settings of every request; none by default.
    #[serde(skip_serializing_if = "RequestSettings::is_empty")]
    pub request: RequestSettings,
    /// Most kB of a frame as it is sent; no limit by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_image_kb: Option<u32>,
    /// What the run takes away from its samples or frames; nothing by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
    /// How often each sample is asked, with the seed raised by one each time where one is given; 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<usize>,

    /// Only the samples of these uids or upstream ids; taken before `limit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<String>>,
    /// Only the first samples, by row; taken before `shard`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Only one shard, e.g. `2/8`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,

    /// Samples in flight; 16 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// Continue the run in the run directory, if there is one; without it, a run there is an error.
    pub resume: bool,
    /// Failed samples of these classes are run again when resuming; by default those whose cause may be
    /// gone ([`SampleErrorClass::is_retryable`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_errors: Option<Vec<SampleErrorClass>>,

    /// Name of the run in reports; mode and model by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Row of the published table that the run is compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper_row: Option<String>,
}

/// The configuration as JSON.
impl fmt::Display for RunConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string_pretty(self).expect("a struct with string keys serialises"))
    }
}

impl RunConfig {
    /// Reads a configuration from JSON; fields that are not given have their defaults.
    ///
    /// # Errors
    /// Not JSON, a value of another type, or an unknown field, with the nearest known one.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        serde_json::from_str(text).map_err(|error| {
            let message = error.to_string();
            ConfigError::Json { nearest: nearest::expected_field(&message), message }
        })
    }

    /// The rules of a new run under a protocol without an agent's own loop.
    pub fn profile(&self) -> Profile {
        self.profile.unwrap_or_else(|| Profile::default_for(self.paper_row.as_deref()))
    }

    /// The settings that decide how samples are put to the model, complete under a protocol.
    ///
    /// # Errors
    /// A value out of its range, or one that the protocol has no text for.
    pub fn plan(&self, protocol: &Protocol) -> Result<RunPlan, ConfigError> {
        match &protocol.agent {
            Some(agent_loop) => self.of_agent(protocol, agent_loop)?.complete(protocol),
            None => self.complete(protocol),
        }
    }

    /// Channel of the overview under a protocol without an agent's own loop.
    pub fn channel(&self) -> Channel {
        self.channel.unwrap_or(Channel::Image)
    }

    /// Frames of the overview, likewise.
    pub fn nframes(&self) -> usize {
        self.nframes.unwrap_or(64)
    }

    /// Turns with tools, likewise.
    pub fn max_turns(&self) -> usize {
        self.max_turns.unwrap_or(3)
    }

    /// Maximum of tool calls that are run per turn, likewise.
    pub fn max_parallel(&self) -> usize {
        self.max_parallel.unwrap_or(5)
    }

    fn crop(&self) -> CropMode {
        self.crop.unwrap_or(CropMode::Frames)
    }

    fn temperature(&self) -> f64 {
        self.temperature.unwrap_or(0.0)
    }

    /// Dialect of tool calls, before an agent's protocol resolves `auto`.
    pub(super) fn dialect(&self) -> ToolDialect {
        self.dialect.unwrap_or(ToolDialect::Auto)
    }

    /// The configuration with its defaults written out: an identity that does not change where one is given by name.
    #[must_use]
    pub fn with_defaults(&self) -> Self {
        Self {
            channel: Some(self.channel()),
            nframes: Some(self.nframes()),
            max_turns: Some(self.max_turns()),
            max_parallel: Some(self.max_parallel()),
            crop: Some(self.crop()),
            temperature: Some(self.temperature()),
            dialect: Some(self.dialect()),
            concurrency: Some(self.concurrency()),
            ..self.clone()
        }
    }

    /// Samples in flight.
    pub fn concurrency(&self) -> usize {
        self.concurrency.unwrap_or(16)
    }

    fn complete(&self, protocol: &Protocol) -> Result<RunPlan, ConfigError> {
        let mode = self.mode.clone().unwrap_or_else(|| protocol.default_mode.clone());
        protocol.system_text(&mode)?;
        let nframes = self.nframes();
        let plan = RunPlan {
            rules: self.profile().into(),
            channel: self.channel(),
            // As they are sent; an agent has rules of its own.
            nframes: if protocol.agent.is_none() { paired_frames(nframes) } else { nframes },
            max_turns: self.max_turns(),
            max_parallel: self.max_parallel(),
            crop: self.crop(),
            max_tokens: self.max_tokens.unwrap_or(protocol.max_tokens),
            temperature: self.temperature(),
            seed: self.seed,
            dialect: self.dialect(),
            request: self.request.clone(),
            probe: self.probe,
            max_image_kb: self.max_image_kb,
            own_positions: protocol.has_own_positions(),
            repeat: self.repeat.unwrap_or(1),
            mode,
        };
        if nframes < 2 {
            return Err(ConfigError::TooFewFrames);
        }
        if !(plan.temperature >= 0.0 && plan.temperature.is_finite()) {
            return Err(ConfigError::Temperature);
        }
        let offers_tool = protocol.offers_tool(&plan.mode);
        if plan.dialect == ToolDialect::Native && offers_tool && protocol.chat_tools.is_none() {
            return Err(ConfigError::NoChatTools { protocol: protocol.name.clone() });
        }
        if self.concurrency() == 0 {
            return Err(ConfigError::Concurrency);
        }
        plan.request.check().map_err(ConfigError::Request)?;
        self.check_probe(&plan, nframes)?;
        if !(1..=MAX_REPEAT).contains(&plan.repeat) {
            return Err(ConfigError::Repeat);
        }
        Ok(plan)
    }

    /// Refuses a probe that the other settings leave no room for.
    fn check_probe(&self, plan: &RunPlan, nframes: usize) -> Result<(), ConfigError> {
        let Some(probe) = plan.probe else { return Ok(()) };
        let refused = |why: &str| Err(ConfigError::Probe { probe, why: why.to_owned() });
        if self.paper_row.is_some() {
            return refused("no published number was measured like that; leave --paper-row out");
        }
        if probe.changes_frames() && plan.channel == Channel::Video {
            return refused("the server samples the frames of --channel video; use --channel image");
        }
        if matches!(probe, Probe::Freeze | Probe::Reverse) && plan.channel == Channel::FramesVideo {
            return refused("a video of frames tells the model their true times; use --channel image");
        }
        if probe == Probe::HalfFrames && nframes < FEWEST_TO_HALVE {
            return refused("half of --nframes is fewer than 2 frames; use --nframes 4 or more");
        }
        Ok(())
    }

    /// Which finished samples a resumed run does again.
    pub(super) fn retry(&self) -> Retry {
        let mut retry = Retry::default();
        if let Some(classes) = &self.retry_errors {
            retry.classes = classes.iter().copied().collect();
        }
        retry
    }
}

/// Most repetitions of a sample: beyond this a number is a mistake.
const MAX_REPEAT: usize = 10_000;

/// Why a configuration cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// The text is not a configuration.
    #[error("run configuration: {message}{hint}", hint = nearest::hint(.nearest.as_deref()))]
    Json {
        message: String,
        /// The nearest known field, for an unknown one.
        nearest: Option<String>,
    },
    /// The protocol does not have the mode.
    #[error(transparent)]
    NoMode(#[from] UnknownMode),
    /// An overview of one frame or none.
    #[error("--nframes: expected at least 2 frames")]
    TooFewFrames,
    /// No sample in flight.
    #[error("--concurrency: expected at least 1 sample in flight")]
    Concurrency,
    /// A temperature below 0, or not a number.
    #[error("--temperature: expected a number ≥ 0")]
    Temperature,
    /// The protocol cannot describe its tool to a chat API.
    #[error(
        "--tool-dialect native: protocol {protocol} defines no tool for the chat API; use --tool-dialect auto, or \
         --protocol native"
    )]
    NoChatTools { protocol: String },
    /// A probe that the other settings leave no room for.
    #[error("--probe {probe}: {why}")]
    Probe { probe: Probe, why: String },
    /// An agent's own loop decides it.
    #[error("{flag}: protocol {protocol} has {by_agent}; leave it out, or {way}")]
    Fixed { flag: &'static str, protocol: String, by_agent: String, way: String },
    /// No repetition, or more than anyone means.
    #[error("--repeat: expected a number from 1 to {MAX_REPEAT}")]
    Repeat,
    /// A request setting that cannot be sent.
    #[error("request settings: {0}")]
    Request(String),
}

/// One of several equal parts of a selection: rows `index`, `index + count`, … of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    /// Counted from 0.
    pub fn index(self) -> usize {
        self.index
    }

    /// Number of shards.
    pub fn count(self) -> usize {
        self.count
    }
}

/// As people write it, counted from 1: `2/8`.
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (index, count) = text.split_once('/').ok_or("write it as I/N, e.g. 2/8")?;
        let number =
            |text: &str| text.parse::<usize>().map_err(|_| format!("expected a number, got `{text}`"));
        let (index, count) = (number(index)?, number(count)?);
        if index == 0 || index > count {
            return Err(format!("shard must be between 1 and {count}, got `{text}`"));
        }
        Ok(Self { index: index - 1, count })
    }
}

impl Serialize for Shard {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Shard {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::native;
    use crate::settings::SamplingParams;

    #[test]
    fn shards_are_counted_from_one() {
        for (text, index, count) in [("1/8", 0, 8), ("8/8", 7, 8)] {
            let shard: Shard = text.parse().unwrap();
            assert_eq!((shard.index(), shard.count(), shard.to_string().as_str()), (index, count, text));
        }
        for wrong in ["0/8", "9/8", "x/8", "3", "1/0"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_empty_object_is_the_default_and_every_field_is_read_back() {
        assert_eq!(RunConfig::from_json("{}").unwrap(), RunConfig::default());
        let text = r#"{"profile": "release", "mode": "direct", "channel": "video", "nframes": 8, "max_turns": 2,
            "max_parallel": 0, "crop": "subagent", "max_tokens": 9, "temperature": 0.5, "seed": 7,
            "dialect": "text", "request": {"top_k": 4}, "probe": "shuffle:3", "max_image_kb": 300, "repeat": 4, "ids": ["a"], "limit": 3, "shard": "1/2",
            "concurrency": 4, "resume": true, "retry_errors": ["api"], "label": "l", "paper_row": "r"}"#;
        let config = RunConfig::from_json(text).unwrap();
        let given: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_value(&config).unwrap(), given, "no field is lost or has another name");
    }

    #[test]
    fn only_a_row_of_the_published_table_makes_paper_the_default_profile() {
        let profile =
            |text: &str| RunConfig::from_json(text).unwrap().plan(&native::protocol()).unwrap().profile();
        assert_eq!(profile("{}"), Profile::Strict);
        assert_eq!(profile(r#"{"paper_row": "r"}"#), Profile::Paper);
        assert_eq!(profile(r#"{"paper_row": "r", "profile": "strict"}"#), Profile::Strict);
        assert_eq!(profile(r#"{"profile": "release"}"#), Profile::Release);
    }

    #[test]
    fn wrong_fields_and_values_are_named() {
        for (text, words) in [
            (r#"{"frames": 3}"#, "did you mean `nframes`?"),
            (r#"{"shard": "9/8"}"#, "shard must be between 1 and 8"),
            (r#"{"profile": "Paper"}"#, "unknown variant `Paper`"),
            (r#"{"request": {"stops": ["a"]}}"#, "did you mean `stop`?"),
        ] {
            let error = RunConfig::from_json(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn settings_out_of_range_or_without_text_are_refused() {
        let protocol = native::protocol();
        let plan = |config: RunConfig| config.plan(&protocol);
        let default = RunConfig::default;
        assert_eq!(plan(default()).unwrap().mode, protocol.default_mode);
        assert_eq!(plan(default()).unwrap().max_tokens, protocol.max_tokens);
        assert_eq!(plan(RunConfig { nframes: Some(1), ..default() }), Err(ConfigError::TooFewFrames));
        assert_eq!(plan(RunConfig { concurrency: Some(0), ..default() }), Err(ConfigError::Concurrency));
        for temperature in [-0.1, f64::NAN, f64::INFINITY] {
            assert_eq!(
                plan(RunConfig { temperature: Some(temperature), ..default() }),
                Err(ConfigError::Temperature)
            );
        }
        let half = RunConfig { probe: Some(Probe::HalfFrames), nframes: Some(2), ..default() };
        let video = RunConfig { probe: Some(Probe::Freeze), channel: Some(Channel::Video), ..default() };
        let row = RunConfig { probe: Some(Probe::Blind), paper_row: Some("r".into()), ..default() };
        for (config, words) in [(half, "--nframes 4"), (video, "--channel image"), (row, "--paper-row")] {
            let error = plan(config).unwrap_err().to_string();
            assert!(error.contains("--probe") && error.contains(words), "{error}");
        }
        assert_eq!(plan(RunConfig { repeat: Some(0), ..default() }), Err(ConfigError::Repeat));
        let repeated = plan(RunConfig { repeat: Some(3), seed: Some(7), ..default() }).unwrap();
        let warnings = |plan: &RunPlan| plan.warnings().collect::<Vec<_>>();
        assert!(
            matches!(&warnings(&repeated)[..], [warning] if warning.contains("--repeat 3")),
            "{repeated:?}"
        );
        assert_eq!((repeated.seed_of(0), repeated.seed_of(2)), (Some(7), Some(9)));
        assert_eq!(warnings(&plan(default()).unwrap()), [""; 0]);
        for (nframes, sent) in [(3, 4), (5, 4), (7, 8)] {
            let odd = plan(RunConfig { nframes: Some(nframes), ..default() }).unwrap();
            assert_eq!((odd.nframes, odd.overview_frames(&protocol)), (sent, Some(sent)));
        }
        let sampling = SamplingParams { top_p: Some(2.0), ..SamplingParams::default() };
        let request = RequestSettings { sampling, ..RequestSettings::default() };
        assert!(matches!(plan(RunConfig { request, ..default() }), Err(ConfigError::Request(_))));
        let mut silent = native::protocol();
        (silent.chat_tools, silent.name) = (None, "silent".to_owned());
        let native = RunConfig { dialect: Some(ToolDialect::Native), mode: None, ..default() };
        assert_eq!(native.plan(&silent), Err(ConfigError::NoChatTools { protocol: "silent".to_owned() }));
        let mode = PromptMode::named("watch");
        let refused = RunConfig { mode: Some(mode.clone()), ..default() }.plan(&silent).unwrap_err();
        assert!(matches!(&refused, ConfigError::NoMode(unknown) if unknown.mode == mode), "{refused}");
        assert!(refused.to_string().contains("it has direct, reasoning"), "{refused}");
    }
}
