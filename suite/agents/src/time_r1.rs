//! Time-R1 (xiaomi-research/time-r1 7f2b594): one turn, moments and choice; the interval, the letter, and the frames that
//! are read.

use std::collections::BTreeMap;

use paravt_python::pattern;
use paravt_suite::agent::Reference;
use paravt_suite::media::VideoFacts;
use paravt_suite::protocol::{AgentLoop, Continued, Overview, Protocol, Sampling, Source, Template};
use paravt_suite::record::Score;
use paravt_suite::reference::{FrameChoice, FrameRules};
use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;
use paravt_suite::settings::SamplingParams;
use paravt_upstream::import::parts::{Parts, protocol, slot};
use paravt_upstream::import::{ImportError, Pinned, Release, Text, Texts};

use crate::agent::{Agent, choice};
use crate::one_turn::{OneTurn, long_video, one_turn, sampled, with_slots};
use crate::videochat_r1::moment;

/// Time-R1: its rules and its texts.
pub(crate) const AGENT: Agent = Agent {
    reference: Some(Reference {
        name: "time-r1",
        syntax: &OneTurn,
        scorer: &TimeR1,
        agent_loop: Some(&TimeR1),
    }),
    releases: &[&RELEASE],
};

const PROMPTS: &str = "src/vllm_inference/data/config.py";
const DATA: &str = "src/vllm_inference/data/__init__.py";

/// Time-R1.
pub static RELEASE: Release = Release {
    name: "time-r1",
    repository: "xiaomi-research/time-r1",
    commit: "7f2b5944a0c35993da80634a459d5a48a3a5431e",
    files: &[
        Pinned::new(PROMPTS, "63d902da7810d704c663af86fcf2ef2b70949f0115dae3c18fd4436d31cb573f"),
        Pinned::new(DATA, "faf47ef5ea3cbc8f1cacedf338158a7fc5320728c3d64c146c5842fb76e3fc66"),
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
    texts: &[
        Text::python("choice", PROMPTS, 511..1068),
        Text::python("grounding", PROMPTS, 2001..2459),
        Text::python("system", DATA, 4485..4515),
        Text::python("answer", DATA, 9509..9525),
    ],
    make,
};

struct TimeR1;

impl FrameRules for TimeR1 {
    fn overview(&self, wanted: &Overview, video: &VideoFacts) -> FrameChoice {
        sampled(wanted, frames_read(video.frames, video.rate), video.rate)
    }
}

impl Scorer for TimeR1 {
    fn score(&self, gold: &Gold, _letters: &str, text: &str) -> Score {
        match gold {
            Gold::Choice { .. } => choice(gold, letter(text).map(String::from), |found, gold| found == gold),
            _ => moment(gold, interval(text)),
        }
    }
}

/// Start and end in seconds (`extract_answer` of `evaluate.py`): the rule of VideoChat-R1.
pub use crate::videochat_r1::interval;

/// Frames of a video that are sampled from (`_read_video_decord_w_timestamp`): the length, computed to seconds and back,
/// is cut off, by which some frame rates lose the last frame.
pub(crate) fn frames_read(frames: usize, rate: f64) -> usize {
    let length = frames as f64 / rate;
    frames.min((length * rate) as usize).max(1)
}

/// The letter that a reply is scored by: the last capital in parentheses, else its first character
/// (`mcq_is_correct`). `None` for an empty reply, at which the release raises.
pub fn letter(reply: &str) -> Option<char> {
    pattern! { CHOICE = r"\(([A-Z])\)" }
    let last = CHOICE.find_iter(reply).last();
    last.map_or(reply, |found| &found.as_str()[1..]).chars().next()
}

fn make(texts: &Texts, source: Source) -> Result<Protocol, ImportError> {
    let moments = with_slots(texts, "grounding", "", &[("{}", &[slot("caption")])])?;
    let letters =
        with_slots(texts, "choice", "", &[("{}", &[slot("question")]), ("{}", &[slot("options")])])?;
    let again = Continued {
        after: "<answer>".to_owned(),
        opening: format!("\n{}", texts.text("answer")?),
        max_tokens: 16,
    };
    let params = SamplingParams { repetition_penalty: Some(1.0), ..SamplingParams::default() };
    let sampling = Sampling { params, ..Sampling::default() };
    Ok(Protocol {
        option_line: Template::parse("({letter}) {option}"),
        ..protocol(Parts {
            name: RELEASE.name,
            source,
            system: texts.text("system")?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_frames() {
        assert_eq!((letter("(A) or (B)"), letter("Cat"), letter("")), (Some('B'), Some('C'), None));
        assert_eq!((frames_read(100, 24.5), frames_read(101, 24.5)), (100, 100));
    }
}
