//! LongVT (EvolvingLMMs-Lab/LongVT 08d755b): a tool of the chat API, frames of `fetch_video`, results that the next request
//! alone has, the [answer](answers) of a conversation. Its harness is lmms-eval 75571cf (`models/chat/async_openai.py`,
//! `protocol.py`), its tool a server of FastMCP (`examples/video_tools/mcp_server.py`, whose windows are checked here).
//!
//! Where the authors' file is, is not published: the model is shown the name of the video. A call with another name
//! finds no file, as there. The release sets no limit to the turns.

pub mod answers;

use std::collections::{BTreeMap, BTreeSet};

use paravt_python::{float, repr_float, strip};
use paravt_suite::agent::turns::FrameSetup;
use paravt_suite::agent::{Ask, Conversation, Kit, Loop, Reference, SpecialFields, protocol_error, scored};
use paravt_suite::media::{Sampling as Frames, VideoFacts, VideoRequest, frame_indices};
use paravt_suite::message::{Message, Part, Role, StructuredCall};
use paravt_suite::protocol::render::{self, RenderError};
use paravt_suite::protocol::template::Piece;
use paravt_suite::protocol::{
    AgentLoop, CallError, CallMessages, ChatTools, Encoding, Fidelity, Filter, FrameLoop, FramePolicy,
    Harness, History, Overview, Protocol, ResultRole, Scored, SizeRule, Source, Template, Tool,
};
use paravt_suite::record::{Outcome, SampleError, Score, ToolOutcome, Transcript};
use paravt_suite::reference::{Call, FrameChoice, Tag, ToolSyntax};
use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;
use paravt_suite::span::TimeSpan;
use paravt_suite::text::between;
use paravt_upstream::import::parts::{Parts, protocol, slot, text};
use paravt_upstream::import::{ImportError, Pinned, Release, Text, Texts};
use serde_json::{Value, json};

use crate::agent::{Agent, RULE, choice};
use crate::{temporal_grounding, videochat_r1};
use answers::{answer, is_right, simplified};

/// LongVT: its rules and its texts.
pub(crate) const AGENT: Agent =
    Agent { reference: Some(Reference::of("longvt", &LongVt)), releases: &[&RELEASE] };

const VIDEO_MME: &str = "lmms_eval_tasks/videomme/utils.py";
const MOMENTS: &str = "lmms_eval_tasks/charades_sta/charades_tool.yaml";
const SERVER: &str = "examples/video_tools/mcp_server.py";
/// The tool.
const CROP: &str = "crop_video";

