//! FrameThinker (lcqysl/FrameThinker-RL 3c917f3, `examples/agent/infer.py`): frames between two frame numbers, in up to
//! three tries, and which of these count.
//!
//! The questions of its data are not published: how options are written is ours. `stringify_conversation` looks for an
//! interval that was shown twice in a list that is never filled; `validate_reasoning_process` alone decides.

use std::collections::BTreeSet;

use paravt_python::{Int, int, linspace, pattern, strip, whole};
use paravt_suite::agent::{Conversation, Kit, Loop, Reference, SpecialFields, turns};
use paravt_suite::media::VideoFacts;
use paravt_suite::message::{Content, Message, Role};
use paravt_suite::protocol::{
    AgentLoop, Encoding, FailedCalls, Fidelity, Filter, FrameLoop, FramePolicy, LongVideos, Overview,
    Protocol, Sampling, SizeRule, Source, Template, Tool, Tries,
};
use paravt_suite::record::{RecordedMessage, Score};
use paravt_suite::reference::{Call, CallContext, CallResult, FrameChoice, FrameRules, Tag, ToolSyntax};
use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;
use paravt_suite::settings::SamplingParams;
use paravt_suite::span::TimeSpan;
use paravt_suite::text::between;
use paravt_upstream::import::parts::{Parts, protocol, questions, text};
use paravt_upstream::import::{ImportError, Pinned, Release, Text, Texts};
use serde_json::Value;

use crate::agent::{Agent, choice};

/// FrameThinker: its rules and its texts.
pub(crate) const AGENT: Agent =
    Agent { reference: Some(Reference::of("framethinker", &FrameThinker)), releases: &[&RELEASE] };

const LOOP: &str = "examples/agent/infer.py";

/// The release: its loop, with all texts.
pub static RELEASE: Release = Release {
    name: "framethinker",
    repository: "lcqysl/FrameThinker-RL",
    commit: "3c917f3a7d311e91ae2ac1ebdb30723850e4508e",
    files: &[Pinned::new(LOOP, "a64fa618ab913162991a72f6f151a23570ab0ee8d12adb90ed34a581500ec369")],
    texts: &[
        Text::python("system", LOOP, 9978..10688).slots(&["n"]),
        Text::python("system.last", LOOP, 10910..11206),
    ],
    make,
};

struct FrameThinker;

impl ToolSyntax for FrameThinker {
    /// Without the action that is an answer.
    fn tags(&self) -> &'static [Tag] {
        &[("<action>choose frames", "</action>"), ("<action>get frame", "</action>")]
    }

    /// The action, unless it is an answer; its frames are known with the video.
    fn calls(&self, text: &str, _tool: &Tool) -> Vec<Call> {
        let action = parts(text).map(|(_, action)| action).filter(|action| answer(action).is_none());
        let call = action.map(|action| Call {
            value: Value::String(action.to_owned()),
            window: Ok(TimeSpan::new(f64::NAN, f64::NAN)),
        });
        call.into_iter().collect()
    }
}

/// Frames that are shown at once.
fn frames(policy: &FramePolicy) -> usize {
    policy.overview.map_or(0, |overview| overview.frames)
}

impl Loop for FrameThinker {
    /// Conversations up to the first whose answer counts; the last one is scored.
    fn run<'a>(&'a self, kit: &'a mut Kit<'_>) -> Conversation<'a> {
        Box::pin(async move {
            let FrameLoop { policy, tries, .. } = kit.frame_loop()?;
            loop {
                let text = turns::converse(kit, &ChosenFrames).await?;
                if tries.count <= 1 {
                    return Ok(text);
                }
                let video = kit.require_facts().await?;
                let accepted = is_accepted(&kit.messages, &text, frames(&policy.of(&video)));
                kit.transcript.tries.get_or_insert_default().accepted = accepted;
                if accepted || kit.number_of_try() + 1 >= tries.count {
                    return Ok(text);
                }
                let last = Message::text(Role::Assistant, text);
                let messages = std::mem::take(&mut kit.messages);
                let said = messages.iter().chain([&last]).map(RecordedMessage::from).collect();
                kit.transcript.tries.get_or_insert_default().before.push(said);
            }
        })
    }

    fn fields(&self) -> SpecialFields {
        SpecialFields { needed: &[], allowed: &["frames.overview", "tries"] }
    }
}

