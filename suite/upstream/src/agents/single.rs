//! Models that answer in one turn: Video-R1 and VideoRFT (choice), VideoChat-R1 (moments), Time-R1 (both). Frames are
//! those of `fetch_video` of qwen-vl-utils 0.0.10 with each one's numbers, given to the model as a video.

use std::collections::BTreeMap;

use paravt_suite::media::{Sampling as Rate, VideoFacts, VideoRequest, frame_indices};
use paravt_suite::protocol::template::Piece;
use paravt_suite::protocol::{
    AgentLoop, Continued, Encoding, FailedCalls, Fidelity, Filter, FramePolicy, Overview, Protocol, Sampling,
    SentAs, SizeRule, Source, Template,
};
use paravt_suite::record::{Outcome, Score};
use paravt_suite::reference::{Look, Looks, Reference, ToolSyntax};
use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;

use super::{Parts, RULE, choice, protocol, shape, slot, text};
use crate::import::shapes::Module;
use crate::import::{Files, ImportError, Pinned, Release};
use crate::{time_r1, video_r1, videochat_r1};

/// Rules of Video-R1 and VideoRFT.
pub const VIDEO_R1: Reference =
    Reference { name: "video-r1", syntax: &OneTurn, scorer: &VideoR1, looks: Some(&AllFrames) };
/// Rules of VideoChat-R1.
pub const VIDEOCHAT_R1: Reference =
    Reference { name: "videochat-r1", syntax: &OneTurn, scorer: &VideoChatR1, looks: Some(&AllFrames) };
/// Rules of Time-R1.
pub const TIME_R1: Reference =
    Reference { name: "time-r1", syntax: &OneTurn, scorer: &TimeR1, looks: Some(&TimeR1) };

const EVALUATION: &str = "src/eval_bench.py";
const READER: &str = "src/qwen-vl-utils/src/qwen_vl_utils/vision_process.py";
const PROMPTS: &str = "src_eval/eval_prompts.py";
const TIME_PROMPTS: &str = "src/vllm_inference/data/config.py";
const TIME_DATA: &str = "src/vllm_inference/data/__init__.py";

/// Pixels of one visual token.
const TOKEN: u64 = 28 * 28;

/// Video-R1.
pub static VIDEO_R1_RELEASE: Release = Release {
    name: "video-r1",
    repository: "tulerfeng/Video-R1",
    commit: "59d65c347e44efa71be27abf9d89b4a2bb7d1c05",
    files: &[
        Pinned::new(EVALUATION, "a0c0c723522bc4a5a49f1ed824a3a6574e28c7b6a2d777ad2b70675050835a0f"),
        Pinned::new(READER, "c194cd56b952fc6dd94bab8739367158a0b4118bc5363cf2710ecf942ce9b504"),
    ],
    // Its README evaluates up to 16, 32 and 64 frames; the highest numbers of its paper are those of 64.
    make: |files, source| {
        let frames = video((None, 64), (128 * TOKEN, Some(256 * TOKEN), None));
        choice_protocol("video-r1", video_r1::VIDEO_R1_OPTIONS, frames, files, source)
    },
};

/// VideoRFT.
pub static VIDEO_RFT_RELEASE: Release = Release {
    name: "videorft",
    repository: "QiWang98/VideoRFT",
    commit: "bba609969e66c66e152b15399488f0ad94051e3a",
    files: &[
        Pinned::new(EVALUATION, "e238944565be98283cffa81acd96a41eaf0ccbc5544a8cc13bcd8024f013ab6f"),
        Pinned::new(READER, "2e341ef7f243b3b06a6225086abacfec709abad675aab3503562d5f984b34efe"),
    ],
    // Fewest and most are the same there, and `fetch_video` raises the maximum to 1.05 times the minimum.
    make: |files, source| {
        let frames = video((Some(32), 32), (256 * TOKEN, Some(210_739), None));
        choice_protocol("videorft", video_r1::VIDEO_RFT_OPTIONS, frames, files, source)
    },
};

/// VideoChat-R1.
pub static VIDEOCHAT_R1_RELEASE: Release = Release {
    name: "videochat-r1",
    repository: "OpenGVLab/VideoChat-R1",
    commit: "73b2ea9ac83ad5c0bcd893bffd1cbb2e7c167068",
    files: &[
        Pinned::new(PROMPTS, "4f6d8e2c101547988cdda9f29558b63ae161ac7e05d2904806065a70086f30d8"),
        Pinned::new(
            "src_eval/evaluate_grounding.py",
            "704d1361f85ea166700489e1d6ddc1019868dd3cadb4fc03f522a9dead5ab3da",
        ),
        Pinned::new(
            "src_eval/my_qwen_utils.py",
            "fd3dd65cc46a42857adac218b2d18eb816f79b1cf0da14be3375fe7d0d01969c",
        ),
    ],
    make: moments_protocol,
};