/// The release: its texts, and the files whose rules are repeated here.
pub static RELEASE: Release = Release {
    name: "longvt",
    repository: "EvolvingLMMs-Lab/LongVT",
    commit: "08d755b973e4ad990ac5cdd64fb992c804d840db",
    files: &[
        Pinned::new(VIDEO_MME, "e3ab771e0c70cceb0bcb6c084781d7c43f623b39795c88ea5c6a1a73544e68fa"),
        Pinned::new(
            "lmms_eval_tasks/lvbench/utils.py",
            "c06fd2176ec0a41c224699b63fa85a040540938c0e3e2240acb5f10f4a2091b7",
        ),
        Pinned::new(
            "lmms_eval_tasks/longvideobench/utils.py",
            "6ffbc7e1a80e9128a2c31976faef98e33c5c7eea087b836351cfb40f82d81959",
        ),
        Pinned::new(
            "lmms_eval_tasks/charades_sta/utils.py",
            "0cdf863c792aca8b3910c13aa89bbb81b15249b59c31d7c2046fbd9b719966a8",
        ),
        Pinned::new(MOMENTS, "62a80ae3118cfefb8211c09cb6b51366e55bfb0072f4c5314744f2bc041c3c07"),
        Pinned::new(SERVER, "0c3d2505355ff03a00eaee5013c401f246c70f25f7170f4cc210cac0ec7a5541"),
        Pinned::new(
            "lmms_eval_tasks/videomme/videomme_tool.yaml",
            "848f949fb3966aae94a208b4ae75d233666f38dec0efff4163c5d2798c66a3bd",
        ),
        Pinned::new(
            "lmms_eval_tasks/videomme/videomme_w_subtitle_tool.yaml",
            "34771e9d9fc284e6c5432b425571a485df6fee42466989b0808914a6634b0cc0",
        ),
        Pinned::new(
            "lmms_eval_tasks/lvbench/lvbench_tool.yaml",
            "a486597e35a53c9a6cdd7f197573248377e52b0a02116e9fd14a8fbac20ba665",
        ),
        Pinned::new(
            "lmms_eval_tasks/longvideobench/longvideobench_val_v_tool.yaml",
            "a62b1e4f43faa0bb2d785503673a1189d15437756517846fb2c2001a23b9fa89",
        ),
        Pinned::new(
            "custom_rewards/lmms_lab_recipe.py",
            "c2b0747eb540a7b653687ae6d64c559715e274c620cd93ef1abb8103e5a06797",
        ),
        Pinned::new(
            "examples/eval/run_eval.sh",
            "35e2287253605d80527a5048a8169e48d87187547f5e0e4db67e503aa4bea4a9",
        ),
    ],
    texts: &[
        Text::python("tool_prompt", VIDEO_MME, 1835..2009),
        Text::python("videomme.start", VIDEO_MME, 4852..4956),
        Text::python("videomme_wsub.start", VIDEO_MME, 8125..8229),
        Text::python("subtitles", VIDEO_MME, 6223..6268),
        Text::python("charades.start", MOMENTS, 767..1229),
        Text::python("charades.end", MOMENTS, 1247..1291),
        Text::python("tool", SERVER, 1270..1309),
        Text::python("video_path", SERVER, 1376..1400),
        Text::python("start_time", SERVER, 1462..1485),
        Text::python("end_time", SERVER, 1545..1588),
        Text::python("path_missing", SERVER, 2221..2255),
        Text::python("start_missing", SERVER, 2363..2397),
        Text::python("end_missing", SERVER, 2501..2533),
        Text::python("path_empty", SERVER, 2709..2737),
        Text::python("negative", SERVER, 2846..2898).slots(&["start_time"]),
        Text::python("reversed", SERVER, 3047..3118).slots(&["end_time", "start_time"]),
        Text::python("not_found", SERVER, 3279..3316).slots(&["video_path"]),
        Text::python("behind", SERVER, 3768..3838).slots(&["start_time", "duration"]),
        Text::python("too_long", SERVER, 3893..3959).slots(&["end_time", "duration"]),
        Text::python("failed", SERVER, 4957..5006).slots(&["video_path", "reason"]),
    ],
    make,
};

struct LongVt;

impl ToolSyntax for LongVt {
    fn tags(&self) -> &'static [Tag] {
        &[("<tool_call>", "</tool_call>")]
    }

    /// Calls that a server with a Hermes parser would have taken out of the text; the release runs none of them.
    fn calls(&self, text: &str, tool: &Tool) -> Vec<Call> {
        let written = between(text, "<tool_call>", "</tool_call>").filter_map(|body| {
            let body: Value = serde_json::from_str(body).ok()?;
            let (name, arguments) = (body["name"].as_str()?.to_owned(), body.get("arguments")?.to_string());
            Some(self.structured(&StructuredCall { id: String::new(), name, arguments }, tool))
        });
        written.collect()
    }

    /// The harness evaluates the arguments as Python: JSON's `null`, `true` and `false` are names that it does not
    /// have, and the whole sample fails.
    fn structured(&self, call: &StructuredCall, _tool: &Tool) -> Call {
        let arguments: Option<Value> = serde_json::from_str(&call.arguments).ok();
        match arguments.filter(|value| value.is_object() && is_python(value)) {
            Some(arguments) => {
                let time = |name: &str| arguments.get(name).and_then(number).unwrap_or(f64::NAN);
                let window = TimeSpan::new(time("start_time"), time("end_time"));
                Call { value: json!({ "name": call.name, "arguments": arguments }), window: Ok(window) }
            }
            None => {
                let reason = format!("the harness cannot evaluate the arguments `{}`", call.arguments);
                let value = json!({ "name": call.name, "arguments": call.arguments });
                Call { value, window: Err(CallError::Unreadable { reason }) }
            }
        }
    }
}

