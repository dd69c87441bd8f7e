//! Video-R1 (tulerfeng/Video-R1 59d65c3) and VideoRFT (QiWang98/VideoRFT bba6099): one turn, choice questions.
//!
//! Both have the same `src/eval_bench.py` but for what stands between a question and its options. Frames are those of
//! `fetch_video` with each one's numbers.

use std::collections::BTreeMap;

use paravt_python::{float, strip};
use paravt_suite::agent::Reference;
use paravt_suite::protocol::template::Piece;
use paravt_suite::protocol::{FramePolicy, Protocol, Sampling, Source};
use paravt_suite::record::Score;
use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;
use paravt_suite::settings::SamplingParams;
use paravt_suite::text::between;
use paravt_upstream::import::parts::{Parts, protocol, slot, text};
use paravt_upstream::import::{ImportError, Pinned, Release, Text, Texts};

use crate::agent::{Agent, choice};
use crate::one_turn::{AllFrames, OneTurn, TOKEN, one_turn, video, with_slots};

/// Video-R1 and VideoRFT: their rules and their texts.
pub(crate) const AGENT: Agent = Agent {
    reference: Some(Reference {
        name: "video-r1",
        syntax: &OneTurn,
        scorer: &VideoR1,
        agent_loop: Some(&AllFrames),
    }),
    releases: &[&RELEASE, &VIDEO_RFT_RELEASE],
};

const EVALUATION: &str = "src/eval_bench.py";
const READER: &str = "src/qwen-vl-utils/src/qwen_vl_utils/vision_process.py";

/// Video-R1.
pub static RELEASE: Release = Release {
    name: "video-r1",
    repository: "tulerfeng/Video-R1",
    commit: "59d65c347e44efa71be27abf9d89b4a2bb7d1c05",
    files: &[
        Pinned::new(EVALUATION, "a0c0c723522bc4a5a49f1ed824a3a6574e28c7b6a2d777ad2b70675050835a0f"),
        Pinned::new(READER, "c194cd56b952fc6dd94bab8739367158a0b4118bc5363cf2710ecf942ce9b504"),
    ],
    texts: &[
        Text::python("question", EVALUATION, 1835..2370),
        Text::python("choice", EVALUATION, 2427..2535),
        Text::python("open", EVALUATION, 2809..2879),
    ],
    // Its README evaluates up to 16, 32 and 64 frames; the highest numbers of its paper are those of 64.
    make: |texts, source| {
        let frames = video((None, 64), (128 * TOKEN, Some(256 * TOKEN), None));
        choice_protocol("video-r1", VIDEO_R1_OPTIONS, frames, texts, source)
    },
};

pub(crate) static VIDEO_RFT_RELEASE: Release = Release {
    name: "videorft",
    repository: "QiWang98/VideoRFT",
    commit: "bba609969e66c66e152b15399488f0ad94051e3a",
    files: &[
        Pinned::new(EVALUATION, "e238944565be98283cffa81acd96a41eaf0ccbc5544a8cc13bcd8024f013ab6f"),
        Pinned::new(READER, "2e341ef7f243b3b06a6225086abacfec709abad675aab3503562d5f984b34efe"),
    ],
    texts: &[
        Text::python("question", EVALUATION, 1790..2325),
        Text::python("choice", EVALUATION, 2382..2490),
        Text::python("open", EVALUATION, 2764..2834),
    ],
    // Fewest and most are the same there, and `fetch_video` raises the maximum to 1.05 times the minimum.
    make: |texts, source| {
        let frames = video((Some(32), 32), (256 * TOKEN, Some(210_739), None));
        choice_protocol("videorft", VIDEO_RFT_OPTIONS, frames, texts, source)
    },
};

struct VideoR1;

impl Scorer for VideoR1 {
    fn score(&self, gold: &Gold, _letters: &str, text: &str) -> Score {
        choice(gold, Some(answer(text).trim().to_owned()), |found, gold| found == gold.trim())
    }
}

/// What Video-R1 writes between a question and its options.
pub const VIDEO_R1_OPTIONS: &str = "Options:\n";
/// What VideoRFT writes there.
pub(crate) const VIDEO_RFT_OPTIONS: &str = "\n";

/// The text of a user's turn: the question and one option a line within `template` (slot `{Question}`), then the words
/// for its kind of answer, `kind`. Without options the question stands alone.
pub fn prompt(template: &str, kind: &str, question: &str, options: Option<(&str, &[&str])>) -> String {
    let mut text = question.to_owned();
    if let Some((between, options)) = options {
        text.push_str(between);
        for option in options {
            text.push_str(option);
            text.push('\n');
        }
    }
    template.replace("{Question}", &text) + kind
}