/// Whether the answer of a try counts.
fn is_accepted(messages: &[Message], text: &str, count: usize) -> bool {
    let after_question = messages.iter().skip_while(|message| message.role != Role::Assistant);
    let turns = after_question.map(|message| match &message.content {
        Content::Text(text) => Some(text.as_str()),
        Content::Parts(_) => None,
    });
    let turns: Vec<Option<&str>> = turns.chain([Some(text)]).collect();
    let answered = parts(text).is_some_and(|(_, action)| answer(action).is_some());
    answered && validated(&transcript(&turns), count).is_some()
}

/// Frames that are chosen by their numbers.
struct ChosenFrames;

impl FrameRules for ChosenFrames {
    fn overview(&self, wanted: &Overview, video: &VideoFacts) -> FrameChoice {
        FrameChoice::at(overview(video.frames, wanted.frames), video.rate)
    }

    fn run(&self, call: &Call, context: &CallContext<'_>) -> Result<CallResult, String> {
        let CallContext { video, policy, .. } = context;
        match action(call.value.as_str().unwrap_or_default(), video.rate, video.frames, frames(policy)) {
            Action::Number(text) => Ok(CallResult::Text(text)),
            Action::Frames(indices) => Ok(CallResult::Frames(FrameChoice::at(indices, video.rate))),
            _ => Err("an action that is refused".to_owned()),
        }
    }
}

impl Scorer for FrameThinker {
    fn score(&self, gold: &Gold, _letters: &str, text: &str) -> Score {
        let found = parts(text).and_then(|(_, action)| answer(action));
        choice(gold, found, |found, gold| found == gold)
    }
}

/// What stands for the frames of a turn in the text of a try.
const NEW_FRAMES: &str = "\n[New frames provided.]\n";

/// Thoughts and action of a reply; `None` unless both are there, which ends the try.
pub fn parts(reply: &str) -> Option<(&str, &str)> {
    let first = |open, close| between(reply, open, close).next().map(strip);
    first("<think>", "</think>").zip(first("<action>", "</action>"))
}

/// What a reply asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// `output answer: …`: the answer, compared with the gold one as it is.
    Answer(String),
    /// `get frame number at time MM:SS`: the text that the model is shown.
    Number(String),
    /// `choose frames between A and B`: indices of the frames.
    Frames(Vec<usize>),
    /// Anything else, which ends the try.
    Refused,
}

/// The answer of an action, where it is one.
pub fn answer(action: &str) -> Option<String> {
    let is_one = action.starts_with("output answer:");
    is_one.then(|| strip(&action.replace("output answer:", "")).to_owned())
}

/// Reads an action for a video of `total` frames at `fps`, of which `count` are shown at once.
pub fn action(action: &str, fps: f64, total: usize, count: usize) -> Action {
    if let Some(answer) = answer(action) {
        return Action::Answer(answer);
    }
    if action.contains("get frame") {
        return frame_number(action, fps).map_or(Action::Refused, Action::Number);
    }
    chosen_frames(action, total, count).map_or(Action::Refused, Action::Frames)
}

/// The reply to `get frame number at time MM:SS` (`handle_get_frame_number`); `None` for one that is refused, among
/// them times of more than 36 digits, for which the release goes on or raises.
pub fn frame_number(action: &str, fps: f64) -> Option<String> {
    pattern! { TIME = r"\Aget frame number at time\s+(\S+)" }
    let [time] = TIME.captures(strip(action))?.extract().1;
    let (minutes, seconds) = time.split_once(':')?;
    let (Int::Small(minutes), Int::Small(seconds)) = (int(minutes)?, int(seconds)?) else { return None };
    let frame = whole((minutes * 60 + seconds) as f64 * fps).ok()?;
    Some(format!("Frame number at time {time} is: {frame}."))
}

