//! Interfaces that a release implements: the syntax of tool calls, scoring, and the frames that an agent with a loop of
//! its own looks at.
//!
//! The implementations are outside of this crate, one for each release; a
//! [`Protocol`](crate::protocol::Protocol) names the one it belongs to.

use std::collections::BTreeMap;

use crate::media::VideoFacts;
use crate::message::StructuredCall;
use crate::protocol::{CallError, Clips, FramePolicy, Overview, Template, Tool};
use crate::record::Score;
use crate::sample::{Gold, Sample};
use crate::span::TimeSpan;

/// One release: its name, its tool calls, its scoring.
#[derive(Clone, Copy)]
pub struct Reference {
    /// Name, as [`Protocol::reference`](crate::protocol::Protocol::reference) has it.
    pub name: &'static str,
    /// Syntax of its models' tool calls.
    pub syntax: &'static dyn ToolSyntax,
    /// Scoring of its evaluation.
    pub scorer: &'static dyn Scorer,
    /// Rules of its frames, where its loop is its own ([`Protocol::agent`](crate::protocol::Protocol::agent)).
    pub looks: Option<&'static dyn Looks>,
}

impl Reference {
    /// An agent's rules, all of them in one type.
    pub const fn of<T: ToolSyntax + Scorer + Looks>(name: &'static str, rules: &'static T) -> Self {
        Self { name, syntax: rules, scorer: rules, looks: Some(rules) }
    }
}

/// Which frames an agent with a loop of its own looks at, and which of its answers count.
pub trait Looks: Send + Sync {
    /// Whether the first turn shows frames.
    fn has_overview(&self) -> bool {
        true
    }

    /// Frames of the first turn.
    fn overview(&self, overview: &Overview, video: &VideoFacts) -> Look;

    /// The text that answers a call which shows no frames.
    fn text(&self, _call: &Call, _view: &View<'_>) -> Option<String> {
        None
    }

    /// Whether the answer of a try counts; the next one begins otherwise ([`Tries`](crate::protocol::Tries)). `turns` are
    /// the messages after the question, the last reply included, `None` for one of frames.
    fn accepts(&self, _turns: &[Option<&str>], _policy: &FramePolicy) -> bool {
        true
    }

    /// Frames of one call.
    ///
    /// # Errors
    /// Why there are none, as the model is answered with it.
    fn look(&self, _call: &Call, _view: &View<'_>) -> Result<Look, String> {
        Err("the reference has no calls that show frames".to_owned())
    }
}

/// What a call is run on.
pub struct View<'a> {
    /// The video.
    pub video: &'a VideoFacts,
    /// Its name, as the model is shown it.
    pub name: &'a str,
    /// Indices of the frames that were shown before.
    pub seen: &'a [usize],
    /// Maximum of frames of a call ([`Tool::max_frames`]).
    pub max_frames: usize,
    /// Frames and their size.
    pub policy: &'a FramePolicy,
    /// Rules of a video for each call, where there are such.
    pub clips: Option<&'a Clips>,
    /// Words of the tool for what it refuses ([`Harness::errors`](crate::protocol::Harness::errors)).
    pub errors: &'a BTreeMap<String, Template>,
}

/// Frames to show.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Indices in the video, ascending; one may stand there twice.
    pub indices: Vec<usize>,
    /// The time that is shown with each, in seconds.
    pub times: Vec<f64>,
    /// Factor of the sides, for [`SizeRule::Multiple`](crate::protocol::SizeRule::Multiple).
    pub scale: f64,
    /// Most pixels of half the frames, for [`Clips`].
    pub total: Option<u32>,
    /// Values of slots of the text around them, for [`Clips`].
    pub slots: Vec<(&'static str, String)>,
}

impl Look {
    /// Frames with their index by the frame rate for a time.
    pub fn at(indices: Vec<usize>, rate: f64) -> Self {
        let times = indices.iter().map(|&index| index as f64 / rate).collect();
        Self { indices, times, scale: 1.0, total: None, slots: Vec::new() }
    }
}

/// Rule of a text at which the release's own code raises; its profiles count the sample as failed.
pub const RAISES: &str = "too_many_minutes";

/// A way to take an answer out of a text and to compare it: the corrected rules ([`Strict`](crate::scoring::Strict)), those of a
/// release, mistakes included, or those that a benchmark was published with.
pub trait Scorer: Send + Sync {
    /// Scores one final text. `letters` are the row's own option letters, empty for other than choice
    /// questions. A text at which the repeated code raises has the rule [`RAISES`].
    fn score(&self, gold: &Gold, letters: &str, text: &str) -> Score;

    /// Scores the final text of a sample, for rules that look for the texts of its options, too.
    fn score_sample(&self, sample: &Sample, text: &str) -> Score {
        self.score(&sample.gold, &sample.question.letters, text)
    }
}

/// Opening and closing tag of a block of text.
pub type Tag = (&'static str, &'static str);

/// Block that holds the response to a call.
pub const RESPONSE: Tag = ("<tool_response>", "</tool_response>");

/// One tool call: a window of the sample's video to look at.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The call as records carry it.
    pub value: serde_json::Value,
    /// The window, as asked, or why it cannot be read.
    pub window: Result<TimeSpan, CallError>,
}

/// Syntax of tool calls in text; as it stands, that of models without calls.
pub trait ToolSyntax: Send + Sync {
    /// Blocks that hold a call.
    fn tags(&self) -> &'static [Tag] {
        &[]
    }

    /// The calls of a text, in the order in which they are run.
    fn calls(&self, _text: &str, _tool: &Tool) -> Vec<Call> {
        Vec::new()
    }

    /// A call that came by the chat API, read as [`calls`](Self::calls) reads a written one. A syntax of text alone
    /// has none.
    fn structured(&self, call: &StructuredCall, _tool: &Tool) -> Call {
        let reason = format!("{}: calls are written in the text", call.name);
        Call {
            value: serde_json::Value::String(call.arguments.clone()),
            window: Err(CallError::Unreadable { reason }),
        }
    }

    /// The text that a server took apart into thoughts, content and calls, as the model wrote it. A syntax of text
    /// alone has only the content.
    fn rebuild(&self, _reasoning: Option<&str>, content: &str, _calls: &[StructuredCall]) -> String {
        content.to_owned()
    }

    /// Whether [`rebuild`](Self::rebuild) is sure to give the model's text to the byte, for a model that
    /// writes calls as its chat template does.
    fn rebuilds_exactly(&self, _reasoning: Option<&str>, _content: &str, _calls: &[StructuredCall]) -> bool {
        false
    }

    /// Whether the text ends in the middle of a call.
    fn has_unclosed_call(&self, text: &str) -> bool {
        self.tags().iter().any(|(open, close)| match (text.rfind(open), text.rfind(close)) {
            (Some(open), Some(close)) => open > close,
            (Some(_), None) => true,
            (None, _) => false,
        })
    }
}
