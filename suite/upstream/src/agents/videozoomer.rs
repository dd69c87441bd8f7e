//! VideoZoomer (zsgvivo/VideoZoomer 5638153): an overview, and windows in another frame rate.
//!
//! The wording around question and options is not published: it is ours. A chat API puts a line break before each
//! message of the user, which the release's token stream does not have.

use paravt_suite::media::VideoFacts;
use paravt_suite::protocol::template::Piece;
use paravt_suite::protocol::{
    AgentLoop, CallError, Encoding, Fidelity, Filter, FramePolicy, Overview, Protocol, Sampling, Scored,
    SizeRule, Source, Template, Tool,
};
use paravt_suite::record::Score;
use paravt_suite::reference::{Call, Look, Looks, Reference, Tag, ToolSyntax, View};
use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;
use paravt_suite::span::TimeSpan;
use serde_json::{Value, json};

use super::{Parts, choice, protocol, questions, shape};
use crate::import::shapes::Module;
use crate::import::{Files, ImportError, Pinned, Release};
use crate::videozoomer::{Zoom, answer, call, frames, is_right, overview};

/// VideoZoomer's rules.
pub const REFERENCE: Reference = Reference::of("videozoomer", &VideoZoomer);

const SETTINGS: &str = "scripts/eval_video.sh";
const LOOP: &str = "verl/workers/rollout/vllm_rollout/vllm_async_engine.py";
const TOOL: &str = "verl/workers/rollout/vllm_rollout/function_tools.py";

/// The release: its texts, and the files whose rules are repeated here.
pub static RELEASE: Release = Release {
    name: "videozoomer",
    repository: "zsgvivo/VideoZoomer",
    commit: "56381538bbde43d6d3417b54f727784958a4e316",
    files: &[
        Pinned::new(SETTINGS, "25e6ef28d85dc9d2eefe396900b856ac89c4690c0a9ebf401630312923286ed5"),
        Pinned::new(LOOP, "45673364b90f142557113a1037d1255d8d769649c5649e84d6bee356e6004356"),
        Pinned::new(TOOL, "99f730ff8fedd4c6e6a54725f46d88d5d46eb935315cae68d82e29c88ebde104"),
        Pinned::new(
            "verl/utils/dataset/multimodal_dataset.py",
            "94139755ed690bc1c8596068e650f7dc3b813a0e89c66c82b8648f24b107bd52",
        ),
        Pinned::new(
            "verl/utils/reward_score/openr1.py",
            "064ad89396f532417b02744d3475741dd5639ab05d2f6ee5393f460855817ad3",
        ),
    ],
    make,
};

struct VideoZoomer;

impl ToolSyntax for VideoZoomer {
    fn tags(&self) -> &'static [Tag] {
        &[("<video_zoom>", "</video_zoom>")]
    }

    fn calls(&self, text: &str, _tool: &Tool) -> Vec<Call> {
        let found = call(text).map(|found| match found {
            Ok(Zoom { start, end, fps }) => Call {
                value: json!({"segment": [start, end], "fps": fps}),
                window: Ok(TimeSpan { start, end }),
            },
            Err(reason) => Call { value: Value::Null, window: Err(CallError::Unreadable { reason }) },
        });
        found.into_iter().collect()
    }
}

impl Looks for VideoZoomer {
    fn overview(&self, wanted: &Overview, video: &VideoFacts) -> Look {
        let rate = wanted.fps.unwrap_or(video.rate);
        Look::at(overview(video.frames, video.rate, rate, wanted.frames), video.rate)
    }

    fn look(&self, call: &Call, view: &View<'_>) -> Result<Look, String> {
        let Ok(TimeSpan { start, end }) = call.window else { return Err(String::new()) };
        // JSON has no name for an infinite rate, which the release cannot make an integer of.
        let fps = call.value["fps"].as_f64().unwrap_or(f64::INFINITY);
        let indices = frames(Zoom { start, end, fps }, view.video.rate, view.video.frames, view.max_frames)?;
        Ok(Look::at(indices, view.video.rate))
    }
}

impl Scorer for VideoZoomer {
    fn score(&self, gold: &Gold, _letters: &str, text: &str) -> Score {
        choice(gold, Some(answer(&[text])), is_right)
    }
}

