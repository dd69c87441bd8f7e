//! Models that answer in one turn: Video-R1 and VideoRFT (choice), VideoChat-R1 (moments). Their questions and answers are
//! the authors'; frames are those of the run (`--nframes`, `--channel frames-video`), so that every run is a variant.

use std::collections::BTreeMap;

use paravt_suite::protocol::template::Piece;
use paravt_suite::protocol::{
    AgentLoop, FailedCalls, Fidelity, Protocol, ResultRole, Sampling, Scored, Source, Template, Tool,
};
use paravt_suite::record::{Outcome, Score};
use paravt_suite::reference::{Call, CallTags, Reference, ToolSyntax};
use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;

use super::{Parts, RULE, choice, protocol, shape};
use crate::import::shapes::Module;
use crate::import::{Files, ImportError, Pinned, Release};
use crate::{video_r1, videochat_r1};

/// Rules of Video-R1 and VideoRFT.
pub const VIDEO_R1: Reference =
    Reference { name: "video-r1", syntax: &OneTurn, scorer: &VideoR1, looks: None };
/// Rules of VideoChat-R1.
pub const VIDEOCHAT_R1: Reference =
    Reference { name: "videochat-r1", syntax: &OneTurn, scorer: &VideoChatR1, looks: None };

const EVALUATION: &str = "src/eval_bench.py";
const PROMPTS: &str = "src_eval/eval_prompts.py";

/// Video-R1.
pub static VIDEO_R1_RELEASE: Release = Release {
    name: "video-r1",
    repository: "tulerfeng/Video-R1",
    commit: "59d65c347e44efa71be27abf9d89b4a2bb7d1c05",
    files: &[Pinned::new(EVALUATION, "a0c0c723522bc4a5a49f1ed824a3a6574e28c7b6a2d777ad2b70675050835a0f")],
    make: |files, source| choice_protocol("video-r1", video_r1::VIDEO_R1_OPTIONS, files, source),
};

/// VideoRFT.
pub static VIDEO_RFT_RELEASE: Release = Release {
    name: "videorft",
    repository: "QiWang98/VideoRFT",
    commit: "bba609969e66c66e152b15399488f0ad94051e3a",
    files: &[Pinned::new(EVALUATION, "e238944565be98283cffa81acd96a41eaf0ccbc5544a8cc13bcd8024f013ab6f")],
    make: |files, source| choice_protocol("videorft", video_r1::VIDEO_RFT_OPTIONS, files, source),
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
    ],
    make: moments_protocol,
};

struct OneTurn;

impl ToolSyntax for OneTurn {
    fn tags(&self) -> &CallTags {
        &CallTags { calls: &[], response: ("<tool_response>", "</tool_response>") }
    }

    fn calls(&self, _text: &str, _tool: &Tool) -> Vec<Call> {
        Vec::new()
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
        match (gold.interval(), videochat_r1::interval(text)) {
            (Some(gold), Some(found)) => Score {
                outcome: Outcome::Scored,
                value: videochat_r1::iou(found, (gold.start, gold.end)),
                prediction: Some(format!("{}-{}", found.0, found.1)),
                rule: Some(RULE.to_owned()),
            },
            _ => Score { outcome: Outcome::Unparsed, value: 0.0, prediction: None, rule: None },
        }
    }
}

/// One call; frames as the run says.
fn one_turn(opening: &str, sampling: Sampling) -> AgentLoop {
    AgentLoop {
        fidelity: Fidelity::Variant,
        turns: 1,
        opening: Template::parse(opening),
        round: BTreeMap::new(),
        last: BTreeMap::new(),
        last_turn: String::new(),
        result_role: ResultRole::User,
        failed_calls: FailedCalls::Stop,
        label_separator: String::new(),
        scored: Scored::Last,
        frames: None,
        code: None,
        sampling,
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
    files: &Files,
    source: Source,
) -> Result<Protocol, ImportError> {
    let module = Module::parse(EVALUATION, files.required(EVALUATION)?)?;
    let kind = module.keyed_text("multiple choice")?;
    let slot = |name: &str| Piece::Slot(name.to_owned());
    let text = |text: &str| Piece::Text(text.to_owned());
    let question = [slot("question"), text(before_options), slot("options"), text("\n")];
    let template = module.text("QUESTION_TEMPLATE")? + &kind;
    let template = with_slots(EVALUATION, &template, &[("{Question}", &question)])?;
    let sampling = Sampling { temperature: 0.1, top_p: Some(0.001), ..Sampling::default() };
    Ok(Protocol {
        reference: Some(VIDEO_R1.name.to_owned()),
        ..protocol(Parts {
            name,
            source,
            system: String::new(),
            tool: ("none", 1),
            questions: BTreeMap::from([("choice".to_owned(), template)]),
            agent: one_turn("{frames}{question}", sampling),
            max_tokens: 1024,
        })
    })
}

fn moments_protocol(files: &Files, source: Source) -> Result<Protocol, ImportError> {
    let module = Module::parse(PROMPTS, files.required(PROMPTS)?)?;
    let prompt = module.text("GROUND_TEMPLATE_THINK")?;
    let caption = [Piece::Slot("caption".to_owned())];
    let template = with_slots(PROMPTS, &prompt, &[("[EVENT]", &caption)])?;
    Ok(protocol(Parts {
        name: VIDEOCHAT_R1.name,
        source,
        system: String::new(),
        tool: ("none", 1),
        questions: BTreeMap::from([("grounding".to_owned(), template)]),
        agent: one_turn("{question}{frames}", Sampling::default()),
        max_tokens: 2048,
    }))
}