/// Whether Python reads a JSON value.
fn is_python(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::Array(items) => items.iter().all(is_python),
        Value::Object(fields) => fields.values().all(is_python),
        Value::Number(_) | Value::String(_) => true,
    }
}

/// A number, also one that is written as a text.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| float(value.as_str()?))
}

/// One frame per second in windows and in the overview.
fn per_second(min_frames: usize, max_frames: usize) -> VideoRequest {
    let sampling = Frames::Fps { fps: 1.0, min_frames, max_frames: Some(max_frames) };
    VideoRequest { sampling, ..VideoRequest::at_default_rate() }
}

impl Loop for LongVt {
    /// As `async_openai` of lmms-eval writes the turns: text, calls and each result are messages of their own, and the next
    /// request alone has the results. A call that cannot be read ends the conversation.
    fn run<'a>(&'a self, kit: &'a mut Kit<'_>) -> Conversation<'a> {
        Box::pin(async move {
            let FrameSetup { frame_loop, policy, system, video } = kit.set_up_frames().await?;
            let shown = kit.show_overview(&policy, &video, |wanted| overview(wanted, &video)).await?;
            let frames = kit.frame_parts(&policy, &shown, None);
            let frames = frames.map_err(|error| protocol_error("open", &error))?;
            kit.open(system, (Some(&video), &[]), frames)?;
            let mut results = Vec::new();
            for turn in 0.. {
                let reply = kit.ask(Ask { then: std::mem::take(&mut results), ..kit.turn() }).await?;
                if !kit.offers_tool() {
                    return kit.continue_answer(reply).await;
                }
                let calls = kit.calls(&reply);
                if calls.is_empty() || frame_loop.is_last(turn) {
                    return Ok(reply.text);
                }
                for (index, call) in calls.iter().enumerate() {
                    let Some(parts) = answer_call(kit, &policy, index, call).await? else {
                        return Ok(reply.text);
                    };
                    let mut result = Message::parts(frame_loop.result_role.into(), parts);
                    result.tool_call_id = reply.tool_calls.get(index).map(|call| call.id.clone());
                    results.push(result);
                }
                kit.messages.push(Message::text(Role::Assistant, reply.text));
                kit.messages.push(Message::calls("", reply.tool_calls));
                if kit.agent_loop()?.harness.history == History::Kept {
                    kit.messages.append(&mut results);
                }
            }
            unreachable!("the last turn ends the conversation")
        })
    }

    fn scored_text(&self, agent_loop: &AgentLoop, transcript: &Transcript) -> String {
        match agent_loop.scored {
            Scored::Joined => joined(transcript),
            scored => scored::text(scored, transcript),
        }
    }

    fn fields(&self) -> SpecialFields {
        SpecialFields {
            needed: &["harness.calls"],
            allowed: &["frames.overview", "harness.calls", "harness.history", "harness.errors", "scored"],
        }
    }
}

/// Runs a call; the parts of its result, `None` for one that cannot be read.
async fn answer_call(
    kit: &mut Kit<'_>,
    policy: &FramePolicy,
    index: usize,
    call: &Call,
) -> Result<Option<Vec<Part>>, SampleError> {
    let broken = |error: RenderError| protocol_error("tool", &error);
    if let Err(error) = &call.window {
        let reason = render::call_reason(kit.protocol(), error).map_err(broken)?;
        kit.note_tool_call(index, call, ToolOutcome::Malformed { reason });
        return Ok(None);
    }
    let shown = match kit.facts().await {
        Ok(video) => match run_tool(call, &video, kit) {
            Ok(choice) => kit.show(policy, &video, choice).await.map_err(|lost| kit.note_loss(lost)),
            Err(reason) => Err(reason),
        },
        Err(lost) => Err(kit.note_loss(lost)),
    };
    let (parts, outcome) = match shown {
        Ok(shown) => {
            let frames = shown.iter().filter_map(|(image, _)| image.origin).collect();
            (kit.frame_parts(policy, &shown, None).map_err(broken)?, ToolOutcome::Frames { frames })
        }
        Err(reason) => {
            let outcome = ToolOutcome::CropFailed { reason };
            let text = kit.error_text(call.span(), &outcome).transpose().map_err(broken)?;
            (vec![Part::Text(text.unwrap_or_default())], outcome)
        }
    };
    kit.note_tool_call(index, call, outcome);
    Ok(Some(parts))
}

