//! The modes of ParaVT's driver for other agents (cf55249 `paravt/eval/driver.py`). Their texts are placeholders there
//! (`FILL_FROM_…`); its comments say which text of the agent's authors belongs in each. Here it is taken from the import of
//! the agent's own protocol. All else is the driver's: its loop, its frames, its reader of calls.

use paravt_suite::agent::Reference;
use paravt_suite::protocol::template::Piece;
use paravt_suite::protocol::{PromptMode, Protocol, Source};
use paravt_upstream::import::Release;
use paravt_upstream::paravt::scoring::DriverScoring;
use paravt_upstream::paravt::toolcall::ZoomSyntax;

use crate::agent::Agent;
use crate::{longvt, sage, videozoomer};

/// The driver where it looks for calls of VideoZoomer ("Modes for other agents" in `suite/docs/quirks.md`).
pub(crate) const ZOOMS: Reference =
    Reference { name: "paravt-videozoomer", syntax: &ZoomSyntax, scorer: &DriverScoring, agent_loop: None };

/// The driver with that reader of calls; its texts are made of those of two releases.
pub(crate) const AGENT: Agent = Agent { reference: Some(ZOOMS), releases: &[] };

/// A mode of the driver with an agent's text in its placeholder.
pub struct Filled {
    pub name: &'static str,
    pub mode: &'static str,
    /// The agent whose text it is.
    pub agent: &'static Release,
    /// Reader of calls, where it is not that of the driver's other modes.
    reference: Option<&'static str>,
    text: fn(&Protocol) -> Option<String>,
}

/// VideoZoomer's system text.
pub(crate) static VIDEOZOOMER: Filled = Filled {
    name: "paravt+videozoomer",
    mode: "agentic_videozoomer",
    agent: &videozoomer::RELEASE,
    reference: Some(ZOOMS.name),
    text: |agent| agent.system.values().next().cloned(),
};

/// LongVT's `TOOL_PROMPT`: the end of its user text, here the system text.
pub(crate) static LONGVT: Filled = Filled {
    name: "paravt+longvt",
    mode: "agentic_longvt",
    agent: &longvt::RELEASE,
    reference: None,
    text: |agent| match agent.agent.as_ref()?.opening.0.last()? {
        Piece::Text(text) => Some(text.trim_start().to_owned()),
        Piece::Slot(_) => None,
    },
};

/// SAGE's prompt of its first conversation, with the tools that need no other service.
pub static SAGE: Filled = Filled {
    name: "paravt+sage",
    mode: "agentic_sage",
    agent: &sage::RELEASE,
    reference: None,
    text: |agent| agent.system.values().next().cloned(),
};

/// All of them.
pub static FILLED: [&Filled; 3] = [&VIDEOZOOMER, &LONGVT, &SAGE];

impl Filled {
    /// The driver's protocol with this mode, of the imports of both; `None` where the agent's has no such text.
    pub fn make(&self, driver: Protocol, agent: &Protocol) -> Option<Protocol> {
        let mode = PromptMode::named(self.mode);
        let (mut system, mut tool, source) = (driver.system, driver.tool, driver.source);
        system.insert(mode.clone(), (self.text)(agent)?);
        tool.modes.insert(mode.clone());
        let authors = agent
            .source
            .files
            .iter()
            .map(|(file, hash)| (format!("{}:{file}", agent.source.repository), hash.clone()));
        let files = source.files.clone().into_iter().chain(authors).collect();
        let source = Source { files, pinned: source.pinned && agent.source.pinned, ..source };
        Some(Protocol {
            name: self.name.to_owned(),
            source,
            system,
            default_mode: mode,
            tool,
            reference: self.reference.map(str::to_owned),
            ..driver
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference;
    use paravt_suite::protocol::native;
    use paravt_suite::span::TimeSpan;

    /// The form that VideoZoomer's prompt asks for, and one that it does not.
    #[test]
    fn zooms_of_the_trained_form_show_the_first_ten_seconds() {
        let mut agent = native::protocol();
        agent.system = [(PromptMode::named("agent"), "Zoom.".to_owned())].into_iter().collect();
        let made = VIDEOZOOMER.make(native::protocol(), &agent).unwrap();
        assert_eq!(made.system_text(&PromptMode::named("agentic_videozoomer")).unwrap(), "Zoom.");
        assert!(made.offers_tool(&made.default_mode));
        made.check().unwrap();
        let syntax = reference(&made).unwrap().syntax;
        let windows = |text: &str| -> Vec<TimeSpan> {
            syntax.calls(text, &made.tool).into_iter().map(|call| call.window.unwrap()).collect()
        };
        let trained = r#"<video_zoom> {"segment": [40.0, 48.0], "fps": 2} </video_zoom>"#;
        assert_eq!(windows(trained), [TimeSpan::new(0.0, 10.0)]);
        assert_eq!(windows("<video_zoom>start=10.0 end=20.0</video_zoom>"), [TimeSpan::new(10.0, 20.0)]);
        assert!(windows(r#"<tool_call>{"arguments": {"start": 1}}</tool_call>"#).is_empty());
    }

    #[test]
    fn the_end_of_longvts_question_becomes_the_system_text() {
        let mut agent = native::protocol();
        assert!(LONGVT.make(native::protocol(), &agent).is_none(), "no loop of its own");
        let own =
            r#"{"fidelity": "exact", "turns": 1, "opening": [{"slot": "stripped"}, {"text": " Crop."}]}"#;
        agent.agent = Some(serde_json::from_str(own).unwrap());
        let made = LONGVT.make(native::protocol(), &agent).unwrap();
        assert_eq!(made.system_text(&made.default_mode).unwrap(), "Crop.");
        assert_eq!(reference(&made).unwrap().name, "paravt");
    }
}
