//! Settings of a run that the agent's protocol fixes.

use super::{ConfigError, RunConfig};
use crate::plan::Channel;
use crate::probe::Probe;
use crate::profile::Profile;
use crate::protocol::{AgentLoop, Protocol, SentAs, file};
use crate::settings::{RequestSettings, ToolDialect};

impl RunConfig {
    /// The configuration with the settings that the agent's protocol fixes; another value that was given is refused.
    pub(super) fn of_agent(&self, protocol: &Protocol, agent_loop: &AgentLoop) -> Result<Self, ConfigError> {
        let fixed = |flag: &'static str, by_agent: String| {
            let name = protocol.name.clone();
            let way = match protocol.source.repository.as_str() {
                file::FROM_FILE => "change its file".to_owned(),
                _ => format!("change it in a protocol file with `base = \"{name}\"`"),
            };
            Err(ConfigError::Fixed { flag, protocol: name, by_agent, way })
        };
        // Its row among the published ones is not under the paper's rules either.
        if self.profile.is_some_and(|profile| profile != Profile::Strict) {
            return fixed(
                "--profile",
                "its own rules; profiles other than strict are those of ParaVT".to_owned(),
            );
        }
        let channel = agent_loop.frames().map(|frames| match frames.policy.sent_as {
            SentAs::Images => Channel::Image,
            SentAs::Video => Channel::FramesVideo,
        });
        for (flag, is_other) in [
            ("--channel", channel.is_some() && self.channel.is_some_and(|given| Some(given) != channel)),
            ("--crop", self.crop.is_some()),
        ] {
            if is_other {
                return fixed(flag, "frames that it chooses itself".to_owned());
            }
        }
        if agent_loop.code().is_some() {
            self.check_code(&fixed)?;
        }
        let frames = agent_loop.overview().map(|overview| overview.frames);
        for (flag, given, by_agent) in [
            ("--nframes", self.nframes, frames),
            ("--max-turns", self.max_turns, Some(agent_loop.turns() - 1)),
            ("--max-parallel", self.max_parallel, Some(0)),
        ] {
            if let Some(by_agent) = by_agent.filter(|by_agent| given.is_some_and(|given| given != *by_agent))
            {
                let calls = if flag == "--max-turns" { ", one less than its `turns`" } else { "" };
                return fixed(flag, format!("{by_agent}{calls}"));
            }
        }
        if let Some(probe) =
            self.probe.filter(|probe| probe.changes_frames() && agent_loop.frames().is_some())
        {
            let why = format!("protocol {} chooses its frames itself", protocol.name);
            return Err(ConfigError::Probe { probe, why });
        }
        if let Some(probe) = self.probe.filter(|probe| *probe == Probe::Blind && agent_loop.clips().is_some())
        {
            let why = format!("the texts of protocol {} stand around videos", protocol.name);
            return Err(ConfigError::Probe { probe, why });
        }
        let sampling = self.request.sampling.or(&agent_loop.sampling.params);
        let request = RequestSettings { sampling, ..self.request.clone() };
        Ok(Self {
            profile: Some(Profile::Strict),
            channel: channel.or(self.channel),
            nframes: frames.or(self.nframes),
            max_turns: Some(agent_loop.turns() - 1),
            max_parallel: Some(0),
            temperature: self.temperature.or(Some(agent_loop.sampling.temperature)),
            dialect: Some(match self.dialect() {
                // An agent whose tool is declared through the chat API is answered through it.
                ToolDialect::Auto if protocol.chat_tools.is_some() => ToolDialect::Native,
                ToolDialect::Auto => ToolDialect::Text,
                dialect => dialect,
            }),
            request,
            ..self.clone()
        })
    }

    /// Refuses what would change the frames of an agent whose code looks at the video itself.
    fn check_code(
        &self,
        fixed: &impl Fn(&'static str, String) -> Result<Self, ConfigError>,
    ) -> Result<(), ConfigError> {
        let itself = "code of the model that reads the video itself";
        if self.channel.is_some() {
            fixed("--channel", itself.to_owned())?;
        }
        if self.nframes.is_some() {
            fixed("--nframes", itself.to_owned())?;
        }
        match self.probe.filter(|probe| *probe == Probe::Blind || probe.changes_frames()) {
            Some(probe) => Err(ConfigError::Probe { probe, why: format!("the protocol has {itself}") }),
            None => Ok(()),
        }
    }
}
