//! The tool as a protocol has it: a look at a window of the sample's video.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{PromptMode, Template};

/// How calls of the tool are read and run. What the model reads about it is in the system texts and, for
/// dialect `native`, in [`ChatTools`](super::ChatTools).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Modes that offer the tool: they run the tool loop, the others are one call.
    pub modes: BTreeSet<PromptMode>,
    /// Modes in which the server has the tool and runs its calls: they are one call, and the calls that come with the
    /// reply are recorded.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub served: BTreeSet<PromptMode>,
    /// Its name, as calls have it.
    pub name: String,
    /// Names of the argument with the window's start in seconds; the first that a call has counts.
    pub start: Vec<String>,
    /// Names of the argument with the window's end in seconds.
    pub end: Vec<String>,
    /// Length in seconds of a window whose end is not given.
    pub default_seconds: f64,
    /// Maximum of frames that a window is shown with; one per second of the window.
    pub max_frames: usize,
    /// Reason of a call that is not an object, or whose arguments are not; slot `found`, the type.
    #[serde(default)]
    pub not_an_object: Template,
    /// Reason of a call with a number that is too large.
    #[serde(default)]
    pub too_large: Template,
}

impl Default for Tool {
    /// The tool of protocols whose modes offer none, or whose calls are read by rules of their own.
    fn default() -> Self {
        Self {
            modes: BTreeSet::new(),
            served: BTreeSet::new(),
            name: "none".to_owned(),
            start: vec!["start".to_owned()],
            end: vec!["end".to_owned()],
            default_seconds: 1.0,
            max_frames: 1,
            not_an_object: Template::default(),
            too_large: Template::default(),
        }
    }
}

/// Why a call cannot be run; [`Tool`] has the words that the model is answered with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The call or its arguments are something else than an object.
    #[error("the call or its arguments: expected an object, found `{found}`")]
    NotAnObject {
        /// Its type, as the release calls it.
        found: String,
    },
    /// An agent with rules of its own cannot read the call.
    #[error("{reason}")]
    Unreadable {
        /// Its words, as the model is answered with them.
        reason: String,
    },
    /// A time is an integer that no float can hold.
    #[error("a time of the call is too large")]
    TooLarge,
}
