//! Interfaces that a release implements: the syntax of tool calls, scoring, and the frames that its calls show.
//!
//! The implementations are outside of this crate, one for each release; a
//! [`Protocol`](crate::protocol::Protocol) names the one it belongs to.

use crate::media::VideoFacts;
use crate::message::StructuredCall;
use crate::protocol::{CallError, FramePolicy, Overview, Tool};
use crate::record::Score;
use crate::sample::{Gold, Sample};
use crate::span::TimeSpan;

/// Which frames an agent shows whose calls are answered with frames ([`turns`](crate::agent::turns)).
pub trait FrameRules: Send + Sync {
    /// Whether the first turn can show frames.
    fn has_overview(&self) -> bool {
        true
    }

    /// Frames of the first turn.
    fn overview(&self, overview: &Overview, video: &VideoFacts) -> FrameChoice;

    /// Runs one call.
    ///
    /// # Errors
    /// Why it shows nothing, as the model is answered with it.
    fn run(&self, _call: &Call, _context: &CallContext<'_>) -> Result<CallResult, String> {
        Err("the reference has no calls that show frames".to_owned())
    }
}

/// What a call is run on.
pub struct CallContext<'a> {
    pub video: &'a VideoFacts,
    /// Indices of the frames that were shown before.
    pub seen: &'a [usize],
    /// Maximum of frames of a call ([`Tool::max_frames`]).
    pub max_frames: usize,
    /// Frames and their size.
    pub policy: &'a FramePolicy,
}

/// What a call gives.
pub enum CallResult {
    Frames(FrameChoice),
    Text(String),
}

/// Frames to show.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameChoice {
    /// Indices in the video, ascending; one may stand there twice.
    pub indices: Vec<usize>,
    /// The time that is shown with each, in seconds.
    pub times: Vec<f64>,
    /// Factor of the sides, for [`SizeRule::Multiple`](crate::protocol::SizeRule::Multiple).
    pub scale: f64,
}

impl FrameChoice {
    /// Frames with their index by the frame rate for a time.
    pub fn at(indices: Vec<usize>, rate: f64) -> Self {
        let times = indices.iter().map(|&index| index as f64 / rate).collect();
        Self { indices, times, scale: 1.0 }
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

impl Call {
    /// The window as asked; not a number where it cannot be read.
    pub fn span(&self) -> TimeSpan {
        self.window.as_ref().copied().unwrap_or(TimeSpan::new(f64::NAN, f64::NAN))
    }
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
