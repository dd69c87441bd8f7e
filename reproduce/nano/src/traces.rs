//! Conversations that answer a question about a generated video: what SFT learns from.
//!
//! They are written as the suite's agent would have them, in its sub-agent mode, so that training
//! and evaluation see the same tokens.

use std::ops::Range;

use paravt_suite::media::{VideoRequest, frame_indices};
use paravt_suite::message::Role;
use paravt_suite::profile::Profile;
use paravt_suite::protocol::{PromptMode, Protocol, render};
use paravt_suite::sample::Sample;

use crate::WorldError;
use crate::policy::{self, Sighting};
use crate::protocol;
use crate::questions::{Ask, Question};
use crate::samples::Style;
use crate::scene::{FPS, Scene};

/// Frames of a crop at most, as the agent has it.
pub(crate) const CROP_FRAMES: usize = 16;
/// Turns with calls before the answer is forced, as the agent's plan has it by default.
const MAX_TURNS: usize = 3;

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Turn {
    pub role: Role,
    pub parts: Vec<Piece>,
}

/// A part of a message; frames by what was asked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    /// Frames of the whole video, evenly spaced.
    Overview(usize),
    /// Frames of a window, in seconds.
    Crop(u64, u64),
}

/// Dispatch of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dispatch {
    /// All windows in one turn.
    Parallel,
    /// One window in each turn.
    OneByOne,
    /// All windows that are left are asked for in each turn, and the first alone is run.
    Capped,
}

/// A scene, a question about it and how the sample shows it.
pub(crate) struct Case<'a> {
    pub scene: &'a Scene,
    pub question: &'a Question,
    pub style: Style,
    /// The question as the agent gets it.
    pub sample: &'a Sample,
    /// Frames of the overview.
    pub nframes: usize,
}

impl Turn {
    /// A message of text alone.
    pub(crate) fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, parts: vec![Piece::Text(text.into())] }
    }
}

/// Frames of a request, by the media's own rule.
pub(crate) fn times(request: &VideoRequest, scene: &Scene) -> Result<Vec<f64>, WorldError> {
    let indices = frame_indices(request, scene.frames(), FPS as f64).map_err(WorldError::Frames)?;
    Ok(policy::times(&indices))
}

/// Events of a window, for a sub-agent.
pub(crate) fn seen_in(scene: &Scene, window: &Range<u64>) -> Result<Vec<Sighting>, WorldError> {
    let request = VideoRequest::crop(window.start as f64, window.end as f64, CROP_FRAMES);
    Ok(policy::sightings(scene, &times(&request, scene)?))
}

