//! Agents with protocols of their own: their calls, frames and answers for the loop, and the import of their texts.
//!
//! The arithmetic is in the modules beside this one ([`conan`](crate::conan), …); here it meets the interfaces of
//! [`paravt_suite::reference`].

pub mod conan;
pub mod eva;
pub mod framethinker;
pub mod longvt;
pub mod pyvision;
pub mod sage;
pub mod single;
pub mod video_o3;
pub mod videozoomer;

use std::collections::BTreeMap;

use indexmap::IndexMap;
use paravt_suite::protocol::template::Piece;
use paravt_suite::protocol::{AgentLoop, Instructions, PromptMode, Protocol, Source, Template, Tool};
use paravt_suite::record::{Outcome, Score};
use paravt_suite::sample::Gold;

use crate::import::ImportError;

/// The one mode of an agent's protocol.
const MODE: &str = "agent";
/// Rule of an answer that an agent's own extraction found.
const RULE: &str = "own";

/// What the protocols of agents differ in.
struct Parts {
    name: &'static str,
    source: Source,
    system: String,
    /// The tag or function by which the tool is called, and the maximum of frames of a call.
    tool: (&'static str, usize),
    questions: BTreeMap<String, Template>,
    agent: AgentLoop,
    max_tokens: u32,
}

/// A protocol of one mode, without the texts of the reference's loop.
fn protocol(parts: Parts) -> Protocol {
    let mode = PromptMode::named(MODE);
    let (name, max_frames) = parts.tool;
    Protocol {
        name: parts.name.to_owned(),
        source: parts.source,
        system: IndexMap::from([(mode.clone(), parts.system)]),
        default_mode: mode.clone(),
        tool: Tool {
            // A model of one turn has no tool.
            modes: (parts.agent.turns > 1).then_some(mode).into_iter().collect(),
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
fn questions<const N: usize>(texts: [(&str, &str); N]) -> BTreeMap<String, Template> {
    texts.map(|(name, text)| (name.to_owned(), Template::parse(text))).into()
}

/// The score of a choice question; `prediction` is what the agent takes for the answer, `None` where it finds none.
fn choice(gold: &Gold, prediction: Option<String>, is_right: impl Fn(&str, &str) -> bool) -> Score {
    let unparsed = Score { outcome: Outcome::Unparsed, value: 0.0, prediction: None, rule: None };
    match (gold, prediction) {
        (Gold::Choice { answer }, Some(found)) if !found.is_empty() => Score {
            outcome: Outcome::Scored,
            value: f64::from(u8::from(is_right(&found, answer))),
            prediction: Some(found),
            rule: Some(RULE.to_owned()),
        },
        _ => unparsed,
    }
}

fn text(text: impl Into<String>) -> Piece {
    Piece::Text(text.into())
}

fn slot(name: &str) -> Piece {
    Piece::Slot(name.to_owned())
}

/// A text with slots in braces, as `str.format` has it.
fn format_template(file: &'static str, name: &str, text: &str) -> Result<Template, ImportError> {
    Template::read(text).map_err(|problem| shape(file, format!("{name} as text with slots ({problem})")))
}

fn shape(file: &'static str, wanted: impl Into<String>) -> ImportError {
    ImportError::Shape { file, wanted: wanted.into(), line: None }
}