/// The frames that a call shows, or the words of the server about it.
fn run_tool(call: &Call, video: &VideoFacts, kit: &Kit<'_>) -> Result<FrameChoice, String> {
    let name = call.value["name"].as_str().unwrap_or_default();
    if name != CROP {
        return Err(format!("Unknown tool: {name}"));
    }
    let none = BTreeMap::new();
    let tool = CropTool {
        video,
        video_name: kit.sample.video_name(),
        max_frames: kit.protocol().tool.max_frames,
        errors: kit.protocol().agent.as_ref().map_or(&none, |agent_loop| &agent_loop.harness.errors),
    };
    let arguments = &call.value["arguments"];
    crop(&tool, arguments).map_err(|reason| format!("Error executing tool {name}: {reason}"))
}

/// All replies with their calls and results, as lmms-eval 75571cf joins them; empty where a call could not be read, which
/// ends the sample there.
fn joined(transcript: &Transcript) -> String {
    let mut joined = String::new();
    for (turn, reply) in transcript.calls.iter().enumerate() {
        joined.push_str(&reply.text);
        let ran = transcript.tool_calls.iter().filter(|call| call.turn == turn);
        for (call, ran) in reply.tool_calls.iter().zip(ran) {
            let (name, arguments) = (&call.name, &call.arguments);
            joined.push_str(&format!("<tool_call>{name} {arguments}</tool_call></tool_response>"));
            match &ran.outcome {
                ToolOutcome::Frames { frames } => joined.push_str(&"<image_url>".repeat(frames.len())),
                ToolOutcome::CropFailed { reason: text } | ToolOutcome::Text { text } => {
                    joined.push_str(text)
                }
                // The sample failed there; what is scored is a sentence about that.
                ToolOutcome::Malformed { .. } => return String::new(),
                ToolOutcome::Summary { .. }
                | ToolOutcome::Ran { .. }
                | ToolOutcome::CodeFailed { .. }
                | ToolOutcome::Served => {}
            }
            joined.push_str("</tool_response>");
        }
    }
    joined
}

/// Frames of the first turn; a video of less than two frames shows none.
fn overview(wanted: &Overview, video: &VideoFacts) -> FrameChoice {
    let request = VideoRequest {
        sampling: Frames::Fps {
            fps: wanted.fps.unwrap_or(1.0),
            min_frames: 4,
            max_frames: Some(wanted.frames),
        },
        ..per_second(4, wanted.frames)
    };
    FrameChoice::at(frame_indices(&request, video.frames, video.rate).unwrap_or_default(), video.rate)
}

/// The tool over one video.
struct CropTool<'a> {
    video: &'a VideoFacts,
    video_name: String,
    max_frames: usize,
    /// Its texts for what it refuses, by their names here.
    errors: &'a BTreeMap<String, Template>,
}

/// The frames of a window, or the tool's words where it refuses.
fn crop(tool: &CropTool<'_>, arguments: &Value) -> Result<FrameChoice, String> {
    let video = tool.video;
    let duration = if video.rate > 0.0 { video.frames as f64 / video.rate } else { 0.0 };
    let text = |name: &str, reason: &str| refusal(tool, name, arguments, (duration, reason));
    // What has another type is refused before anything else, in words of Pydantic that change with its version.
    let typed = |name: &str, is: fn(&Value) -> bool| match arguments.get(name).is_none_or(is) {
        true => Ok(()),
        false => Err(format!("{name} has another type")),
    };
    typed("video_path", Value::is_string)?;
    typed("start_time", |value| number(value).is_some())?;
    typed("end_time", |value| number(value).is_some())?;
    let path = arguments["video_path"].as_str().ok_or_else(|| text("path_missing", ""))?;
    let start = number(&arguments["start_time"]).ok_or_else(|| text("start_missing", ""))?;
    let end = number(&arguments["end_time"]).ok_or_else(|| text("end_missing", ""))?;
    if strip(path).is_empty() {
        return Err(text("path_empty", ""));
    }
    match check_crop(start, end, duration) {
        Err(CropError::Negative) => return Err(text("negative", "")),
        Err(CropError::Reversed) => return Err(text("reversed", "")),
        _ if path != tool.video_name => return Err(text("not_found", "")),
        Err(CropError::Behind) => return Err(text("behind", "")),
        Err(CropError::TooLong) => return Err(text("too_long", "")),
        Ok(()) => {}
    }
    let request = VideoRequest { start: Some(start), end: Some(end), ..per_second(1, tool.max_frames) };
    let indices = frame_indices(&request, video.frames, video.rate);
    Ok(FrameChoice::at(indices.map_err(|reason| text("failed", &reason))?, video.rate))
}

