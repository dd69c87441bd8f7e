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
#[serde(deny_unknown_fields)]
pub struct AgentLoop {
    /// Fidelity to the authors' evaluation.
    pub fidelity: Fidelity,
    /// Maximum of model calls of a sample; the calls in the last reply are not run.
    pub turns: usize,
    /// The first user message; slots `frames` (the overview), `question` (the split's question text), `stripped` (the
    /// same without blanks around it), `seconds` (length of the video, half a second less, at least 1, rounded down) and
    /// `side` (its shorter side in pixels); with [`clips`](Self::clips) also `fps` and `count` of the frames, `duration` (frames
    /// by their rate) and `file_duration` in seconds; with [`code`](Self::code) `question` and `video_info`.
    #[serde(default = "opening", skip_serializing_if = "is_opening")]
    pub opening: Template,
    /// The question in the results of later turns, by split, else by kind: slot `prompt` of `crop_response`. By
    /// default that of the first turn.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub round: BTreeMap<String, Template>,
    /// The same in the result that the last turn answers; by default [`round`](Self::round).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub last: BTreeMap<String, Template>,
    /// Stands behind the text of the result that the last turn answers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_turn: String,
    /// Role of the message with the results of a turn.
    #[serde(default, skip_serializing_if = "is_default")]
    pub result_role: ResultRole,
    /// What follows a turn whose calls all failed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failed_calls: FailedCalls,
    /// Stands before the label of every frame of a message but the first.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label_separator: String,
    /// Text that the agent's own extraction reads.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scored: Scored,
    /// A second generation for the answer alone, by split, else by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub continued: BTreeMap<String, Continued>,
    /// Conventions of the evaluation harness that the authors use.
    #[serde(default, skip_serializing_if = "is_default")]
    pub harness: Harness,
    /// Frames and their size; without it an overview as the run says, of one turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<FramePolicy>,
    /// A video for each call, in the place of frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clips: Option<Clips>,
    /// Fresh beginnings where an answer does not count.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tries: Tries,
    /// A tool that runs code of the model, in the place of frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<CodeRules>,
    /// How tokens are drawn, where the run does not say otherwise.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sampling: Sampling,
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
    /// A loop with `turns` turns and defaults elsewhere.
    pub fn new(fidelity: Fidelity, turns: usize) -> Self {
        Self {
            fidelity,
            turns,
            opening: opening(),
            round: BTreeMap::new(),
            last: BTreeMap::new(),
            last_turn: String::new(),
            result_role: ResultRole::default(),
            failed_calls: FailedCalls::default(),
            label_separator: String::new(),
            scored: Scored::default(),
            continued: BTreeMap::new(),
            harness: Harness::default(),
            frames: None,
            clips: None,
            tries: Tries::default(),
            code: None,
            sampling: Sampling::default(),
        }
    }

    /// Question texts of the result that turn `turn` (from 0) answers; empty where they are those of the first turn.
    pub fn later(&self, turn: usize) -> &BTreeMap<String, Template> {
        if self.is_last(turn) && !self.last.is_empty() { &self.last } else { &self.round }
    }

    /// The second generation of a sample's answer.
    pub fn continued(&self, sample: &Sample) -> Option<&Continued> {
        let kinds = sample.gold.kind().text_keys();
        let mut names = std::iter::once(sample.task.as_str()).chain(kinds.iter().copied());
        names.find_map(|name| self.continued.get(name))
    }

    /// Frames of the first turn, where the agent chooses them.
    pub fn overview(&self) -> Option<Overview> {
        self.frames.as_ref()?.overview
    }

    /// The rules that not every loop has, by the paths of their fields below `agent`.
    pub fn special_fields(&self) -> impl Iterator<Item = &'static str> {
        let harness = &self.harness;
        let fields = [
            ("frames.overview", self.overview().is_some()),
            ("clips", self.clips.is_some()),
            ("tries", !is_default(&self.tries)),
            ("harness.calls", !is_default(&harness.calls)),
            ("harness.history", !is_default(&harness.history)),
            ("harness.errors", !harness.errors.is_empty()),
            ("scored", self.scored == Scored::Joined),
        ];
        fields.into_iter().filter(|(_, is_there)| *is_there).map(|(field, _)| field)
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
        assert!(agent_loop.is_last(2) && !agent_loop.is_last(1));
        assert!(serde_json::from_str::<AgentLoop>(&text.replace("turns", "turn")).is_err());
    }
}
