//! VideoZoomer (zsgvivo/VideoZoomer 5638153): an overview, and windows in another frame rate.
//!
//! Sources below `verl`: `utils/dataset/multimodal_dataset.py` (overview), `workers/rollout/vllm_rollout/`
//! `vllm_async_engine.py` and `function_tools.py` (calls with their errors, frames), `utils/reward_score/openr1.py`
//! (score). The wording around question and options is not published: it is ours. A chat API puts a line break before
//! each message of the user, which the release's token stream does not have.

use paravt_python::{PyValue, linspace, loads, pattern, repr, repr_str, strip, whole};
use paravt_suite::agent::Reference;
use paravt_suite::media::VideoFacts;
use paravt_suite::protocol::template::Piece;
use paravt_suite::protocol::{
    AgentLoop, CallError, Encoding, Fidelity, Filter, FrameLoop, FramePolicy, Overview, Protocol, Sampling,
    Scored, SizeRule, Source, Template, Tool,
};
use paravt_suite::record::Score;
use paravt_suite::reference::{Call, CallContext, CallResult, FrameChoice, FrameRules, Tag, ToolSyntax};
use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;
use paravt_suite::settings::SamplingParams;
use paravt_suite::span::TimeSpan;
use paravt_suite::text::between;
use paravt_upstream::import::parts::{Parts, protocol, questions, slot, text};
use paravt_upstream::import::{ImportError, Pinned, Release, Text, Texts};
use serde_json::{Value, json};

use crate::agent::{Agent, choice};

/// VideoZoomer: its rules and its texts.
pub(crate) const AGENT: Agent =
    Agent { reference: Some(Reference::of("videozoomer", &VideoZoomer)), releases: &[&RELEASE] };

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
    texts: &[
        Text::raw("system", SETTINGS, 940..2235),
        Text::python("result.before", LOOP, 17790..17856),
        Text::python("result.after", LOOP, 17871..18020),
        Text::python("call_error", LOOP, 16932..17048).slots(&["reason"]),
        Text::python("after_error", LOOP, 18932..19090),
        Text::python("last_turn", LOOP, 18121..18210),
        Text::python("crop_error", TOOL, 4561..4606).slots(&["reason"]),
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

impl FrameRules for VideoZoomer {
    fn overview(&self, wanted: &Overview, video: &VideoFacts) -> FrameChoice {
        let rate = wanted.fps.unwrap_or(video.rate);
        FrameChoice::at(overview(video.frames, video.rate, rate, wanted.frames), video.rate)
    }

    fn run(&self, call: &Call, context: &CallContext<'_>) -> Result<CallResult, String> {
        let Ok(TimeSpan { start, end }) = call.window else { return Err(String::new()) };
        // JSON has no name for an infinite rate, which the release cannot make an integer of.
        let fps = call.value["fps"].as_f64().unwrap_or(f64::INFINITY);
        let indices =
            frames(Zoom { start, end, fps }, context.video.rate, context.video.frames, context.max_frames)?;
        Ok(CallResult::Frames(FrameChoice::at(indices, context.video.rate)))
    }
}

impl Scorer for VideoZoomer {
    fn score(&self, gold: &Gold, _letters: &str, text: &str) -> Score {
        choice(gold, Some(answer(&[text])), is_right)
    }
}

/// Indices of the first frames: one every `1 / rate` seconds, or `limit` evenly where those are more.
pub fn overview(total: usize, fps: f64, rate: f64, limit: usize) -> Vec<usize> {
    let step = (fps / rate).round_ties_even().max(1.0) as usize;
    let at_rate: Vec<usize> = (0..total).step_by(step).collect();
    if limit == 0 || at_rate.len() <= limit {
        return at_rate;
    }
    linspace(0.0, total as f64 - 1.0, limit).into_iter().map(|index| index as usize).collect()
}

/// A window in seconds and its frame rate, as asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Zoom {
    /// Start in seconds.
    pub start: f64,
    /// End in seconds.
    pub end: f64,
    /// Frames per second.
    pub fps: f64,
}

/// The call of a reply: the one JSON object in all its `<video_zoom>` blocks. `None` without a block.
///
/// # Errors
/// What the model is shown between the words of the error response: Python's exception, which is empty where
/// there is not exactly one object.
pub fn call(reply: &str) -> Option<Result<Zoom, String>> {
    pattern! { OBJECT = r"\{.*?\}" }
    let mut blocks = between(reply, "<video_zoom>", "</video_zoom>").peekable();
    blocks.peek()?;
    let objects: Result<Vec<PyValue>, String> = blocks
        .flat_map(|block| OBJECT.find_iter(block).map(|found| found.as_str()))
        .map(|object| loads(object).map_err(|error| error.to_string()))
        .collect();
    Some(match objects.as_deref() {
        Ok([object]) => zoom(object).map_err(|error| {
            format!(
                "Invalid input for function `extract_video_clip`. Error: {error}, input: {}",
                repr(object)
            )
        }),
        Ok(_) => Err(String::new()),
        Err(error) => Err(error.clone()),
    })
}