/// Time-R1.
pub static TIME_R1_RELEASE: Release = Release {
    name: "time-r1",
    repository: "xiaomi-research/time-r1",
    commit: "7f2b5944a0c35993da80634a459d5a48a3a5431e",
    files: &[
        Pinned::new(TIME_PROMPTS, "63d902da7810d704c663af86fcf2ef2b70949f0115dae3c18fd4436d31cb573f"),
        Pinned::new(TIME_DATA, "faf47ef5ea3cbc8f1cacedf338158a7fc5320728c3d64c146c5842fb76e3fc66"),
        Pinned::new(
            "src/vllm_inference/vllm_infer.py",
            "bb1983c7aacb31a35016ce658b31a1fd60e0891b7f594f371d8229ab14ad9f3f",
        ),
        Pinned::new(
            "src/vllm_inference/eval_all.py",
            "942cea769e96021fc22e4a4fb7d83442e25cdf8b877e5b857c7ea4a58fb382d2",
        ),
        Pinned::new(
            "src/utils/vision_process.py",
            "cf62d98c654d4066b4a6180ffc3de72de758c75dc6cee98211d44a7777499962",
        ),
        Pinned::new("evaluate.py", "d00f054cba411d5cd1097a7175ffc922a2fa3089ae97006dab763dcade57348d"),
        Pinned::new("scripts/test.sh", "42b0ce3c9bf715fca92a41ed123a088ef8fe0177b82e5b9203b7d91426dd5359"),
    ],
    make: time_r1_protocol,
};

struct OneTurn;

impl ToolSyntax for OneTurn {}

/// Frames over the whole video at a rate, within bounds.
fn sampled(wanted: &Overview, frames: usize, rate: f64) -> Look {
    let sampling = Rate::Fps {
        fps: wanted.fps.unwrap_or(rate),
        min_frames: wanted.at_least.unwrap_or(4),
        max_frames: Some(wanted.frames),
    };
    let request = VideoRequest { sampling, ..VideoRequest::at_default_rate() };
    // A video of one frame has none.
    Look::at(frame_indices(&request, frames, rate).unwrap_or_default(), rate)
}

struct AllFrames;

impl Looks for AllFrames {
    fn overview(&self, wanted: &Overview, video: &VideoFacts) -> Look {
        sampled(wanted, video.frames, video.rate)
    }
}

struct TimeR1;

impl Looks for TimeR1 {
    fn overview(&self, wanted: &Overview, video: &VideoFacts) -> Look {
        sampled(wanted, time_r1::frames_read(video.frames, video.rate), video.rate)
    }
}

impl Scorer for TimeR1 {
    fn score(&self, gold: &Gold, _letters: &str, text: &str) -> Score {
        match gold {
            Gold::Choice { .. } => {
                choice(gold, time_r1::letter(text).map(String::from), |found, gold| found == gold)
            }
            _ => moment(gold, time_r1::interval(text)),
        }
    }
}

struct VideoR1;

impl Scorer for VideoR1 {
    fn score(&self, gold: &Gold, _letters: &str, text: &str) -> Score {
        choice(gold, Some(video_r1::answer(text).trim().to_owned()), |found, gold| found == gold.trim())
    }
}

struct VideoChatR1;

impl Scorer for VideoChatR1 {
    fn score(&self, gold: &Gold, _letters: &str, text: &str) -> Score {
        moment(gold, videochat_r1::interval(text))
    }
}

/// The score of a moment; `found` is what the model takes for it.
fn moment(gold: &Gold, found: Option<(f64, f64)>) -> Score {
    match (gold.interval(), found) {
        (Some(gold), Some(found)) => Score {
            outcome: Outcome::Scored,
            value: videochat_r1::iou(found, (gold.start, gold.end)).max(0.0),
            prediction: Some(format!("{}-{}", found.0, found.1)),
            rule: Some(RULE.to_owned()),
        },
        _ => Score { outcome: Outcome::Unparsed, value: 0.0, prediction: None, rule: None },
    }
}

/// Two frames a second as a video: fewest and most frames; fewest, most and all pixels.
fn video(
    (at_least, frames): (Option<usize>, usize),
    (min, max, total): (u64, Option<u64>, Option<u32>),
) -> FramePolicy {
    FramePolicy {
        overview: Some(Overview { frames, fps: Some(2.0), at_least }),
        sent_as: SentAs::Video,
        ..FramePolicy::new(SizeRule::Qwen { min, max, total }, Filter::Bicubic, Encoding::Png)
    }
}

/// Up to 768 frames, two of them one step, of 3,584 tokens in all steps.
fn long_video() -> FramePolicy {
    video((None, 768), (16 * TOKEN, None, Some(3584 * TOKEN as u32)))
}

/// One call.
fn one_turn(opening: &str, frames: FramePolicy, sampling: Sampling) -> AgentLoop {
    AgentLoop {
        opening: Template::parse(opening),
        failed_calls: FailedCalls::Stop,
        frames: Some(frames),
        sampling,
        ..AgentLoop::new(Fidelity::Exact, 1)
    }
}

