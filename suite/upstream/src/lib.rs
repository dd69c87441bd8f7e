#![forbid(unsafe_code)]
//! What imitates released code: the semantics of Python that it relies on, and one module for each release
//! with its tool calls, its scoring and the import of its texts.
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
//! # Ok::<(), paravt_upstream::UnknownReference>(())
//! ```

pub mod agents;
pub mod conan;
pub mod eva;
pub mod framethinker;
pub mod import;
pub mod longvt;
pub mod paravt;
pub mod python;
pub mod pyvision;
pub mod sage;
pub mod time_r1;
pub mod tvg;
pub mod video_o3;
pub mod video_r1;
pub mod videochat_r1;
pub mod videozoomer;

use paravt_suite::protocol::Protocol;
use paravt_suite::reference::Reference;

use import::Release;

/// All releases; the first is that of protocols that name none.
pub const REFERENCES: [Reference; 10] = [
    paravt::REFERENCE,
    paravt::filled::ZOOMS,
    agents::conan::REFERENCE,
    agents::videozoomer::REFERENCE,
    agents::eva::REFERENCE,
    agents::longvt::REFERENCE,
    agents::single::VIDEO_R1,
    agents::single::VIDEOCHAT_R1,
    agents::single::TIME_R1,
    agents::pyvision::REFERENCE,
];

/// Releases whose texts can be imported; the first is that of the reference.
pub static RELEASES: [&Release; 10] = [
    &paravt::import::RELEASE,
    &agents::conan::RELEASE,
    &agents::videozoomer::RELEASE,
    &agents::eva::RELEASE,
    &agents::longvt::RELEASE,
    &agents::single::VIDEO_R1_RELEASE,
    &agents::single::VIDEO_RFT_RELEASE,
    &agents::single::VIDEOCHAT_R1_RELEASE,
    &agents::single::TIME_R1_RELEASE,
    &agents::pyvision::RELEASE,
];

/// A protocol names a release that this build does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("protocol {protocol}: unknown reference `{name}`; this build has {known}")]
#[allow(missing_docs)] // The messages say what the fields are.
pub struct UnknownReference {
    pub protocol: String,
    pub name: String,
    pub known: String,
}

/// The release that a protocol belongs to.
///
/// # Errors
/// There is none of that name.
pub fn reference(protocol: &Protocol) -> Result<Reference, UnknownReference> {
    let Some(name) = &protocol.reference else { return Ok(REFERENCES[0]) };
    REFERENCES.into_iter().find(|reference| reference.name == name).ok_or_else(|| UnknownReference {
        protocol: protocol.name.clone(),
        name: name.clone(),
        known: REFERENCES.map(|reference| reference.name).join(", "),
    })
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
