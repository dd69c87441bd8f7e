#![forbid(unsafe_code)]
//! Agents of other authors, a module each, and the list of all releases that the suite imitates.
//!
//! A module holds what its release does: pure functions (which frames it shows and in which size, what a reply asks for,
//! which answer it gives and whether that is right), its loop's rules, which are a
//! [`ToolSyntax`](paravt_suite::reference::ToolSyntax), a [`Scorer`](paravt_suite::scoring::Scorer) and a
//! [`Loop`](paravt_suite::agent::Loop) or [`FrameRules`](paravt_suite::reference::FrameRules), and the import of its texts. `ci/compare/protocols` runs the pure functions
//! beside the authors' code.
//!
//! A further agent is such a module with an [`Agent`], and a line of [`AGENTS`]. What it does that its paper does not say is a heading of
//! `suite/docs/quirks.md`.
//!
//! ```
//! use paravt_suite::protocol::native;
//! use paravt_suite::span::TimeSpan;
//!
//! let bound = paravt_agents::bind(native::protocol())?;
//! let calls = bound.reference.syntax.calls(
//!     r#"<tool_call>{"name": "crop_video", "arguments": {"start_time": "1:05", "end_time": 70}}</tool_call>"#,
//!     &bound.protocol.tool,
//! );
//! assert_eq!(calls[0].window, Ok(TimeSpan { start: 65.0, end: 70.0 }));
//! # Ok::<(), paravt_agents::ReferenceError>(())
//! ```

mod agent;
pub mod conan;
pub mod driver_modes;
pub mod eva;
pub mod framethinker;
pub mod longvt;
mod one_turn;
pub mod qwen_vl;
pub mod sage;
pub mod temporal_grounding;
pub mod time_r1;
pub mod video_o3;
pub mod video_r1;
pub mod videochat_r1;
pub mod videozoomer;

use std::sync::Arc;

use paravt_suite::agent::{Bound, Reference, SpecialFields};
use paravt_suite::protocol::{AgentLoop, Protocol};
use paravt_upstream::import::Release;
use paravt_upstream::{paravt, pyvision};

pub use agent::Agent;

use driver_modes::{FILLED, Filled};

/// All agents, in the order in which they are named; the first is that of protocols that name none.
pub static AGENTS: &[Agent] = &[
    Agent { reference: Some(paravt::REFERENCE), releases: &[&paravt::import::RELEASE] },
    driver_modes::AGENT,
    conan::AGENT,
    videozoomer::AGENT,
    eva::AGENT,
    framethinker::AGENT,
    longvt::AGENT,
    video_o3::AGENT,
    video_r1::AGENT,
    videochat_r1::AGENT,
    time_r1::AGENT,
    qwen_vl::AGENT,
    Agent {
        reference: Some(pyvision::REFERENCE),
        releases: &[&pyvision::RELEASE, &pyvision::IMAGE, &pyvision::UNSEEN],
    },
    sage::AGENT,
];

/// The rules of all agents.
pub fn references() -> impl Iterator<Item = Reference> {
    AGENTS.iter().filter_map(|agent| agent.reference)
}

/// Releases whose texts can be imported; the first is that of the reference.
pub fn releases() -> impl Iterator<Item = &'static Release> {
    AGENTS.iter().flat_map(|agent| agent.releases.iter().copied())
}

/// Why a protocol has no release that can run it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// This build does not have it.
    #[error("protocol {protocol}: unknown reference `{name}`; this build has {known}")]
    Unknown { protocol: String, name: String, known: String },
    /// Of the release only a text is here.
    #[error(
        "protocol {protocol}: its authors' loop is not part of this suite, only its text, with which `{filled}` asks"
    )]
    TextAlone { protocol: String, filled: &'static str },
    /// The release has no frames of its own.
    #[error(
        "protocol {protocol}: agent.frames: reference `{name}` has no rules for frames; those of {known} have, and without \
         `agent.frames` a loop of one turn shows the frames of the run"
    )]
    NoFrames { protocol: String, name: &'static str, known: String },
    /// The protocol has a rule that the release's loop does not have.
    #[error(
        "protocol {protocol}: agent.{field}: the loop of reference `{name}` has no such rule; leave it out"
    )]
    NoRule { protocol: String, name: &'static str, field: &'static str },
    /// The release's loop cannot run without a rule.
    #[error("protocol {protocol}: agent.{field}: missing: the loop of reference `{name}` needs it")]
    NeedsRule { protocol: String, name: &'static str, field: &'static str },
}

/// A protocol with the release that it belongs to.
///
/// # Errors
/// No release has that name, or its loop lacks or needs a rule.
pub fn bind(protocol: impl Into<Arc<Protocol>>) -> Result<Bound, ReferenceError> {
    let protocol = protocol.into();
    let reference = reference(&protocol)?;
    Ok(Bound { protocol, reference })
}