/// The text with a slot in the place of each mark, which must be there once.
fn with_slots(file: &'static str, text: &str, marks: &[(&str, &[Piece])]) -> Result<Template, ImportError> {
    let mut pieces = vec![Piece::Text(text.to_owned())];
    for (mark, slot) in marks {
        let place = pieces.iter().position(|piece| matches!(piece, Piece::Text(text) if text.contains(mark)));
        let place = place.ok_or_else(|| shape(file, format!("{mark} in a prompt")))?;
        let Piece::Text(text) = pieces.remove(place) else { continue };
        let (before, after) = text.split_once(mark).unwrap_or((&text, ""));
        let texts = [before, after].map(|text| Piece::Text(text.to_owned()));
        let [before, after] = texts;
        let around = [before].into_iter().chain(slot.iter().cloned()).chain([after]);
        pieces.splice(place..place, around.filter(|piece| *piece != Piece::Text(String::new())));
    }
    Ok(Template(pieces))
}

fn choice_protocol(
    name: &'static str,
    before_options: &str,
    frames: FramePolicy,
    files: &Files,
    source: Source,
) -> Result<Protocol, ImportError> {
    let module = Module::parse(EVALUATION, files.required(EVALUATION)?)?;
    let template = module.text("QUESTION_TEMPLATE")?;
    let question = [slot("question"), text(before_options), slot("options"), text("\n")];
    let of_kind = |kind: &str, question: &[Piece]| {
        let template = template.clone() + &module.keyed_text(kind)?;
        with_slots(EVALUATION, &template, &[("{Question}", question)])
    };
    let questions = BTreeMap::from([
        ("choice".to_owned(), of_kind("multiple choice", &question)?),
        ("open".to_owned(), of_kind("free-form", &question[..1])?),
    ]);
    let sampling = Sampling {
        temperature: 0.1,
        top_p: Some(0.001),
        repetition_penalty: Some(1.0),
        ..Sampling::default()
    };
    Ok(Protocol {
        reference: Some(VIDEO_R1.name.to_owned()),
        ..protocol(Parts {
            name,
            source,
            system: String::new(),
            tool: ("none", 1),
            questions,
            agent: one_turn("{frames}{question}", frames, sampling),
            max_tokens: 1024,
        })
    })
}

fn moments_protocol(files: &Files, source: Source) -> Result<Protocol, ImportError> {
    let module = Module::parse(PROMPTS, files.required(PROMPTS)?)?;
    let prompt = module.text("GROUND_TEMPLATE_THINK")?;
    let caption = [slot("caption")];
    let template = with_slots(PROMPTS, &prompt, &[("[EVENT]", &caption)])?;
    Ok(protocol(Parts {
        name: VIDEOCHAT_R1.name,
        source,
        system: String::new(),
        tool: ("none", 1),
        questions: BTreeMap::from([("grounding".to_owned(), template)]),
        agent: one_turn("{question}{frames}", long_video(), Sampling::default()),
        max_tokens: 2048,
    }))
}

/// What stands between the first `before` and the quotation mark behind it.
fn quoted(files: &Files, file: &'static str, before: &str) -> Result<String, ImportError> {
    let text = files.required(file)?.split_once(before).and_then(|(_, after)| after.split_once('"'));
    text.map(|(text, _)| text.to_owned()).ok_or_else(|| shape(file, format!("{before}…\"")))
}

fn time_r1_protocol(files: &Files, source: Source) -> Result<Protocol, ImportError> {
    let module = Module::parse(TIME_PROMPTS, files.required(TIME_PROMPTS)?)?;
    let moments = module.entry("DEFAULT_TG_PROMPT", "r1")?;
    let moments = with_slots(TIME_PROMPTS, &moments, &[("{}", &[slot("caption")])])?;
    let letters = module.entry("DEFAULT_MCQ_PROMPT", "r1")?;
    let letters =
        with_slots(TIME_PROMPTS, &letters, &[("{}", &[slot("question")]), ("{}", &[slot("options")])])?;
    let again = Continued {
        after: "<answer>".to_owned(),
        opening: format!("\n{}", quoted(files, TIME_DATA, "self.answer_prompt = \"")?),
        max_tokens: 16,
    };
    let sampling = Sampling { repetition_penalty: Some(1.0), ..Sampling::default() };
    Ok(Protocol {
        option_line: Template::parse("({letter}) {option}"),
        ..protocol(Parts {
            name: TIME_R1.name,
            source,
            system: quoted(files, TIME_DATA, "sys_prompt=\"")?,
            tool: ("none", 1),
            questions: BTreeMap::from([("choice".to_owned(), letters), ("grounding".to_owned(), moments)]),
            agent: AgentLoop {
                continued: BTreeMap::from([("choice".to_owned(), again)]),
                ..one_turn("{frames}{question}", long_video(), sampling)
            },
            max_tokens: 1024,
        })
    })
}