fn zoom(object: &PyValue) -> Result<Zoom, String> {
    let field = |name: &str| object.get(name).ok_or_else(|| repr_str(name));
    let bound = |index: usize| item(field("segment")?, index)?.to_float();
    Ok(Zoom { start: bound(0)?, end: bound(1)?, fps: field("fps")?.to_float()? })
}

/// `value[index]` of a list or a string.
fn item(value: &PyValue, index: usize) -> Result<PyValue, String> {
    match value {
        PyValue::List(items) => items.get(index).cloned().ok_or_else(|| "list index out of range".to_owned()),
        PyValue::Str(text) => {
            let letter = text.chars().nth(index).map(|letter| PyValue::Str(letter.to_string()));
            letter.ok_or_else(|| "string index out of range".to_owned())
        }
        PyValue::Dict(_) => Err(index.to_string()),
        other => Err(format!("'{}' object is not subscriptable", other.type_name())),
    }
}

/// Indices of a window's frames in a video of `total` frames at `fps`, at most `limit` (`extract_video_clip`).
pub fn frames(zoom: Zoom, fps: f64, total: usize, limit: usize) -> Result<Vec<usize>, String> {
    let wanted = zoom.fps * (zoom.end - zoom.start);
    let shown = whole(wanted)?;
    let count = wanted.trunc();
    if count > limit as f64 {
        return Err(format!("Number of frames extracted ({shown}) exceeds the maximum allowed ({limit})."));
    }
    let index = |seconds: f64| whole(seconds * fps).map(|_| (seconds * fps).trunc());
    let last = total as f64 - 1.0;
    let start = index(zoom.start)?.min(last).max(0.0);
    let end = index(zoom.end)?.min(last).max(start);
    if count < 0.0 {
        return Err(format!("Number of samples, {shown}, must be non-negative."));
    }
    Ok(linspace(start, end, count as usize).into_iter().map(|index| index as usize).collect())
}

/// Time of a frame as its label has it, in seconds.
pub fn label(index: usize, fps: f64) -> String {
    format!("{:.2}", index as f64 / fps)
}

/// The answer that all assistant turns together give: what follows their last `<answer>`, up to its end.
pub fn answer(turns: &[&str]) -> String {
    let text = turns.join(" ");
    let answer = text.rsplit("<answer>").next().unwrap_or_default();
    strip(answer.split("</answer>").next().unwrap_or_default()).to_owned()
}

/// Whether an answer is right (`judge_multi_choice`): it is the gold answer, its last box is, or its last capital
/// before a full stop is. A full stop at the end of the gold answer does not count.
pub fn is_right(answer: &str, gold: &str) -> bool {
    pattern! { CHOICE = r"([A-Z])\." }
    let gold = gold.strip_suffix('.').unwrap_or(gold);
    let choice = CHOICE.captures_iter(answer).last().and_then(|found| found.get(1));
    answer == gold || boxed(answer) == gold || choice.is_some_and(|letter| letter.as_str() == gold)
}

/// `extract_boxed_content` of mathruler 0.1.0: the last `\boxed{…}`, or the word `None`.
fn boxed(text: &str) -> &str {
    const OPEN: &str = r"\boxed{";
    let content = text.rfind(OPEN).map(|at| &text[at + OPEN.len()..]);
    let closed = content.and_then(|content| {
        let mut depth = 0_i64;
        let end = content.char_indices().find(|(_, c)| {
            depth += i64::from(*c == '{') - i64::from(*c == '}');
            depth == -1
        });
        end.map(|(at, _)| strip(&content[..at]))
    });
    closed.unwrap_or("None")
}

fn followed_by(mut template: Template, text: &str) -> Template {
    match template.0.last_mut() {
        Some(Piece::Text(last)) => last.push_str(text),
        _ => template.0.push(Piece::Text(text.to_owned())),
    }
    template
}

