//! VideoChat-R1 (OpenGVLab/VideoChat-R1 73b2ea9, `src_eval`): one turn, moments; the interval and the letter of a reply.

use std::collections::BTreeMap;

use paravt_python::{float, pattern, strip};
use paravt_suite::agent::Reference;
use paravt_suite::protocol::{Protocol, Sampling, Source};
use paravt_suite::record::{Outcome, Score};
use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;
use paravt_suite::text::between;
use paravt_upstream::import::parts::{Parts, protocol, slot};
use paravt_upstream::import::{ImportError, Pinned, Release, Text, Texts};

use crate::agent::{Agent, RULE};
use crate::one_turn::{AllFrames, OneTurn, long_video, one_turn, with_slots};

/// VideoChat-R1: its rules and its texts.
pub(crate) const AGENT: Agent = Agent {
    reference: Some(Reference {
        name: "videochat-r1",
        syntax: &OneTurn,
        scorer: &VideoChatR1,
        agent_loop: Some(&AllFrames),
    }),
    releases: &[&RELEASE],
};

const PROMPTS: &str = "src_eval/eval_prompts.py";

/// VideoChat-R1.
pub static RELEASE: Release = Release {
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
    texts: &[Text::python("grounding", PROMPTS, 315..800)],
    make,
};

struct VideoChatR1;

impl Scorer for VideoChatR1 {
    fn score(&self, gold: &Gold, _letters: &str, text: &str) -> Score {
        moment(gold, interval(text))
    }
}

const LETTERS: std::ops::RangeInclusive<char> = 'A'..='G';
/// Openings that are taken out of an answer; the last is two that the release joins for want of a comma.
const OPENINGS: [&str; 7] = [
    "The best answer is", "The correct answer is", "The answer is", "The answer", "The best option is",
    "The correct option is", "Best answer:Best option:",
];

/// Start and end in seconds: the last `N to N` or `N and N` anywhere in a reply (`parse_timestamp_output`).
pub fn interval(reply: &str) -> Option<(f64, f64)> {
    pattern! { RANGE = r"(\d+\.?\d*) (to|and) (\d+\.?\d*)" }
    let [start, _, end] = RANGE.captures_iter(reply).last()?.extract().1;
    Some((float(start)?, float(end)?))
}

/// The letter of an answer (`extract_characters_regex`), empty for none.
pub fn letter(answer: &str) -> String {
    let mut answer = strip(answer).to_owned();
    for opening in OPENINGS {
        answer = answer.replace(opening, "");
    }
    answer.chars().find(|c| LETTERS.contains(c)).map(String::from).unwrap_or_default()
}

/// Whether a choice question is answered right: the letters of the first `<answer>` and of the gold answer are the
/// same, which they are too where neither has one.
pub fn is_right(reply: &str, gold: &str) -> bool {
    between(reply, "<answer>", "</answer>").next().is_some_and(|answer| letter(answer) == letter(gold))
}

/// Share of the hull of two intervals that both have (`calc_iou`); negative for a reversed interval whose hull is.
pub fn iou(found: (f64, f64), gold: (f64, f64)) -> f64 {
    let inter = found.1.min(gold.1) - found.0.max(gold.0);
    let union = found.1.max(gold.1) - found.0.min(gold.0);
    inter.max(0.0) / union
}

/// The score of a moment; `found` is what the model takes for it.
pub(crate) fn moment(gold: &Gold, found: Option<(f64, f64)>) -> Score {
    match (gold.interval(), found) {
        (Some(gold), Some(found)) => Score {
            outcome: Outcome::Scored,
            value: iou(found, (gold.start, gold.end)).max(0.0),
            prediction: Some(format!("{}-{}", found.0, found.1)),
            rule: Some(RULE.to_owned()),
        },
        _ => Score { outcome: Outcome::Unparsed, value: 0.0, prediction: None, rule: None },
    }
}

fn make(texts: &Texts, source: Source) -> Result<Protocol, ImportError> {
    let caption = [slot("caption")];
    let template = with_slots(texts, "grounding", "", &[("[EVENT]", &caption)])?;
    Ok(protocol(Parts {
        name: RELEASE.name,
        source,
        system: String::new(),
        tool: ("none", 1),
        questions: BTreeMap::from([("grounding".to_owned(), template)]),
        agent: one_turn("{question}{frames}", long_video(), Sampling::default()),
        max_tokens: 2048,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_and_letters() {
        assert_eq!(interval("between 1 and 2. So 3.5 to 4."), Some((3.5, 4.0)));
        assert_eq!(interval("1 to 2 and 3"), Some((1.0, 2.0)), "matches do not overlap");
        assert_eq!(interval("<answer>3.5-4</answer>"), None);
        assert_eq!((letter("The best answer is C").as_str(), letter("h").as_str()), ("C", ""));
        assert!(is_right("<answer>(B) x</answer>", "B") && !is_right("B", "B"));
        assert_eq!(iou((0.0, 10.0), (5.0, 20.0)), 0.25);
        assert_eq!(iou((0.0, 1.0), (5.0, 10.0)), 0.0);
    }
}
