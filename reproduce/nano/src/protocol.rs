//! The world's own protocol: few words, because every token is paid for on a small machine.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use paravt_suite::protocol::{Force, Instructions, PromptMode, Protocol, Source, Template, native};

/// System text of modes with the tool.
const TOOL: &str = "Answer about the video. To look closer, call crop_video with start_time and end_time, \
                    several windows at once if needed. Think first.";

fn force(text: &str) -> Force {
    Force { text: format!("No more windows. {text}"), max_tokens: 96 }
}

/// One call, the answer alone.
pub(crate) fn direct() -> PromptMode {
    PromptMode::named("direct")
}

/// One call, thoughts before the answer.
pub(crate) fn reasoning() -> PromptMode {
    PromptMode::named("reasoning")
}

/// The protocol `nano`.
pub fn protocol() -> Protocol {
    let letter = "Answer with a letter.";
    let question = |end: &str| Template::parse(&format!("{{subtitles_block}}{{duration_note}}\n{end}"));
    Protocol {
        name: "nano".to_owned(),
        source: Source {
            repository: "paravt-bench".to_owned(),
            commit: env!("CARGO_PKG_VERSION").to_owned(),
            files: BTreeMap::new(),
            pinned: true,
        },
        system: IndexMap::from([
            (direct(), "Answer about the video.".to_owned()),
            (reasoning(), "Answer about the video. Think first.".to_owned()),
            (PromptMode::named("agentic_general"), TOOL.to_owned()),
            (PromptMode::named("agentic_minimal"), TOOL.to_owned()),
            (PromptMode::named("native"), TOOL.to_owned()),
        ]),
        default_mode: PromptMode::named("native"),
        tool: native::tool(),
        instructions: Instructions {
            modes: IndexMap::from([(direct(), letter.to_owned())]),
            other: letter.to_owned(),
            neutral: Some(letter.to_owned()),
            neutral_agentic: Some(letter.to_owned()),
        },
        questions: BTreeMap::from([
            ("choice".to_owned(), question("{question}\n{options}\n{instruction}")),
            ("grounding".to_owned(), question("When: {caption}\nAnswer with start, end.")),
            ("open".to_owned(), question("{question}\nAnswer with a name.")),
        ]),
        option_line: Template::parse("{letter}. {option}"),
        option_separator: "\n".to_owned(),
        subtitles_block: Template::parse("Subtitles:\n{subtitles}\n"),
        duration_note: Some(Template::parse(" It is {seconds} seconds long.")),
        video_path: None,
        force: BTreeMap::from([
            ("choice".to_owned(), force(letter)),
            ("grounding".to_owned(), force("Answer with start, end.")),
            ("open".to_owned(), force("Answer with a name.")),
        ]),
        crop_response: Template::parse("<tool_response>\n{n} frames\n</tool_response>"),
        crop_error: Template::parse("<tool_response>\nno frames\n</tool_response>"),
        call_error: Template::parse("<tool_response>\nnot understood: {reason}\n</tool_response>"),
        // The interval is not repeated: the summary has its own times.
        subagent_response: Template::parse("<tool_response>\n{summary}\n</tool_response>"),
        // Without the question: what a sub-agent sees does not depend on why it was asked.
        subagent_prompt: Template::parse("From {start} to {end} s: list what you see with times."),
        frame_label: Some(Template::parse("{time}")),
        chat_tools: None,
        reference: None,
        max_tokens: 256,
    }
}