/// The text of the first `<answer>` (`extract_answer`); the whole reply where there is none or it is empty.
pub fn answer(reply: &str) -> &str {
    match tagged(reply) {
        "" => reply,
        answer => answer,
    }
}

fn tagged(text: &str) -> &str {
    between(text, "<answer>", "</answer>").next().map_or("", strip)
}

/// Kinds of questions that are scored by rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `multiple choice`: the same text.
    Choice,
    /// `numerical`: equal to two decimals, and both with or both without a point or comma.
    Numerical,
    /// `regression`: mean relative accuracy.
    Regression,
}

/// Score of a reply between 0 and 1 (`reward_fn`). `solution` holds the gold answer in `<answer>` tags.
pub fn score(kind: Kind, reply: &str, solution: &str) -> f64 {
    let (found, gold) = (strip(answer(reply)), tagged(solution));
    let right = match kind {
        Kind::Choice => found == gold,
        Kind::Numerical => {
            let has_point = |text: &str| text.contains(['.', ',']);
            let cents = |text: &str| number(text).map(|value| format!("{value:.2}").parse::<f64>());
            match (cents(found), cents(gold)) {
                (Some(Ok(a)), Some(Ok(b))) => has_point(found) == has_point(gold) && a == b,
                _ => false,
            }
        }
        Kind::Regression => {
            let values = number(found).zip(number(gold));
            return values.map_or(0.0, |(found, gold)| mean_relative_accuracy(found, gold));
        }
    };
    f64::from(u8::from(right))
}

/// `normalize_number`.
fn number(text: &str) -> Option<f64> {
    float(&text.replace(',', ""))
}

/// `mean_relative_accuracy`: the share of the thresholds 0.5, 0.55, …, 0.95 for which the relative error is below what
/// they leave of 1. In single precision as torch has it, the result too.
pub fn mean_relative_accuracy(predicted: f64, target: f64) -> f64 {
    let (predicted, target) = (predicted as f32, target as f32);
    let error = (predicted - target).abs() / (target.abs() + 1e-8);
    let below = (0..10).filter(|index| error < 1.0 - (0.5 + 0.05 * f64::from(*index)) as f32).count();
    f64::from(below as f32 / 10.0)
}

fn choice_protocol(
    name: &'static str,
    before_options: &str,
    frames: FramePolicy,
    texts: &Texts,
    source: Source,
) -> Result<Protocol, ImportError> {
    let question = [slot("question"), text(before_options), slot("options"), text("\n")];
    let of_kind = |kind: &str, question: &[Piece]| {
        with_slots(texts, "question", &texts.text(kind)?, &[("{Question}", question)])
    };
    let questions = BTreeMap::from([
        ("choice".to_owned(), of_kind("choice", &question)?),
        ("open".to_owned(), of_kind("open", &question[..1])?),
    ]);
    let sampling = Sampling {
        temperature: 0.1,
        params: SamplingParams {
            top_p: Some(0.001),
            repetition_penalty: Some(1.0),
            ..SamplingParams::default()
        },
    };
    Ok(Protocol {
        reference: Some(RELEASE.name.to_owned()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts() {
        let options = ["A. one", "B. two"];
        let text = |between| prompt("{Question}\nThink.", " Letter.", "Why?", Some((between, &options[..])));
        assert_eq!(text(VIDEO_R1_OPTIONS), "Why?Options:\nA. one\nB. two\n\nThink. Letter.");
        assert_eq!(text(VIDEO_RFT_OPTIONS), "Why?\nA. one\nB. two\n\nThink. Letter.");
        assert_eq!(prompt("{Question}!", "", "Why?", None), "Why?!");
    }

    #[test]
    fn scores() {
        for (kind, reply, gold, value) in [
            (Kind::Choice, "<answer> B </answer>", "B", 1.0),
            (Kind::Choice, "B", "B", 1.0),
            (Kind::Choice, "<answer>B. two</answer>", "B", 0.0),
            (Kind::Numerical, "<answer>1,000.004</answer>", "1000.00", 1.0),
            (Kind::Numerical, "<answer>3</answer>", "3.0", 0.0),
            (Kind::Numerical, "<answer>nan</answer>", "nan", 0.0),
            (Kind::Regression, "<answer>three</answer>", "3", 0.0),
            (Kind::Regression, "<answer>9</answer>", "10", f64::from(0.9_f32)),
            (Kind::Regression, "<answer>10</answer>", "10", 1.0),
            (Kind::Regression, "<answer>1</answer>", "0", 0.0),
        ] {
            assert_eq!(score(kind, reply, &format!("<answer>{gold}</answer>")), value, "{reply} {gold}");
        }
    }
}