/// Indices that `choose frames between A and B` asks for (`handle_choose_frames`): `count` strictly between the two,
/// which must lie within the video and further than `count` apart.
pub fn chosen_frames(action: &str, total: usize, count: usize) -> Option<Vec<usize>> {
    pattern! { CHOICE = r"choose frames between\s+(\d+)\s+and\s+(\d+)" }
    let [start, end] = CHOICE.captures(action)?.extract().1;
    // A huge start is behind the end, a huge end behind the video.
    let (Int::Small(start), Int::Small(end)) = (int(start)?, int(end)?) else { return None };
    if start >= end || end >= total as i128 || end - start <= count as i128 {
        return None;
    }
    Some(indices(start as f64 + 1.0, end as f64 - 1.0, count))
}

/// Indices of the first frames.
pub fn overview(total: usize, count: usize) -> Vec<usize> {
    indices(0.0, total as f64 - 1.0, count)
}

fn indices(start: f64, end: f64, count: usize) -> Vec<usize> {
    linspace(start, end, count).into_iter().map(|index| index as usize).collect()
}

/// The text of a try by which it is judged: what follows the first question, `None` for a turn of frames
/// (`stringify_conversation`).
pub fn transcript(turns: &[Option<&str>]) -> String {
    turns.iter().map(|turn| turn.unwrap_or(NEW_FRAMES)).collect()
}

/// Calls of a try that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calls {
    /// Actions but for the answer.
    pub all: usize,
    /// Those that showed frames.
    pub of_frames: usize,
}

/// Whether a finished try counts (`validate_reasoning_process`): it ends with an answer, every action has its thoughts,
/// no interval and no time is asked for a second time, an interval is wider than `count` frames, and a choice follows each
/// frame number and holds it. `None` for one that does not; another is made then.
pub fn validated(transcript: &str, count: usize) -> Option<Calls> {
    pattern! { CHOICE = r"\Achoose frames between (\d+) and (\d+)" }
    pattern! { TIME = r"\Aget frame number at time\s+(\S+)" }
    pattern! { NUMBER = r"is:\s*(\d+)" }
    pattern! { RESPONSE = r"(?s)</action>(.*?)(?:<think>|\n?\z)" }
    let actions: Vec<&str> = between(transcript, "<action>", "</action>").map(strip).collect();
    let responses: Vec<&str> =
        RESPONSE.captures_iter(transcript).map(|found| found.extract::<1>().1[0]).collect();
    let (answer, calls) = actions.split_last()?;
    if between(transcript, "<think>", "</think>").count() != actions.len()
        || !answer.starts_with("output answer:")
    {
        return None;
    }
    let (mut intervals, mut times) = (BTreeSet::new(), BTreeSet::new());
    let mut expected: Option<i128> = None;
    for (index, action) in calls.iter().enumerate() {
        let choice = CHOICE.captures(action).map(|found| found.extract::<2>().1);
        if let Some(choice) = choice {
            let (start, end) = (index_of(choice[0])?, index_of(choice[1])?);
            let holds = |frame: i128| start <= frame && frame <= end;
            if !expected.take().is_none_or(holds)
                || !intervals.insert((start, end))
                || start >= end - count as i128
            {
                return None;
            }
            continue;
        }
        let time =
            TIME.captures(action).filter(|_| expected.is_none()).map(|found| found.extract::<1>().1[0])?;
        let response = strip(responses.get(index)?);
        if !times.insert(time) {
            return None;
        }
        expected = Some(index_of(NUMBER.captures(response)?.extract::<1>().1[0])?);
    }
    expected.is_none().then_some(Calls { all: calls.len(), of_frames: intervals.len() })
}

/// A frame number; `None` for one of more than 36 digits, which no video has.
fn index_of(digits: &str) -> Option<i128> {
    match int(digits)? {
        Int::Small(value) => Some(value),
        Int::Huge => None,
    }
}

/// The system texts of the three tries: the loop sets the second one where `times > 1`.
fn systems(texts: &Texts) -> Result<Vec<Template>, ImportError> {
    let with_tools = texts.template("system")?;
    Ok(vec![with_tools.clone(), with_tools, Template(vec![text(texts.text("system.last")?)])])
}