/// The tool's text of that name.
fn refusal(tool: &CropTool<'_>, name: &str, arguments: &Value, (duration, reason): (f64, &str)) -> String {
    let shown = |name: &str| number(&arguments[name]).map(repr_float).unwrap_or_default();
    let (start, end, duration) = (shown("start_time"), shown("end_time"), format!("{duration:.2}"));
    let values = [
        ("start_time", start.as_str()),
        ("end_time", end.as_str()),
        ("duration", duration.as_str()),
        ("video_path", arguments["video_path"].as_str().unwrap_or_default()),
        ("reason", reason),
    ];
    let template = tool.errors.get(name).cloned().unwrap_or_default();
    template.render(&values).unwrap_or_else(|error| error.to_string())
}

impl Scorer for LongVt {
    fn score(&self, gold: &Gold, _letters: &str, text: &str) -> Score {
        let found = answer(strip(text));
        let Some(wanted) = gold.interval() else {
            return choice(gold, Some(simplified(strip(found)).to_owned()), |found, gold| {
                is_right(found, simplified(gold))
            });
        };
        match temporal_grounding::interval(answer(text)) {
            Some(moment) => Score {
                outcome: Outcome::Scored,
                value: videochat_r1::iou(moment, (wanted.start, wanted.end)),
                prediction: Some(format!("{}-{}", moment.0, moment.1)),
                rule: Some(RULE.to_owned()),
            },
            None => Score { outcome: Outcome::Unparsed, value: 0.0, prediction: None, rule: None },
        }
    }
}

/// Why a window is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CropError {
    #[error("the window starts before the video")]
    Negative,
    /// The end is not after the start.
    #[error("the window ends at or before its start")]
    Reversed,
    /// The start is at the end of the video or behind it.
    #[error("the window starts at or behind the end of the video")]
    Behind,
    /// The end is behind that of the video.
    #[error("the window ends behind the video")]
    TooLong,
}

/// Whether the server crops a window of a video of `duration` seconds, which is its number of frames by their rate.
pub fn check_crop(start: f64, end: f64, duration: f64) -> Result<(), CropError> {
    match () {
        () if start < 0.0 => Err(CropError::Negative),
        () if end <= start => Err(CropError::Reversed),
        () if start >= duration => Err(CropError::Behind),
        () if end > duration => Err(CropError::TooLong),
        () => Ok(()),
    }
}

/// The questions by split, and the subtitles before one.
fn questions(texts: &Texts) -> Result<(BTreeMap<String, Template>, Template), ImportError> {
    let lettered = [slot("question"), text("\n"), slot("options")];
    let behind = |before: Vec<Piece>| Template(before.into_iter().chain(lettered.clone()).collect());
    let line = |name: &str| Ok::<_, ImportError>(text(texts.text(name)? + "\n"));
    let caption = vec![
        text(texts.text("charades.start")?),
        slot("caption"),
        text(format!(". {}", texts.text("charades.end")?)),
    ];
    let questions = [
        ("videomme", behind(vec![line("videomme.start")?])),
        ("videomme_wsub", behind(vec![slot("subtitles_block"), line("videomme_wsub.start")?])),
        ("longvideobench", behind(Vec::new())),
        ("lvbench", Template(vec![slot("question")])),
        ("charades", Template(caption)),
    ];
    let subtitles = vec![text(texts.text("subtitles")?), slot("subtitles"), text("\n")];
    Ok((questions.map(|(split, template)| (split.to_owned(), template)).into(), Template(subtitles)))
}

