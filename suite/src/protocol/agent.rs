//! What an agent with a loop of its own adds to a protocol: where frames and texts stand, how many turns there are,
//! which frames are shown in which size. Without it a protocol runs the loop of the first reference.
//!
//! What is arithmetic rather than a choice (how a call is written, which frames a window comes to) is a
//! [`Reference`](crate::agent::Reference) that [`Protocol::reference`](super::Protocol::reference) names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::harness::{Harness, is_default};
use super::{Clips, CodeRules, FramePolicy, Overview, Template, Tries};
use crate::sample::Sample;
use crate::settings::SamplingParams;

/// An agent's own loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Fields", into = "Fields")]
pub struct AgentLoop {
    /// Fidelity to the authors' evaluation.
    pub fidelity: Fidelity,
    /// The first user message; slots `frames` (the overview), `question` (the split's question text), `stripped` (the
    /// same without blanks around it), `seconds` (length of the video, half a second less, at least 1, rounded down) and
    /// `side` (its shorter side in pixels); with [`clips`](FrameLoop::clips) also `fps` and `count` of the frames,
    /// `duration` (frames by their rate) and `file_duration` in seconds; for [`Shape::Code`] `question` and `video_info`.
    pub opening: Template,
    /// Stands before the label of every frame of a message but the first.
    pub label_separator: String,
    /// Text that the agent's own extraction reads.
    pub scored: Scored,
    /// A second generation for the answer alone, by split, else by kind.
    pub continued: BTreeMap<String, Continued>,
    /// Conventions of the evaluation harness that the authors use.
    pub harness: Harness,
    /// How tokens are drawn, where the run does not say otherwise.
    pub sampling: Sampling,
    /// What the turns are about.
    pub shape: Shape,
}

/// What the turns of a loop are about.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// One reply about the frames of the run.
    OneTurn,
    /// Frames that the agent chooses: those of the first turn, and those that its calls ask for.
    Frames(Box<FrameLoop>),
    /// Code that the model writes over the video.
    Code(Box<CodeLoop>),
}

/// Turns over frames.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameLoop {
    /// Maximum of model calls of a sample; the calls in the last reply are not run.
    pub turns: usize,
    /// The question in the results of later turns, by split, else by kind: slot `prompt` of `crop_response`. By
    /// default that of the first turn.
    pub round: BTreeMap<String, Template>,
    /// The same in the result that the last turn answers; by default [`round`](Self::round).
    pub last: BTreeMap<String, Template>,
    /// Stands behind the text of the result that the last turn answers.
    pub last_turn: String,
    /// Role of the message with the results of a turn.
    pub result_role: ResultRole,
    /// What follows a turn whose calls all failed.
    pub failed_calls: FailedCalls,
    /// Which frames, and in which form.
    pub policy: FramePolicy,
    /// A video for each call, in the place of frames.
    pub clips: Option<Clips>,
    /// Fresh beginnings where an answer does not count.
    pub tries: Tries,
}

impl From<FrameLoop> for Shape {
    fn from(frames: FrameLoop) -> Self {
        Self::Frames(Box::new(frames))
    }
}

/// Turns of code.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeLoop {
    /// Maximum of model calls of a sample.
    pub turns: usize,
    /// What follows a turn whose code failed.
    pub failed_calls: FailedCalls,
    pub rules: CodeRules,
}

impl From<CodeLoop> for Shape {
    fn from(code: CodeLoop) -> Self {
        Self::Code(Box::new(code))
    }
}

