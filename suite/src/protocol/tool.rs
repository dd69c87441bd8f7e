//! The tool as a protocol has it: a look at a window of the sample's video.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{PromptMode, Template};
use crate::text::hex;

/// How calls of the tool are read and run. What the model reads about it is in the system texts and, for
/// dialect `native`, in [`ChatTools`](super::ChatTools).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Modes that offer the tool: they run the tool loop, the others are one call.
    pub modes: BTreeSet<PromptMode>,
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
    pub not_an_object: Template,
    /// Reason of a call with a number that is too large.
    pub too_large: Template,
}

/// SHA-256 of the tools of protocols that were hashed before the tool was a field of theirs. It was a constant
/// of the code then; these values are left out of the hash, so that published hashes stay.
const FORMER_CONSTANTS: [&str; 2] = [
    "f2b268c7804997d25d7b7181f32cda18ddc59776dcbc7e4e6d258d8068228040",
    "97a2d1cff59cba208feacd9f52511abfb1ce549fa581cfc8163723df6320a8e1",
];

impl Tool {
    /// Whether the tool is one that was a constant of the code before it was a field.
    pub(super) fn was_constant(&self) -> bool {
        FORMER_CONSTANTS.contains(&self.digest().as_str())
    }

    fn digest(&self) -> String {
        let text = serde_json::to_string(self).expect("a struct of texts and numbers serialises");
        hex(&Sha256::digest(text.as_bytes()))
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
    /// A time is an integer that no float can hold.
    #[error("a time of the call is too large")]
    TooLarge,
}
