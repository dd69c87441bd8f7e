//! EVA, EfficientVideoAgent (wangruohui/EfficientVideoAgent 758ad8d, `eval-eva.py`): a plan before the first frame, several
//! [selections](selection) of frames in a turn, the answer.
//!
//! The forms of the questions are those of its question files.

pub mod selection;

use std::collections::BTreeMap;

use paravt_python::{pattern, strip};
use paravt_suite::agent::Reference;
use paravt_suite::media::VideoFacts;
use paravt_suite::protocol::{
    AgentLoop, Budget, CallError, Encoding, FailedCalls, Fidelity, Filter, FrameLoop, FramePolicy,
    OptionForm, Overview, Protocol, ResultRole, SizeRule, Source, Template, Tool,
};
use paravt_suite::record::Score;
use paravt_suite::reference::{Call, CallContext, CallResult, FrameChoice, FrameRules, Tag, ToolSyntax};
use paravt_suite::sample::Gold;
use paravt_suite::scoring::Scorer;
use paravt_suite::span::TimeSpan;
use paravt_suite::text::between;
use paravt_upstream::import::parts::{Parts, protocol, slot, text};
use paravt_upstream::import::{ImportError, Pinned, Release, Text, Texts};
use serde_json::Value;

use crate::agent::{Agent, choice};
use selection::{
    Select, SelectError, arguments, bounds, frame, select, shown_times, times, tool_call, within,
};

/// EVA: its rules and its texts.
pub(crate) const AGENT: Agent = Agent { reference: Some(Reference::of("eva", &Eva)), releases: &[&RELEASE] };

const LOOP: &str = "eval-eva.py";
const LONG_VIDEO_BENCH: &str = "data/LongVideoBench_nosub_raw_full.jsonl";
const MLVU: &str = "data/MLVU_MCQ_raw_full.jsonl";

/// The release: its texts, its question files, and the files whose rules are repeated here.
pub static RELEASE: Release = Release {
    name: "eva",
    repository: "wangruohui/EfficientVideoAgent",
    commit: "758ad8d3dcb84a8086e5d70c9afb9a6f278e8f5a",
    files: &[
        Pinned::new(LOOP, "1f3b5f3c489d9b2f47b40fb1de18acde1d125d5bcbae9b706855a60e51b0ee2d"),
        Pinned::new(
            "select_frame_fallback.py",
            "6b3872ef5e9da277e824625a7a652f67ac44a9f563cd01a647777259308fd252",
        ),
        Pinned::new(LONG_VIDEO_BENCH, "51245a0d7ede06144541d4592fbff4ef525b8ab7678f29b4ab2c87836add4db9"),
        Pinned::new(MLVU, "55b700497f97504dc5dfeead25bea0c5034155e127b802759241e81472e8bde9"),
    ],
    texts: &[
        Text::python("system", LOOP, 5932..6016),
        Text::python("opening", LOOP, 6490..6615).slots(&["seconds", "side", "question"]),
        Text::python("result", LOOP, 13119..13255).slots(&["prompt"]),
        Text::raw("longvideobench.end", LONG_VIDEO_BENCH, 585..649),
        Text::raw("mlvu.start", MLVU, 136..298),
        Text::raw("mlvu.end", MLVU, 403..429),
    ],
    make,
};

struct Eva;

impl ToolSyntax for Eva {
    fn tags(&self) -> &'static [Tag] {
        &[("<tool_call>", "</tool_call>")]
    }

    /// None where the reply has an answer.
    fn calls(&self, text: &str, _tool: &Tool) -> Vec<Call> {
        let body = tool_call(text).filter(|_| answer(text).is_empty());
        let written = body.map(arguments).unwrap_or_default();
        written.into_iter().map(read).collect()
    }
}

/// One selection; its value are the arguments as they are written.
fn read(written: &str) -> Call {
    let window = match select(written) {
        Ok(Select { start, end, .. }) => Ok(TimeSpan { start, end }),
        Err(error) => Err(CallError::Unreadable { reason: error.to_string() }),
    };
    Call { value: Value::String(written.to_owned()), window }
}

impl FrameRules for Eva {
    fn has_overview(&self) -> bool {
        false
    }

    fn overview(&self, _wanted: &Overview, video: &VideoFacts) -> FrameChoice {
        FrameChoice::at(Vec::new(), video.rate)
    }

    fn run(&self, call: &Call, context: &CallContext<'_>) -> Result<CallResult, String> {
        let why = |error: SelectError| error.to_string();
        let asked = select(call.value.as_str().unwrap_or_default()).map_err(why)?;
        let video = context.video;
        let (tokens, side) =
            context.policy.budget.map_or((u32::MAX, u32::MAX), |budget| (budget.tokens, budget.side));
        let reduced = within(asked, (video.width, video.height), tokens, side).map_err(why)?;
        // A call of more frames than it may have tokens runs out of memory there.
        if reduced.nframes > f64::from(tokens) {
            return Err(why(SelectError::Failed));
        }
        let count = reduced.nframes as usize;
        let end = (video.last + 1.0 / video.rate).max(video.last + 1e-3);
        let (from, to) = bounds(asked.start, Some(asked.end), (video.first, end));
        let indices: Vec<usize> = times(from, to, count)
            .into_iter()
            .map(|time| frame(time, video.first, video.rate, video.frames))
            .collect();
        let times =
            shown_times(asked.start, asked.end, count).into_iter().map(|second| second as f64).collect();
        let frames = FrameChoice { times, scale: reduced.resize, ..FrameChoice::at(indices, video.rate) };
        Ok(CallResult::Frames(frames))
    }
}

