#![forbid(unsafe_code)]
//! What imitates released code: one module for each release with its tool calls, its scoring and the import of its texts.
//!
//! A further release is a module of [`agents`] with a static [`Reference`] in [`REFERENCES`]: a
//! [`ToolSyntax`](paravt_suite::reference::ToolSyntax), a [`Scorer`](paravt_suite::scoring::Scorer) and, with a loop of
//! its own, [`Looks`](paravt_suite::reference::Looks); and a [`Release`] in [`RELEASES`], whose import makes a
//! [`Protocol`] with that reference's name. What it does that its paper does not say is a heading of
//! `suite/docs/quirks.md`.
//!
//! The modules of other agents, [`conan`] to [`videozoomer`], are pure functions: which frames they show and in which
//! size, what a reply asks for, which answer it gives and whether that is right. `ci/protocols` runs them beside the
//! authors' code.
//!
//! ```
//! use paravt_suite::protocol::native;
//! use paravt_suite::span::TimeSpan;
//!
//! let reference = paravt_upstream::reference(&native::protocol())?;
//! let protocol = native::protocol();
//! let calls = reference.syntax.calls(
//!     r#"<tool_call>{"name": "crop_video", "arguments": {"start_time": "1:05", "end_time": 70}}</tool_call>"#,
//!     &protocol.tool,
//! );
//! assert_eq!(calls[0].window, Ok(TimeSpan { start: 65.0, end: 70.0 }));
//! # Ok::<(), paravt_upstream::ReferenceError>(())
//! ```

pub mod agents;
pub mod conan;
mod depth;
pub mod eva;
pub mod framethinker;
pub mod import;
pub mod longvt;
pub mod paravt;
pub mod pyvision;
pub mod time_r1;
pub mod tvg;
pub mod video_o3;
pub mod video_r1;
pub mod videochat_r1;
pub mod videozoomer;

use paravt_suite::protocol::Protocol;
use paravt_suite::reference::Reference;

use import::Release;
use paravt::filled::{FILLED, Filled};

/// All releases; the first is that of protocols that name none.
pub const REFERENCES: [Reference; 12] = [
    paravt::REFERENCE,
    paravt::filled::ZOOMS,
    agents::conan::REFERENCE,
    agents::videozoomer::REFERENCE,
    agents::eva::REFERENCE,
    agents::framethinker::REFERENCE,
    agents::longvt::REFERENCE,
    agents::video_o3::REFERENCE,
    agents::single::VIDEO_R1,
    agents::single::VIDEOCHAT_R1,
    agents::single::TIME_R1,
    agents::pyvision::REFERENCE,
];

/// Releases whose texts can be imported; the first is that of the reference.
pub static RELEASES: [&Release; 13] = [
    &paravt::import::RELEASE,
    &agents::conan::RELEASE,
    &agents::videozoomer::RELEASE,
    &agents::eva::RELEASE,
    &agents::framethinker::RELEASE,
    &agents::longvt::RELEASE,
    &agents::video_o3::RELEASE,
    &agents::single::VIDEO_R1_RELEASE,
    &agents::single::VIDEO_RFT_RELEASE,
    &agents::single::VIDEOCHAT_R1_RELEASE,
    &agents::single::TIME_R1_RELEASE,
    &agents::pyvision::RELEASE,
    &agents::sage::RELEASE,
];

/// Why a protocol has no release that can run it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
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
    /// The release shows no frame in the first turn.
    #[error(
        "protocol {protocol}: agent.frames.overview: the first turn of reference `{name}` has no frames; leave it out"
    )]
    NoOverview { protocol: String, name: &'static str },
}

/// The release that a protocol belongs to.
///
/// # Errors
/// There is none of that name, or it cannot show the frames that the protocol's loop wants.
pub fn reference(protocol: &Protocol) -> Result<Reference, ReferenceError> {
    let names = |all: &mut dyn Iterator<Item = Reference>| {
        all.map(|reference| reference.name).collect::<Vec<_>>().join(", ")
    };
    let of = protocol.name.clone();
    let name = protocol.reference.as_deref().unwrap_or(REFERENCES[0].name);
    let Some(found) = REFERENCES.into_iter().find(|reference| reference.name == name) else {
        if let Some(Filled { name: filled, .. }) = FILLED.iter().find(|filled| filled.agent.name == name) {
            return Err(ReferenceError::TextAlone { protocol: of, filled });
        }
        let known = names(&mut REFERENCES.into_iter());
        return Err(ReferenceError::Unknown { protocol: of, name: name.to_owned(), known });
    };
    let frames = protocol.agent.as_ref().and_then(|own| own.frames.as_ref());
    match (frames, found.looks) {
        (Some(_), None) => {
            let known = names(&mut REFERENCES.into_iter().filter(|reference| reference.looks.is_some()));
            Err(ReferenceError::NoFrames { protocol: of, name: found.name, known })
        }
        (Some(frames), Some(looks)) if frames.overview.is_some() && !looks.has_overview() => {
            Err(ReferenceError::NoOverview { protocol: of, name: found.name })
        }
        _ => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paravt_suite::protocol::native;

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
}