/// A loop as files have it: the fields of all shapes in one table.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    fidelity: Fidelity,
    turns: usize,
    #[serde(default = "opening", skip_serializing_if = "is_opening")]
    opening: Template,
    #[serde(default, skip_serializing_if = "is_default")]
    round: BTreeMap<String, Template>,
    #[serde(default, skip_serializing_if = "is_default")]
    last: BTreeMap<String, Template>,
    #[serde(default, skip_serializing_if = "is_default")]
    last_turn: String,
    #[serde(default, skip_serializing_if = "is_default")]
    result_role: ResultRole,
    #[serde(default, skip_serializing_if = "is_default")]
    failed_calls: FailedCalls,
    #[serde(default, skip_serializing_if = "is_default")]
    label_separator: String,
    #[serde(default, skip_serializing_if = "is_default")]
    scored: Scored,
    #[serde(default, skip_serializing_if = "is_default")]
    continued: BTreeMap<String, Continued>,
    #[serde(default, skip_serializing_if = "is_default")]
    harness: Harness,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    frames: Option<FramePolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    clips: Option<Clips>,
    #[serde(default, skip_serializing_if = "is_default")]
    tries: Tries,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<CodeRules>,
    #[serde(default, skip_serializing_if = "is_default")]
    sampling: Sampling,
}

impl Fields {
    /// A field that loops without `frames` do not have.
    fn of_frames(&self) -> Option<&'static str> {
        let fields = [
            ("round", self.round.is_empty()),
            ("last", self.last.is_empty()),
            ("last_turn", self.last_turn.is_empty()),
            ("result_role", is_default(&self.result_role)),
            ("failed_calls", is_default(&self.failed_calls) || self.code.is_some()),
            ("clips", self.clips.is_none()),
            ("tries", is_default(&self.tries)),
        ];
        fields.into_iter().find(|(_, is_absent)| !is_absent).map(|(field, _)| field)
    }
}

impl TryFrom<Fields> for AgentLoop {
    type Error = String;

    fn try_from(fields: Fields) -> Result<Self, String> {
        if fields.turns == 0 {
            return Err("`turns` of `agent`: expected a positive number, found 0".to_owned());
        }
        if fields.frames.is_none()
            && let Some(field) = fields.of_frames()
        {
            return Err(format!(
                "`agent` has `{field}`, which is a rule of loops with `frames`: leave it out"
            ));
        }
        let shape = match (fields.frames, fields.code) {
            (Some(_), Some(_)) => {
                return Err("`agent` has `frames` and `code`: a loop has one of the two".to_owned());
            }
            (Some(policy), None) => FrameLoop {
                turns: fields.turns,
                round: fields.round,
                last: fields.last,
                last_turn: fields.last_turn,
                result_role: fields.result_role,
                failed_calls: fields.failed_calls,
                policy,
                clips: fields.clips,
                tries: fields.tries,
            }
            .into(),
            (None, Some(rules)) => {
                CodeLoop { turns: fields.turns, failed_calls: fields.failed_calls, rules }.into()
            }
            (None, None) if fields.turns > 1 => {
                return Err("`agent` has no `frames`: calls show frames in more than one turn".to_owned());
            }
            (None, None) => Shape::OneTurn,
        };
        Ok(Self {
            fidelity: fields.fidelity,
            opening: fields.opening,
            label_separator: fields.label_separator,
            scored: fields.scored,
            continued: fields.continued,
            harness: fields.harness,
            sampling: fields.sampling,
            shape,
        })
    }
}

impl From<AgentLoop> for Fields {
    fn from(agent_loop: AgentLoop) -> Self {
        let turns = agent_loop.turns();
        let AgentLoop { fidelity, opening, label_separator, scored, continued, harness, sampling, shape } =
            agent_loop;
        let common = Self {
            fidelity,
            turns,
            opening,
            round: BTreeMap::new(),
            last: BTreeMap::new(),
            last_turn: String::new(),
            result_role: ResultRole::default(),
            failed_calls: FailedCalls::default(),
            label_separator,
            scored,
            continued,
            harness,
            frames: None,
            clips: None,
            tries: Tries::default(),
            code: None,
            sampling,
        };
        match shape {
            Shape::OneTurn => common,
            Shape::Frames(frames) => Self {
                round: frames.round,
                last: frames.last,
                last_turn: frames.last_turn,
                result_role: frames.result_role,
                failed_calls: frames.failed_calls,
                frames: Some(frames.policy),
                clips: frames.clips,
                tries: frames.tries,
                ..common
            },
            Shape::Code(code) => Self { failed_calls: code.failed_calls, code: Some(code.rules), ..common },
        }
    }
}