impl Case<'_> {
    /// System text, overview and question.
    fn open(&self, protocol: &Protocol, mode: &PromptMode) -> Result<Vec<Turn>, WorldError> {
        let name = self.sample.video.file_name().map(|name| name.to_string_lossy().into_owned());
        let duration = Some(self.scene.seconds as f64);
        // The protocol has one instruction for all profiles.
        let switches = Profile::Paper.switches();
        let text =
            render::user_text(protocol, self.sample, mode, &switches, &name.unwrap_or_default(), duration)?;
        let parts = vec![Piece::Overview(self.nframes), Piece::Text(text)];
        Ok(vec![
            Turn::text(Role::System, protocol.system_text(mode).map_err(render::RenderError::from)?),
            Turn { role: Role::User, parts },
        ])
    }

    /// What of the overview answers the question; empty when nothing does.
    pub(crate) fn evidence_in_overview(&self) -> Result<Vec<Sighting>, WorldError> {
        Ok(self.overview()?.1)
    }

    /// What the overview shows, and what of it answers the question.
    fn overview(&self) -> Result<(Vec<Sighting>, Vec<Sighting>), WorldError> {
        let times = times(&VideoRequest::overview(self.nframes), self.scene)?;
        let seen = policy::sightings(self.scene, &times);
        // A sparse overview may miss what lies between two events: it does not tell what is next.
        let dense = times.windows(2).all(|pair| pair[1] - pair[0] < 4.0);
        let evidence = match self.question.ask {
            Ask::Order { .. } | Ask::First { .. } | Ask::Grounding { .. } if !dense => Vec::new(),
            ask => policy::evidence(&ask, &seen),
        };
        Ok((seen, evidence))
    }

    /// An answer from a list of what the overview shows, as a sub-agent lists a window, up to what answers.
    pub(crate) fn listed(&self, protocol: &Protocol, mode: &PromptMode) -> Result<Vec<Turn>, WorldError> {
        let (seen, evidence) = self.overview()?;
        let mut turns = self.open(protocol, mode)?;
        let thought = match evidence.last() {
            Some(last) => {
                let end = seen.iter().position(|sighting| sighting == last).unwrap_or_default();
                policy::list(&seen[..=end])
            }
            None => format!("{}\n{}", policy::list(&seen), policy::NOT_SEEN),
        };
        let text = policy::answered(self.question, self.style, thought, &evidence);
        turns.push(Turn::text(Role::Assistant, text));
        Ok(turns)
    }

    /// An answer without a look closer. Without evidence in the overview it is a guess that happens
    /// to be right, as such rows are in the original; it says so where it thinks.
    pub(crate) fn direct(&self, protocol: &Protocol, mode: &PromptMode) -> Result<Vec<Turn>, WorldError> {
        let evidence = self.evidence_in_overview()?;
        let mut turns = self.open(protocol, mode)?;
        let answer = if *mode == protocol::direct() { policy::bare } else { policy::conclude };
        let text = answer(self.question, self.style, &evidence);
        turns.push(Turn::text(Role::Assistant, text));
        Ok(turns)
    }

    /// An answer after looking closer; `None` where it needs more turns than there are.
    pub(crate) fn with_tool(
        &self,
        protocol: &Protocol,
        dispatch: Dispatch,
    ) -> Result<Option<Vec<Turn>>, WorldError> {
        let mut turns = self.open(protocol, &protocol.default_mode)?;
        let windows = policy::windows(&self.question.ask, self.scene.seconds);
        let mut seen = Vec::new();
        let (mut run, mut rounds) = (0, 0);
        while run < windows.len() {
            let (asked, cap) = match dispatch {
                Dispatch::Parallel => (windows.len(), windows.len()),
                Dispatch::OneByOne => (run + 1, 1),
                Dispatch::Capped => (windows.len(), 1),
            };
            turns.push(Turn::text(Role::Assistant, policy::call(&self.question.ask, &windows[run..asked])));
            for window in &windows[run..run + cap] {
                let found = seen_in(self.scene, window)?;
                let (start, end) = (window.start as f64, window.end as f64);
                let text = render::subagent_response(protocol, start, end, &policy::list(&found))?;
                turns.push(Turn::text(Role::User, text));
                seen.extend(found);
            }
            run += cap;
            rounds += 1;
            let done = !policy::evidence(&self.question.ask, &seen).is_empty();
            if rounds == MAX_TURNS {
                let force = render::force(protocol, self.sample.gold.kind())?;
                turns.push(Turn::text(Role::User, force.text.as_str()));
            }
            if done || rounds == MAX_TURNS {
                break;
            }
        }
        let evidence = policy::evidence(&self.question.ask, &seen);
        if evidence.is_empty() {
            return Ok(None);
        }
        turns.push(Turn::text(Role::Assistant, policy::conclude(self.question, self.style, &evidence)));
        Ok(Some(turns))
    }
}

/// A sub-agent's task: what frames of a window show.
pub(crate) fn description(
    protocol: &Protocol,
    sample: &Sample,
    scene: &Scene,
    window: &Range<u64>,
) -> Result<Vec<Turn>, WorldError> {
    let (start, end) = (window.start as f64, window.end as f64);
    let count = times(&VideoRequest::crop(start, end, CROP_FRAMES), scene)?.len();
    let prompt = render::subagent_prompt(protocol, sample, start, end, count)?;
    let parts = vec![Piece::Crop(window.start, window.end), Piece::Text(prompt)];
    let answer = policy::list(&seen_in(scene, window)?);
    Ok(vec![Turn { role: Role::User, parts }, Turn::text(Role::Assistant, answer)])
}