fn make(texts: &Texts, source: Source) -> Result<Protocol, ImportError> {
    let frames = FrameLoop {
        failed_calls: FailedCalls::Stop,
        tries: Tries { count: 3, system: systems(texts)? },
        ..FrameLoop::new(
            5,
            FramePolicy {
                overview: Some(Overview { frames: 8, ..Overview::default() }),
                long: Some(LongVideos { seconds: 300.0, frames: 12, size: SizeRule::Within(448, 252) }),
                ..FramePolicy::new(SizeRule::Within(640, 360), Filter::Area, Encoding::Jpeg(95))
            },
        )
    };
    let agent = AgentLoop {
        opening: Template::parse("{question}\n{frames}"),
        sampling: Sampling {
            temperature: 0.6,
            // `top_k` is the default of `generate` in transformers, which draws the tokens there.
            params: SamplingParams { top_p: Some(0.9), top_k: Some(50), ..SamplingParams::default() },
        },
        ..AgentLoop::new(Fidelity::WordingOurs, frames)
    };
    Ok(Protocol {
        crop_response: Template::parse("{frames}"),
        frame_label: Some(Template::parse("frame {frame}:")),
        ..protocol(Parts {
            name: RELEASE.name,
            source,
            system: String::new(),
            tool: ("choose frames", 12),
            // The options of LVBench stand in its questions.
            questions: questions([("choice", "{question}\n{options}"), ("lvbench", "{question}")]),
            agent,
            max_tokens: 2048,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_and_actions() {
        assert_eq!(parts("<think>a</think> <action> b </action>"), Some(("a", "b")));
        assert_eq!(parts("<action>b</action>"), None);
        let read = |text| action(text, 29.97, 300, 8);
        assert_eq!(read("output answer: B"), Action::Answer("B".into()));
        let reply = "Frame number at time 1:30 is: 2697.";
        assert_eq!(read("get frame number at time 1:30 please"), Action::Number(reply.into()));
        let shown = Action::Frames(vec![11, 22, 33, 44, 55, 66, 77, 89]);
        assert_eq!(read("choose frames between 10 and 90"), shown);
        for refused in [
            "choose frames between 10 and 300", "choose frames between 10 and 18",
            "get frame number at time 1:2:3", "get frame number at time 90", "look",
        ] {
            assert_eq!(read(refused), Action::Refused, "{refused}");
        }
        assert_eq!(overview(9, 8), [0, 1, 2, 3, 4, 5, 6, 8]);
    }

    #[test]
    fn tries_that_count() {
        let turn = |action: &str| format!("<think>t</think><action>{action}</action>");
        let tried = |turns: &[(&str, &str)]| {
            let text: String = turns.iter().map(|(action, response)| turn(action) + response).collect();
            validated(&text, 8)
        };
        let answer = ("output answer: A", "");
        let choose = |start, end| format!("choose frames between {start} and {end}");
        let (near, far) = (choose(10, 90), choose(100, 900));
        let time = ("get frame number at time 0:05", "Frame number at time 0:05 is: 150.");
        assert_eq!(tried(&[answer]), Some(Calls { all: 0, of_frames: 0 }));
        assert_eq!(tried(&[(&near, NEW_FRAMES), answer]), Some(Calls { all: 1, of_frames: 1 }));
        assert_eq!(tried(&[time, (&far, NEW_FRAMES), answer]), Some(Calls { all: 2, of_frames: 1 }));
        assert_eq!(tried(&[time, (&near, NEW_FRAMES), answer]), None, "without the frame");
        assert_eq!(tried(&[time, answer]), None, "no choice follows");
        assert_eq!(tried(&[(&near, NEW_FRAMES), (&near, NEW_FRAMES), answer]), None, "a second time");
        assert_eq!(tried(&[(&choose(10, 18), NEW_FRAMES), answer]), None, "too narrow");
        assert_eq!(tried(&[(&near, NEW_FRAMES)]), None, "no answer");
        assert_eq!(validated("<think>a</think><think>b</think><action>output answer: A</action>", 8), None);
    }
}