/// The system text: the argument in single quotes, without the quotes around its value; `\"` is a quote there, and
/// nothing else is escaped.
fn system_text(settings: &str) -> Result<String, ImportError> {
    let wanted = || shape(SETTINGS, "'data.system_prompt=\"…\"'");
    let (_, after) = settings.split_once("'data.system_prompt=\"").ok_or_else(wanted)?;
    let (text, _) = after.split_once("\"'").ok_or_else(wanted)?;
    Ok(text.replace("\\\"", "\""))
}

/// A raw turn without the marks of the chat template around it.
fn turn(pieces: &[Piece]) -> Option<Vec<Piece>> {
    let mut pieces = pieces.to_vec();
    let Some(Piece::Text(first)) = pieces.first_mut() else { return None };
    *first = first.strip_prefix("<|im_start|>user\n")?.to_owned();
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (joined.last_mut(), piece) {
            (_, Piece::Text(text)) if text.is_empty() => {}
            (Some(Piece::Text(before)), Piece::Text(text)) => before.push_str(&text),
            (_, piece) => joined.push(piece),
        }
    }
    Some(joined)
}

/// The texts of the loop: a result, what follows an error, the sentence before the last turn.
fn texts(files: &Files) -> Result<(Template, String, String), ImportError> {
    let module = Module::parse(LOOP, files.required(LOOP)?)?;
    let function = module.class("AsyncvLLMEngine")?.function("process_tool_call")?;
    let wanted = || shape(LOOP, "the messages of process_tool_call");
    let sums = function.sums("tool_call_prompt_message");
    let mut turns = sums.iter().filter_map(|sum| turn(&sum.0));
    let (mut result, error) = (turns.next().ok_or_else(wanted)?, turns.next().ok_or_else(wanted)?);
    let frames = result.iter_mut().find(|piece| **piece == Piece::Slot("vision_pad".to_owned()));
    *frames.ok_or_else(wanted)? = Piece::Slot("frames".to_owned());
    let after_error = match &error[..] {
        [Piece::Slot(outputs), Piece::Text(text)] if outputs == "tool_outputs" => text.clone(),
        _ => return Err(wanted()),
    };
    // What is appended: the sentence, and the marks of the chat template.
    let appended = sums.iter().filter_map(|sum| match &sum.0[..] {
        [Piece::Text(text)] if !text.contains("<|im_") => Some(text.clone()),
        _ => None,
    });
    let last = appended.reduce(|first, other| if first == other { first } else { String::new() });
    Ok((Template(result), after_error, last.filter(|text| !text.is_empty()).ok_or_else(wanted)?))
}

fn followed_by(mut template: Template, text: &str) -> Template {
    match template.0.last_mut() {
        Some(Piece::Text(last)) => last.push_str(text),
        _ => template.0.push(Piece::Text(text.to_owned())),
    }
    template
}

fn make(files: &Files, source: Source) -> Result<Protocol, ImportError> {
    let (result, after_error, last_turn) = texts(files)?;
    let module = Module::parse(LOOP, files.required(LOOP)?)?;
    let function = module.class("AsyncvLLMEngine")?.function("process_tool_call")?;
    let call_error = function.template_with(&["reason"])?;
    let tool = Module::parse(TOOL, files.required(TOOL)?)?.function("extract_video_clip")?;
    let crop_error = tool.returned_template(&["reason"])?;
    let lettered = "\n{question}\n{options}";
    let questions = questions([
        ("videomme", lettered),
        ("longvideobench", lettered),
        ("mlvu", lettered),
        ("lvbench", "\n{question}"),
    ]);
    let agent = AgentLoop {
        last_turn,
        scored: Scored::All,
        frames: Some(FramePolicy {
            overview: Some(Overview { frames: 64, fps: Some(0.5), at_least: None }),
            ..FramePolicy::new(SizeRule::Pixels { min: 25_088, max: 100_352 }, Filter::Lanczos, Encoding::Png)
        }),
        sampling: Sampling {
            stop: vec!["</video_zoom>".to_owned()],
            // Its engine is given none; a server would take that of the model's folder.
            repetition_penalty: Some(1.0),
            ..Sampling::default()
        },
        ..AgentLoop::new(Fidelity::WordingOurs, 5)
    };
    Ok(Protocol {
        crop_response: result,
        call_error: followed_by(call_error, &after_error),
        crop_error: followed_by(crop_error, &after_error),
        frame_label: Some(Template::parse("<frame{index}_time{time2}s>")),
        ..protocol(Parts {
            name: RELEASE.name,
            source,
            system: system_text(files.required(SETTINGS)?)?,
            tool: ("video_zoom", 16),
            questions,
            agent,
            max_tokens: 4096,
        })
    })
}
