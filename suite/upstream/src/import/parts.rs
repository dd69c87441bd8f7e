//! What the protocols of agents are made of: the parts in which they differ, their questions and their templates.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use paravt_suite::protocol::template::Piece;
use paravt_suite::protocol::{AgentLoop, Instructions, PromptMode, Protocol, Source, Template, Tool};

/// The one mode of an agent's protocol.
const MODE: &str = "agent";

/// What the protocols of agents differ in.
pub struct Parts {
    pub name: &'static str,
    pub source: Source,
    /// The system text, empty for none.
    pub system: String,
    /// The tag or function by which the tool is called, and the maximum of frames of a call.
    pub tool: (&'static str, usize),
    /// Texts of the questions by split, else by kind.
    pub questions: BTreeMap<String, Template>,
    pub agent: AgentLoop,
    /// Most tokens of a reply.
    pub max_tokens: u32,
}

/// A protocol of one mode, without the texts of the reference's loop.
pub fn protocol(parts: Parts) -> Protocol {
    let mode = PromptMode::named(MODE);
    let (name, max_frames) = parts.tool;
    Protocol {
        name: parts.name.to_owned(),
        source: parts.source,
        system: IndexMap::from([(mode.clone(), parts.system)]),
        default_mode: mode.clone(),
        images: false,
        tool: Tool {
            // A model of one turn has no tool.
            modes: (parts.agent.turns() > 1).then_some(mode).into_iter().collect(),
            name: name.to_owned(),
            max_frames,
            ..Tool::default()
        },
        instructions: Instructions::default(),
        questions: parts.questions,
        option_line: Template::parse("{letter}. {option}"),
        option_separator: "\n".to_owned(),
        option_forms: BTreeMap::new(),
        subtitles_block: Template::default(),
        duration_note: None,
        video_path: None,
        force: BTreeMap::new(),
        crop_response: Template::default(),
        crop_error: Template::default(),
        call_error: Template::default(),
        subagent_response: Template::default(),
        subagent_prompt: Template::default(),
        frame_label: None,
        chat_tools: None,
        reference: Some(parts.name.to_owned()),
        agent: Some(parts.agent),
        max_tokens: parts.max_tokens,
    }
}

/// Question texts by split, else by kind.
pub fn questions<const N: usize>(texts: [(&str, &str); N]) -> BTreeMap<String, Template> {
    texts.map(|(name, text)| (name.to_owned(), Template::parse(text))).into()
}

/// A text of a template.
pub fn text(text: impl Into<String>) -> Piece {
    Piece::Text(text.into())
}

/// A slot of a template.
pub fn slot(name: &str) -> Piece {
    Piece::Slot(name.to_owned())
}
