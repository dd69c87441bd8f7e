//! FrameThinker (lcqysl/FrameThinker-RL 3c917f3): frames between two frame numbers, in up to three tries.
//!
//! The questions of its data are not published: how options are written is ours. `stringify_conversation` looks for an
//! interval that was shown twice in a list that is never filled; `validate_reasoning_process` alone decides.

use paravt_suite::media::VideoFacts;
use paravt_suite::protocol::{
    AgentLoop, Encoding, FailedCalls, Fidelity, Filter, FramePolicy, LongVideos, Overview, Protocol,
    Sampling, SizeRule, Source, Template, Tool, Tries,
};
use paravt_suite::record::Score;
use paravt_suite::reference::{Call, Look, Looks, Reference, Tag, ToolSyntax, View};
use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;
use paravt_suite::span::TimeSpan;
use serde_json::Value;

use super::{Parts, choice, protocol, questions, shape};
use crate::framethinker::{Action, action, answer, overview, parts, transcript, validated};
use crate::import::shapes::Module;
use crate::import::{Files, ImportError, Pinned, Release};

/// FrameThinker's rules.
pub const REFERENCE: Reference = Reference::of("framethinker", &FrameThinker);

const LOOP: &str = "examples/agent/infer.py";

/// The release: its loop, with all texts.
pub static RELEASE: Release = Release {
    name: "framethinker",
    repository: "lcqysl/FrameThinker-RL",
    commit: "3c917f3a7d311e91ae2ac1ebdb30723850e4508e",
    files: &[Pinned::new(LOOP, "a64fa618ab913162991a72f6f151a23570ab0ee8d12adb90ed34a581500ec369")],
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

/// What a call asks for.
fn asked(call: &Call, view: &View<'_>) -> Action {
    let text = call.value.as_str().unwrap_or_default();
    action(text, view.video.rate, view.video.frames, frames(view.policy))
}

impl Looks for FrameThinker {
    fn overview(&self, wanted: &Overview, video: &VideoFacts) -> Look {
        Look::at(overview(video.frames, wanted.frames), video.rate)
    }

    fn look(&self, call: &Call, view: &View<'_>) -> Result<Look, String> {
        match asked(call, view) {
            Action::Frames(indices) => Ok(Look::at(indices, view.video.rate)),
            _ => Err("an action that is refused".to_owned()),
        }
    }

    fn text(&self, call: &Call, view: &View<'_>) -> Option<String> {
        match asked(call, view) {
            Action::Number(text) => Some(text),
            _ => None,
        }
    }

    fn accepts(&self, turns: &[Option<&str>], policy: &FramePolicy) -> bool {
        let last = turns.last().copied().flatten().and_then(parts);
        let answered = last.is_some_and(|(_, action)| answer(action).is_some());
        answered && validated(&transcript(turns), frames(policy)).is_some()
    }
}

impl Scorer for FrameThinker {
    fn score(&self, gold: &Gold, _letters: &str, text: &str) -> Score {
        let found = parts(text).and_then(|(_, action)| answer(action));
        choice(gold, found, |found, gold| found == gold)
    }
}

/// The system texts of the three tries: the second one of the loop is set where `times > 1`.
fn systems(files: &Files) -> Result<Vec<Template>, ImportError> {
    let module = Module::parse(LOOP, files.required(LOOP)?)?;
    let found = module.function("process_single_problem")?.sums("system_prompt");
    let values = |text: &Template| text.slots().map(str::to_owned).collect::<Vec<_>>();
    match &found[..] {
        [with_tools, without] if values(with_tools) == ["n"] && values(without).is_empty() => {
            Ok(vec![with_tools.clone(), with_tools.clone(), without.clone()])
        }
        _ => Err(shape(LOOP, "two texts for system_prompt, the first with num_frames_to_sample alone")),
    }
}

fn make(files: &Files, source: Source) -> Result<Protocol, ImportError> {
    let agent = AgentLoop {
        opening: Template::parse("{question}\n{frames}"),
        failed_calls: FailedCalls::Stop,
        frames: Some(FramePolicy {
            overview: Some(Overview { frames: 8, ..Overview::default() }),
            long: Some(LongVideos { seconds: 300.0, frames: 12, size: SizeRule::Within(448, 252) }),
            ..FramePolicy::new(SizeRule::Within(640, 360), Filter::Area, Encoding::Jpeg(95))
        }),
        tries: Tries { count: 3, system: systems(files)? },
        sampling: Sampling {
            temperature: 0.6,
            top_p: Some(0.9),
            // The default of `generate` in transformers, which draws the tokens there.
            top_k: Some(50),
            ..Sampling::default()
        },
        ..AgentLoop::new(Fidelity::WordingOurs, 5)
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