/// How near a protocol is to what the authors of an agent run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Fidelity {
    /// Texts and rules are the authors'.
    Exact,
    /// The rules are the authors'; a text that they did not publish is in our words.
    WordingOurs,
    /// Something that can change an answer is another.
    Variant,
}

impl Fidelity {
    /// Name in files and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::WordingOurs => "wording-ours",
            Self::Variant => "variant",
        }
    }
}

/// Role of the message that carries results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultRole {
    /// `user`.
    #[default]
    User,
    /// `tool`, without the id of a call.
    Tool,
}

/// What follows a turn whose calls all failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedCalls {
    /// The model is answered with the first error (`call_error`, `crop_error`).
    #[default]
    Answer,
    /// The conversation ends; the reply is the answer.
    Stop,
}

/// Text that an extraction reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scored {
    #[default]
    Last,
    /// All replies, a blank between two.
    All,
    /// All replies with their calls and results between them, as lmms-eval joins them.
    Joined,
    /// All replies and what the model was answered with, as they follow on each other.
    Conversation,
}

/// A second generation that continues a reply from where its answer begins: what stands behind the last `after` is
/// replaced by `opening`, which the model then goes on with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Continued {
    /// A reply without it stands as it is.
    pub after: String,
    /// Follows `after`.
    pub opening: String,
    /// Token limit of the second generation.
    pub max_tokens: u32,
}

impl Continued {
    /// The beginning of the reply that is continued.
    pub fn beginning(&self, reply: &str) -> Option<String> {
        let at = reply.rfind(&self.after)? + self.after.len();
        Some(format!("{}{}", &reply[..at], self.opening))
    }
}

/// How tokens are drawn. Texts of `stop` stay in the reply. Without a repetition penalty a server takes that of the
/// model's folder, as `generate` of transformers does.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    /// Sampling temperature; 0 is greedy.
    pub temperature: f64,
    #[serde(flatten)]
    pub params: SamplingParams,
}

impl AgentLoop {
    /// A loop of this shape with defaults elsewhere.
    pub fn new(fidelity: Fidelity, shape: impl Into<Shape>) -> Self {
        Self {
            fidelity,
            opening: opening(),
            label_separator: String::new(),
            scored: Scored::default(),
            continued: BTreeMap::new(),
            harness: Harness::default(),
            sampling: Sampling::default(),
            shape: shape.into(),
        }
    }

    /// Maximum of model calls of a sample.
    pub fn turns(&self) -> usize {
        match &self.shape {
            Shape::OneTurn => 1,
            Shape::Frames(frames) => frames.turns,
            Shape::Code(code) => code.turns,
        }
    }

    /// The turns over frames, where the agent chooses them.
    pub fn frames(&self) -> Option<&FrameLoop> {
        match &self.shape {
            Shape::Frames(frames) => Some(frames),
            Shape::OneTurn | Shape::Code(_) => None,
        }
    }

    /// The turns of code, where the model writes it.
    pub fn code(&self) -> Option<&CodeLoop> {
        match &self.shape {
            Shape::Code(code) => Some(code),
            Shape::OneTurn | Shape::Frames(_) => None,
        }
    }

    /// Frames of the first turn, where the agent chooses them.
    pub fn overview(&self) -> Option<Overview> {
        self.frames()?.policy.overview
    }

    /// A video for each call, where calls show videos.
    pub fn clips(&self) -> Option<&Clips> {
        self.frames()?.clips.as_ref()
    }

    /// The second generation of a sample's answer.
    pub fn continued(&self, sample: &Sample) -> Option<&Continued> {
        let kinds = sample.gold.kind().text_keys();
        let mut names = std::iter::once(sample.task.as_str()).chain(kinds.iter().copied());
        names.find_map(|name| self.continued.get(name))
    }