impl Scorer for Eva {
    fn score(&self, gold: &Gold, _letters: &str, text: &str) -> Score {
        choice(gold, Some(answer(text).to_owned()), is_right)
    }
}

/// The answer of a reply, which ends the conversation; empty for none.
pub fn answer(reply: &str) -> &str {
    pattern! { STATED = r"(?s)[Aa]nswer[\.:\s]\s*(\w)(?:\W.{0,100}|)\n?\z" }
    let tagged = between(reply, "<answer>", "</answer>").next().map_or("", strip);
    if !tagged.is_empty() {
        return tagged;
    }
    STATED.captures(reply).and_then(|found| found.get(1)).map_or("", |letter| letter.as_str())
}

/// Whether an answer is right: the same text but for case and blanks around it, and not empty.
pub fn is_right(answer: &str, gold: &str) -> bool {
    let plain = |text: &str| strip(text).to_uppercase();
    !plain(answer).is_empty() && plain(answer) == plain(gold)
}

/// The forms of the questions by split.
fn questions(texts: &Texts) -> Result<BTreeMap<String, Template>, ImportError> {
    let plain = Template::parse("{question}\n{options}");
    let end = text(format!("\n{}", texts.text("longvideobench.end")?));
    Ok(BTreeMap::from([
        ("videomme".to_owned(), plain.clone()),
        ("video_holmes".to_owned(), plain.clone()),
        ("lsdbench".to_owned(), Template::parse("{question}\\n{options}")),
        ("lvbench".to_owned(), Template::parse("{question}")),
        ("longvideobench".to_owned(), Template(plain.0.into_iter().chain([end]).collect())),
        (
            "mlvu".to_owned(),
            Template(vec![
                text(texts.text("mlvu.start")?),
                slot("question"),
                text("\nOptions:\n"),
                slot("options"),
                text(format!("\n{}", texts.text("mlvu.end")?)),
            ]),
        ),
    ]))
}

fn form(line: &str, separator: &str) -> OptionForm {
    OptionForm { line: Template::parse(line), separator: separator.to_owned(), line_break: None }
}

fn make(texts: &Texts, source: Source) -> Result<Protocol, ImportError> {
    let policy = FramePolicy {
        budget: Some(Budget { tokens: 12_000, side: 720 }),
        ..FramePolicy::new(SizeRule::Multiple(28), Filter::Cubic, Encoding::Png)
    };
    let frames = FrameLoop {
        result_role: ResultRole::Tool,
        failed_calls: FailedCalls::Stop,
        ..FrameLoop::new(6, policy)
    };
    let agent = AgentLoop {
        opening: texts.template("opening")?,
        label_separator: "\n".to_owned(),
        ..AgentLoop::new(Fidelity::Exact, frames)
    };
    let broken = |line: &str, separator: &str| OptionForm {
        line_break: Some("\\n".to_owned()),
        ..form(line, separator)
    };
    let forms = [
        ("mlvu", form("({letter}) {option}", "\n")),
        // The questions of these have a backslash and an n where ours have a line break.
        ("lvbench", broken("({letter}) {option}", "\\n")),
        ("lsdbench", broken("{letter}: {option}", "\\n")),
        ("video_holmes", broken("{letter}. {option}", "\n")),
    ];
    let opened = [text("<tool_response>"), slot("frames")];
    Ok(Protocol {
        option_forms: forms.map(|(split, form)| (split.to_owned(), form)).into(),
        crop_response: Template(opened.into_iter().chain(texts.template("result")?.0).collect()),
        frame_label: Some(Template::parse("Frame {index} at [{mmss}]: ")),
        ..protocol(Parts {
            name: RELEASE.name,
            source,
            system: texts.text("system")?,
            tool: ("frame_select", usize::MAX),
            questions: questions(texts)?,
            agent,
            max_tokens: 2048,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        for (reply, expected) in [
            ("so Answer: C", "C"),
            ("answer C.", "C"),
            ("Answer: B. Because of the red hat", "B"),
            ("Final Answer:\nD\n", "D"),
            ("The answer is B", ""),
            ("Answer.(B)", ""),
            ("<answer> </answer> answer: E", "E"),
            ("<answer>\n B </answer>", "B"),
            ("Answer: Because", ""),
        ] {
            assert_eq!(answer(reply), expected, "{reply}");
        }
        assert!(is_right(" b", "B") && !is_right("", ""));
    }
}