fn make(texts: &Texts, source: Source) -> Result<Protocol, ImportError> {
    let after_error = texts.text("after_error")?;
    let errors = |name: &str| Ok(followed_by(texts.template(name)?, &after_error));
    let lettered = "\n{question}\n{options}";
    let questions = questions([
        ("videomme", lettered),
        ("longvideobench", lettered),
        ("mlvu", lettered),
        ("lvbench", "\n{question}"),
    ]);
    let policy = FramePolicy {
        overview: Some(Overview { frames: 64, fps: Some(0.5), at_least: None }),
        ..FramePolicy::new(SizeRule::Pixels { min: 25_088, max: 100_352 }, Filter::Lanczos, Encoding::Png)
    };
    let frames = FrameLoop { last_turn: texts.text("last_turn")?, ..FrameLoop::new(5, policy) };
    let agent = AgentLoop {
        scored: Scored::All,
        sampling: Sampling {
            temperature: 0.0,
            params: SamplingParams {
                stop: vec!["</video_zoom>".to_owned()],
                // Its engine is given none; a server would take that of the model's folder.
                repetition_penalty: Some(1.0),
                ..SamplingParams::default()
            },
        },
        ..AgentLoop::new(Fidelity::WordingOurs, frames)
    };
    Ok(Protocol {
        crop_response: Template(vec![
            text(texts.text("result.before")?),
            slot("frames"),
            text(texts.text("result.after")?),
        ]),
        call_error: errors("call_error")?,
        crop_error: errors("crop_error")?,
        frame_label: Some(Template::parse("<frame{index}_time{time2}s>")),
        ..protocol(Parts {
            name: RELEASE.name,
            source,
            // Within single quotes of the shell `\"` is a quote of the value, and nothing else is escaped.
            system: texts.text("system")?.replace("\\\"", "\""),
            tool: ("video_zoom", 16),
            questions,
            agent,
            max_tokens: 4096,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOL: fn(f64, f64, f64) -> Zoom = |start, end, fps| Zoom { start, end, fps };

    #[test]
    fn calls_and_the_errors_that_the_model_sees() {
        let one = |body: &str| call(&format!("<think>x</think><video_zoom>{body}</video_zoom>"));
        assert_eq!(call("no call <video_zoom> {}"), None);
        assert_eq!(one(r#" {"segment": [1, "2.5"], "fps": true} "#), Some(Ok(TOOL(1.0, 2.5, 1.0))));
        assert_eq!(one(r#"{"segment": "12", "fps": 1}"#), Some(Ok(TOOL(1.0, 2.0, 1.0))));
        let invalid = |error: &str, input: &str| {
            Some(Err(format!(
                "Invalid input for function `extract_video_clip`. Error: {error}, input: {input}"
            )))
        };
        assert_eq!(one(r#"{"start": 1}"#), invalid("'segment'", "{'start': 1}"));
        assert_eq!(one(r#"{"segment": [1]}"#), invalid("list index out of range", "{'segment': [1]}"));
        let kind = "float() argument must be a string or a real number, not 'NoneType'";
        assert_eq!(one(r#"{"segment": [null, 2]}"#), invalid(kind, "{'segment': [None, 2]}"));
        for empty in ["", "{}{}", "{\n}", r#"{"segment": [0, 1], "fps": 1} {"segment": [0, 1], "fps": 1}"#] {
            assert_eq!(one(empty), Some(Err(String::new())), "{empty}");
        }
        let error = "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)";
        assert_eq!(one("{'segment': [0, 1]}"), Some(Err(error.to_owned())));
    }

    #[test]
    fn frames_of_a_window() {
        assert_eq!(frames(TOOL(0.0, 1.0, 1.0), 25.0, 10, 16), Ok(vec![0]));
        assert_eq!(frames(TOOL(0.0, 1.0, 0.0), 25.0, 10, 16), Ok(vec![]));
        assert_eq!(frames(TOOL(200.0, 204.0, 1.0), 30.0, 3000, 16), Ok(vec![2999; 4]));
        for (zoom, error) in [
            (TOOL(0.0, 10.0, 2.0), "Number of frames extracted (20) exceeds the maximum allowed (16)."),
            (TOOL(10.0, 4.0, 1.0), "Number of samples, -6, must be non-negative."),
            (TOOL(f64::NAN, 4.0, 1.0), "cannot convert float NaN to integer"),
            (TOOL(f64::NEG_INFINITY, 4.0, 1.0), "cannot convert float infinity to integer"),
        ] {
            assert_eq!(frames(zoom, 30.0, 3000, 16), Err(error.to_owned()));
        }
        assert_eq!(label(31, 29.970_029_970_029_97), "1.03");
    }

    #[test]
    fn overview_and_sizes() {
        assert_eq!(overview(200, 29.97, 0.5, 64), [0, 60, 120, 180]);
        assert_eq!(overview(10_000, 25.0, 0.5, 64)[..3], [0, 158, 317]);
    }

    #[test]
    fn scores() {
        for (turns, gold, right) in [
            (&["<answer>A</answer>"][..], "A", true),
            (&["<answer>A</answer>"], "A.", true),
            (&[r"<answer>\boxed{B}</answer>"], "B", true),
            (&["<answer>The answer is C. Dog</answer>"], "C", true),
            (&["<answer>C</answer>", "<answer>D</answer>"], "C", false),
            (&["<answer>(C)</answer>"], "C", false),
            (&["<answer>c</answer>"], "C", false),
            (&["C"], "C", true),
        ] {
            assert_eq!(is_right(&answer(turns), gold), right, "{turns:?}");
        }
    }
}
