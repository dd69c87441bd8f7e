//! The suite's own protocol, in our own words: the default where no upstream was imported.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use super::{ChatTools, Force, Instructions, PromptMode, Protocol, Source, Template, Tool, VideoPathSuffix};

/// Text about the tool, in every mode with it.
const TOOL: &str = r#"You have one tool, crop_video. It shows you a window of this video in detail: up to 16 frames, one per second. Call it like this, with times in seconds from the start of the video:
<tool_call>
{"name": "crop_video", "arguments": {"start_time": 12.0, "end_time": 20.0}}
</tool_call>"#;

/// Text about the final answer's place.
const ANSWER: &str =
    "Put your final answer between <answer> and </answer>, once, and nothing else inside the tags.";

/// The same where the chat API says how a call is written.
const CHAT_TOOL: &str = "You have one tool, crop_video. It shows you a window of this video in detail: up to 16 \
                         frames, one per second. Give times in seconds from the start of the video.";

/// One call, short system text.
const DIRECT: &str = "direct";
/// One call, think-then-answer system text.
const REASONING: &str = "reasoning";
/// Tool loop in few words.
const AGENTIC_GENERAL: &str = "agentic_general";
/// Tool loop with the bare description of the tool.
const AGENTIC_MINIMAL: &str = "agentic_minimal";
/// Tool loop with advice on how to look.
const NATIVE: &str = "native";

const LOOK: &str = "You answer questions about a video.";

fn system() -> IndexMap<PromptMode, String> {
    let mut texts = IndexMap::from([
        (
            PromptMode::named(DIRECT),
            format!("{LOOK} You see frames sampled evenly over its whole length. {ANSWER}"),
        ),
        (
            PromptMode::named(REASONING),
            format!(
                "{LOOK} Reason first, between <think> and </think>, about what the frames show. {ANSWER}"
            ),
        ),
    ]);
    texts.extend(tool_modes(TOOL));
    texts
}

/// The texts of the modes that have the tool.
fn tool_modes(tool: &str) -> IndexMap<PromptMode, String> {
    IndexMap::from([
        (PromptMode::named(AGENTIC_GENERAL), format!("{LOOK} {tool}\n{ANSWER}")),
        (PromptMode::named(AGENTIC_MINIMAL), tool.to_owned()),
        (
            PromptMode::named(NATIVE),
            format!(
                "{LOOK} The frames you see first are an overview, sampled evenly over its whole length; what is \
                 short may fall between them. {tool}\nWhere several windows could matter, write several calls \
                 in one turn: they run at the same time. Think between <think> and </think> before you call or \
                 answer. {ANSWER}"
            ),
        ),
    ])
}

/// The tool of this protocol, which is the released driver's (ParaVT cf55249 `paravt/eval/driver.py`
/// `eval_one`): both spellings of its arguments, ten seconds without an end, the words of its exceptions.
pub fn tool() -> Tool {
    let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
    Tool {
        modes: [AGENTIC_GENERAL, AGENTIC_MINIMAL, NATIVE].map(PromptMode::named).into(),
        name: "crop_video".to_owned(),
        start: names(["start_time", "start"]),
        end: names(["end_time", "end"]),
        default_seconds: 10.0,
        max_frames: 16,
        not_an_object: Template::parse("'{found}' object has no attribute 'get'"),
        too_large: Template::parse("int too large to convert to float"),
    }
}

/// `tools` of the chat API.
fn chat_tools() -> ChatTools {
    let time = |what: &str| serde_json::json!({"type": "number", "description": what});
    let definition = serde_json::json!({
        "type": "function",
        "function": {
            "name": "crop_video",
            "description": "Shows a window of the video in detail: up to 16 frames, one per second.",
            "parameters": {
                "type": "object",
                "properties": {
                    "start_time": time("Start of the window, in seconds from the start of the video."),
                    "end_time": time("End of the window, in seconds from the start of the video."),
                },
                "required": ["start_time", "end_time"],
            },
        },
    });
    ChatTools { definition, system: tool_modes(CHAT_TOOL) }
}

fn force(text: &str, max_tokens: u32) -> Force {
    Force { text: format!("No more windows can be shown. {text}"), max_tokens }
}

/// The native protocol.
pub fn protocol() -> Protocol {
    let question = |text: &str| Template::parse(text);
    Protocol {
        name: "native".to_owned(),
        source: Source {
            repository: "paravt-bench".to_owned(),
            commit: env!("CARGO_PKG_VERSION").to_owned(),
            files: BTreeMap::new(),
            pinned: true,
        },
        system: system(),
        default_mode: PromptMode::named(NATIVE),
        tool: tool(),
        instructions: {
            let letter = "Answer with the letter of one option between <answer> and </answer>.";
            Instructions {
                modes: IndexMap::from([(PromptMode::named(DIRECT), letter.to_owned())]),
                other: letter.to_owned(),
                neutral: Some(letter.to_owned()),
                neutral_agentic: Some(format!("Look closer where the overview is not enough. {letter}")),
            }
        },
        questions: BTreeMap::from([
            (
                "choice".to_owned(),
                question(
                    "{subtitles_block}These frames are from one video.{duration_note}\n{question}\n{options}\n{instruction}",
                ),
            ),
            (
                "grounding".to_owned(),
                question(
                    "These frames are from one video.{duration_note}\nWhen does this happen: {caption}\nGive its start and end in seconds, as <answer>start - end</answer>.",
                ),
            ),
            (
                "open".to_owned(),
                question(
                    "These frames are from one video.{duration_note}\n{question}\nAnswer in a few words, between <answer> and </answer>.",
                ),
            ),
        ]),
        option_line: Template::parse("{letter}. {option}"),
        option_separator: "\n".to_owned(),
        subtitles_block: Template::parse("Subtitles of the video:\n{subtitles}\n\n"),
        duration_note: Some(Template::parse(" It is {seconds} seconds long.")),
        video_path: None::<VideoPathSuffix>,
        force: BTreeMap::from([
            ("choice".to_owned(), force("Answer now, with the letter of one option only.", 64)),
            ("grounding".to_owned(), force("Answer now: <answer>start - end</answer>, in seconds.", 128)),
            ("open".to_owned(), force("Answer now, in a few words, between <answer> and </answer>.", 128)),
        ]),
        crop_response: Template::parse(
            "<tool_response>\n{n} frames between {start} s and {end} s.\n</tool_response>",
        ),
        crop_error: Template::parse(
            "<tool_response>\nNo frames between {start} s and {end} s: the window is empty or outside the video.\n</tool_response>",
        ),
        call_error: Template::parse(
            "<tool_response>\nThis call was not understood: {reason}. Give start_time and end_time in seconds.\n</tool_response>",
        ),
        subagent_response: Template::parse(
            "<tool_response>\nSeen between {start} s and {end} s: {summary}\n</tool_response>",
        ),
        subagent_prompt: Template::parse(
            "These {n} frames are the part of a video between {start} s and {end} s. Someone has to answer this \
             question about the whole video:\n{question}\nSay in two or three sentences what these frames show \
             that matters for it, with times. If they show nothing that matters, say so. Do not answer the \
             question yourself.",
        ),
        frame_label: None,
        chat_tools: Some(chat_tools()),
        reference: None,
        max_tokens: 2048,
    }
}