/// What the tool refuses, by the names of its texts here. A file that cannot be opened has no overview, either: nothing is
/// asked about it.
const ERRORS: [&str; 10] = [
    "path_missing", "start_missing", "end_missing", "path_empty", "negative", "reversed", "not_found",
    "behind", "too_long", "failed",
];

/// The tool as FastMCP 1.13 declares it and clients of the chat API send it.
fn tool(texts: &Texts) -> Result<Value, ImportError> {
    let property = |name: &str, title: &str, kind: &str| {
        let description = texts.text(name)?;
        Ok::<_, ImportError>(
            json!({ "default": null, "description": description, "title": title, "type": kind }),
        )
    };
    let parameters = json!({
        "properties": {
            "video_path": property("video_path", "Video Path", "string")?,
            "start_time": property("start_time", "Start Time", "number")?,
            "end_time": property("end_time", "End Time", "number")?,
        },
        "title": format!("{CROP}Arguments"),
        "type": "object",
    });
    let description = texts.text("tool")?;
    Ok(json!({
        "type": "function",
        "function": { "name": CROP, "description": description, "parameters": parameters },
    }))
}

fn make(texts: &Texts, source: Source) -> Result<Protocol, ImportError> {
    let (questions, subtitles_block) = questions(texts)?;
    let mut errors = BTreeMap::new();
    for name in ERRORS {
        errors.insert(name.to_owned(), texts.template(name)?);
    }
    let long = ["videomme", "videomme_wsub", "charades"];
    let harness = Harness {
        // Its task has no prompt of the tool. Subtitles are all of the file, there those of 32 frames.
        openings: BTreeMap::from([("videomme_wsub".to_owned(), Template::parse("{frames}{question}"))]),
        variants: BTreeSet::from(["videomme_wsub".to_owned()]),
        note: Some(Template::parse("\nVideo 0 has video path: {video_name}")),
        calls: CallMessages::OneMessagePerCall,
        history: History::NextRequestOnly,
        max_tokens: long.map(|split| (split.to_owned(), 49_152)).into(),
        errors,
    };
    let policy = FramePolicy {
        overview: Some(Overview { frames: 768, fps: Some(1.0), at_least: None }),
        ..FramePolicy::new(
            SizeRule::Qwen { side: 28, min: 784, max: Some(50_176), total: None },
            Filter::Bicubic,
            Encoding::Png,
        )
    };
    let frames = FrameLoop { result_role: ResultRole::Tool, ..FrameLoop::new(32, policy) };
    let agent = AgentLoop {
        opening: Template(vec![
            slot("frames"),
            slot("stripped"),
            text(format!(" {}", texts.text("tool_prompt")?)),
        ]),
        scored: Scored::Joined,
        harness,
        ..AgentLoop::new(Fidelity::WordingOurs, frames)
    };
    let mut made = protocol(Parts {
        name: RELEASE.name,
        source,
        system: String::new(),
        tool: (CROP, 128),
        questions,
        agent,
        max_tokens: 4096,
    });
    made.tool.start = vec!["start_time".to_owned()];
    made.tool.end = vec!["end_time".to_owned()];
    made.chat_tools = Some(ChatTools { definition: tool(texts)?, system: indexmap::IndexMap::new() });
    made.crop_error = Template::parse("{reason}");
    made.subtitles_block = subtitles_block;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows() {
        assert_eq!(check_crop(1.0, 2.0, 2.0), Ok(()));
        assert_eq!(check_crop(-1.0, 2.0, 2.0), Err(CropError::Negative));
        assert_eq!(check_crop(2.0, 2.0, 2.0), Err(CropError::Reversed));
        assert_eq!(check_crop(2.0, 3.0, 2.0), Err(CropError::Behind));
        assert_eq!(check_crop(1.0, 3.0, 2.0), Err(CropError::TooLong));
    }
}