    /// The rules that not every loop has, by the paths of their fields below `agent`.
    pub fn special_fields(&self) -> impl Iterator<Item = &'static str> {
        let harness = &self.harness;
        let fields = [
            ("frames.overview", self.overview().is_some()),
            ("clips", self.clips().is_some()),
            ("tries", self.frames().is_some_and(|frames| !is_default(&frames.tries))),
            ("harness.calls", !is_default(&harness.calls)),
            ("harness.history", !is_default(&harness.history)),
            ("harness.errors", !harness.errors.is_empty()),
            ("scored", self.scored == Scored::Joined),
        ];
        fields.into_iter().filter(|(_, is_there)| *is_there).map(|(field, _)| field)
    }
}

impl FrameLoop {
    /// Turns with defaults elsewhere.
    pub fn new(turns: usize, policy: FramePolicy) -> Self {
        Self {
            turns,
            round: BTreeMap::new(),
            last: BTreeMap::new(),
            last_turn: String::new(),
            result_role: ResultRole::default(),
            failed_calls: FailedCalls::default(),
            policy,
            clips: None,
            tries: Tries::default(),
        }
    }

    /// Question texts of the result that turn `turn` (from 0) answers; empty where they are those of the first turn.
    pub fn later(&self, turn: usize) -> &BTreeMap<String, Template> {
        if self.is_last(turn) && !self.last.is_empty() { &self.last } else { &self.round }
    }

    /// Whether no turn follows this one.
    pub fn is_last(&self, turn: usize) -> bool {
        turn + 1 >= self.turns
    }
}

fn opening() -> Template {
    Template::parse("{frames}{question}")
}

fn is_opening(template: &Template) -> bool {
    *template == opening()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_read_and_written_without_what_it_leaves_at_its_default() {
        let text = r#"{"fidelity":"exact","turns":3,"frames":{"overview":{"frames":16},
            "size":{"long_side":448},"filter":"lanczos","encoding":{"jpeg":75}},"sampling":{"temperature":1.0}}"#;
        let agent_loop: AgentLoop = serde_json::from_str(text).unwrap();
        assert_eq!(
            serde_json::to_value(&agent_loop).unwrap(),
            serde_json::from_str::<serde_json::Value>(text).unwrap()
        );
        let frames = agent_loop.frames().unwrap();
        assert!(frames.is_last(2) && !frames.is_last(1));
        assert!(serde_json::from_str::<AgentLoop>(&text.replace("turns", "turn")).is_err());
    }

    #[test]
    fn a_rule_of_another_shape_is_refused() {
        let reads = |fields: &str| {
            let text = format!("{{\"fidelity\": \"variant\", {fields}}}");
            serde_json::from_str::<AgentLoop>(&text).map(|_| ()).map_err(|error| error.to_string())
        };
        let frames = r#""frames": {"size": {"multiple": 28}, "filter": "area", "encoding": "png"}"#;
        let code = r#""code": {"seconds": 1, "images": 1, "context_tokens": 1, "texts": {"video": [], "result": [],
            "heading": "", "figure": [], "error": [], "raised": [], "neither": "", "forbidden": "", "late": ""}}"#;
        assert_eq!(reads(r#""turns": 1"#), Ok(()));
        assert_eq!(reads(&format!(r#""turns": 3, "last_turn": "Last.", {frames}"#)), Ok(()));
        assert_eq!(reads(&format!(r#""turns": 3, "failed_calls": "stop", {code}"#)), Ok(()));
        for (fields, said) in [
            (r#""turns": 0"#.to_owned(), "expected a positive number"),
            (r#""turns": 2"#.to_owned(), "no `frames`"),
            (r#""turns": 1, "failed_calls": "stop""#.to_owned(), "has `failed_calls`"),
            (format!(r#""turns": 3, "last_turn": "Last.", {code}"#), "has `last_turn`"),
            (format!(r#""turns": 3, "tries": {{"count": 2}}, {code}"#), "has `tries`"),
            (format!(r#""turns": 3, {frames}, {code}"#), "`frames` and `code`"),
        ] {
            let error = reads(&fields).unwrap_err();
            assert!(error.contains(said), "{fields}: {error}");
        }
    }
}