fn reference(protocol: &Protocol) -> Result<Reference, ReferenceError> {
    let of = protocol.name.clone();
    let name = protocol.reference.as_deref().unwrap_or(paravt::REFERENCE.name);
    let Some(found) = references().find(|reference| reference.name == name) else {
        if let Some(Filled { name: filled, .. }) = FILLED.iter().find(|filled| filled.agent.name == name) {
            return Err(ReferenceError::TextAlone { protocol: of, filled });
        }
        let known = references().map(|reference| reference.name).collect::<Vec<_>>().join(", ");
        return Err(ReferenceError::Unknown { protocol: of, name: name.to_owned(), known });
    };
    if let Some(agent_loop) = &protocol.agent {
        check_rules(&of, agent_loop, &found)?;
    }
    Ok(found)
}

/// Refuses rules that the loop does not have, and a loop without those that it needs.
fn check_rules(protocol: &str, agent_loop: &AgentLoop, found: &Reference) -> Result<(), ReferenceError> {
    let (protocol, name) = (protocol.to_owned(), found.name);
    let SpecialFields { needed, allowed } = match (agent_loop.frames(), found.agent_loop) {
        (None, _) => SpecialFields::default(),
        (Some(_), Some(chosen)) => chosen.fields(),
        (Some(_), None) => {
            let known = references().filter(|reference| reference.agent_loop.is_some());
            let known = known.map(|reference| reference.name).collect::<Vec<_>>().join(", ");
            return Err(ReferenceError::NoFrames { protocol, name, known });
        }
    };
    let special: Vec<&str> = agent_loop.special_fields().collect();
    if let Some(field) = needed.iter().find(|field| !special.contains(field)) {
        return Err(ReferenceError::NeedsRule { protocol, name, field });
    }
    match special.into_iter().find(|field| !allowed.contains(field)) {
        Some(field) => Err(ReferenceError::NoRule { protocol, name, field }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paravt_suite::protocol::{
        CallMessages, Encoding, Fidelity, Filter, FrameLoop, FramePolicy, Overview, Shape, SizeRule, native,
    };

    #[test]
    fn a_protocol_finds_its_reference_by_name_or_is_refused() {
        let mut protocol = native::protocol();
        assert_eq!(reference(&protocol).unwrap().name, "paravt");
        protocol.reference = Some("paravt".into());
        assert_eq!(reference(&protocol).unwrap().name, "paravt");
        protocol.reference = Some("made-up".into());
        let error = reference(&protocol).err().unwrap().to_string();
        assert!(
            error.starts_with("protocol native: unknown reference `made-up`; this build has paravt, "),
            "{error}"
        );
    }

    #[test]
    fn a_rule_that_the_loop_does_not_have_or_needs_is_named() {
        let fails = |name: &str, change: &dyn Fn(&mut AgentLoop)| {
            let mut protocol = native::protocol();
            let size = FramePolicy::new(SizeRule::Multiple(28), Filter::Area, Encoding::Png);
            let mut agent_loop = AgentLoop::new(Fidelity::Variant, FrameLoop::new(3, size));
            change(&mut agent_loop);
            (protocol.reference, protocol.agent) = (Some(name.to_owned()), Some(agent_loop));
            reference(&protocol).err().map(|error| error.to_string())
        };
        let frames = |agent_loop: &mut AgentLoop, change: &dyn Fn(&mut FrameLoop)| match &mut agent_loop.shape
        {
            Shape::Frames(frames) => change(frames),
            other => panic!("{other:?}"),
        };
        let tries = |agent_loop: &mut AgentLoop| frames(agent_loop, &|frames| frames.tries.count = 3);
        let overview = |agent_loop: &mut AgentLoop| {
            frames(agent_loop, &|frames| frames.policy.overview = Some(Overview::default()));
        };
        let apart = |agent_loop: &mut AgentLoop| agent_loop.harness.calls = CallMessages::OneMessagePerCall;
        let refused = |name: &str, field: &str| {
            Some(format!(
                "protocol native: agent.{field}: the loop of reference `{name}` has no such rule; leave it out"
            ))
        };
        assert_eq!(fails("framethinker", &tries), None);
        assert_eq!(fails("conan", &tries), refused("conan", "tries"));
        assert_eq!(fails("conan", &overview), None);
        assert_eq!(fails("eva", &overview), refused("eva", "frames.overview"));
        assert_eq!(fails("longvt", &apart), None);
        assert_eq!(fails("videozoomer", &apart), refused("videozoomer", "harness.calls"));
        let needed = "protocol native: agent.clips: missing: the loop of reference `video-o3` needs it";
        assert_eq!(fails("video-o3", &overview).as_deref(), Some(needed));
        assert_eq!(fails("paravt", &|agent_loop| agent_loop.shape = Shape::OneTurn), None);
    }
}
