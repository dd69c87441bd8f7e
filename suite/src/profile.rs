//! The three profiles and the switches that they set.
//!
//! A quirk of the reference is one named switch here or, when only one benchmark has it, in that benchmark's
//! description. `suite/docs/quirks.md` says of each what it does, where the reference does it, which profiles
//! keep it and which test shows it.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::media::Reader;
use crate::message::Spread;

/// Which protocol semantics a run follows. Every record carries it; reports never mix them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// As the released code on today's data, quirk for quirk. For parity tests.
    ///
    /// Known deviations, none of which the published files reach: an answer column that names no
    /// option, two rows with one id, a float where text belongs and a file of another extension than
    /// the published one are refused or found rather than scored as the loader happens to; a data
    /// revision that a recipe pins wins over the hub's `main`; the text of a failed call is an error,
    /// where the driver reads letters out of it.
    Release,
    /// The only profile whose numbers may stand beside the paper's Table 1.
    Paper,
    /// Corrected.
    #[default]
    Strict,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Profile; 3] = [Profile::Release, Profile::Paper, Profile::Strict];

    /// The profile of a run that names none: `paper` for a row of the published table, `strict` for a model of
    /// one's own, which reproduces nothing.
    pub fn default_for(paper_row: Option<&str>) -> Self {
        if paper_row.is_some() { Profile::Paper } else { Profile::default() }
    }

    /// Name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Profile::Release => "release",
            Profile::Paper => "paper",
            Profile::Strict => "strict",
        }
    }

    /// The engine's switches under this profile.
    pub fn switches(self) -> Switches {
        let strict = self == Profile::Strict;
        Switches {
            inverted_instruction: !strict,
            extraction: if strict { Extraction::Strict } else { Extraction::Upstream },
            errors: match self {
                Profile::Release | Profile::Paper => ErrorCounting::Upstream,
                Profile::Strict => ErrorCounting::EveryExpectedRow,
            },
            frame_loss_is_error: strict,
            malformed_call: if strict { MalformedCall::ErrorResponse } else { MalformedCall::SampleError },
            flag_truncated_calls: strict,
            video_channel_frames: if strict { 64 } else { 32 },
            raw_text: !strict,
            empty_answer: !strict,
            video_channel_spread: if strict { Spread::Rounded } else { Spread::Truncated },
            reader: if strict { Reader::Current } else { Reader::Pinned },
        }
    }
}

impl std::fmt::Display for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Profile::ALL
            .into_iter()
            .find(|profile| profile.as_str() == text)
            .ok_or_else(|| format!("unknown profile `{text}`: use release, paper or strict"))
    }
}

/// A profile and the switches that it sets; of a stored run those that it set when the run was begun.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    pub(crate) profile: Profile,
    pub(crate) switches: Switches,
}

impl From<Profile> for Rules {
    fn from(profile: Profile) -> Self {
        Self { profile, switches: profile.switches() }
    }
}

#[cfg(any(test, feature = "testing"))]
impl Rules {
    /// Changes a switch alone, for tests of its effect.
    pub fn switch(&mut self, change: impl FnOnce(&mut Switches)) {
        change(&mut self.switches);
    }
}

/// The switches that hold for every benchmark; each is a heading of `suite/docs/quirks.md`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Switches {
    /// Only mode `direct` gets the instruction that mentions the tool. Off: each mode gets the neutral
    /// instruction of the protocol.
    pub inverted_instruction: bool,
    /// Extraction of letters and intervals from an answer.
    pub extraction: Extraction,
    /// Place of failed samples in denominators.
    pub errors: ErrorCounting,
    /// A video without enough frames gives a text-only question (counted as frame loss), or an error.
    pub frame_loss_is_error: bool,
    /// Effect of a tool call that is not an object, or whose arguments are not one.
    pub malformed_call: MalformedCall,
    /// An unclosed tool call at the token limit is scored as the answer, or flagged and unparsed.
    pub flag_truncated_calls: bool,
    /// Frames that a server samples from a `video_url` (vLLM's default is 32).
    pub video_channel_frames: usize,
    /// The whole text of a reply is read, thoughts and calls included: a reply that a server took apart is
    /// refused unless putting it together again is exact.
    pub raw_text: bool,
    /// A server's reply with nothing in it is an answer without text, or a failed call.
    pub empty_answer: bool,
    /// Which frames those are. In-process engines follow it; a server has its own rule.
    pub video_channel_spread: Spread,
    /// Which releases of the reference's video readers decide which frames a window has, which way up
    /// they are, and whether a second reader takes over where the first fails.
    pub reader: Reader,
}

/// Extraction of answers from text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extraction {
    /// As the release: letters A to J wherever they stand, IoU over the hull of both intervals.
    Upstream,
    /// The last `<answer>`, the row's own letters, IoU by lengths.
    Strict,
}

/// Place of failed samples in denominators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCounting {
    /// Choice questions: wrong in the overall score, absent from duration breakdowns. Grounding:
    /// absent, except a failed call inside the tool loop, which upstream scores as IoU 0.
    Upstream,
    /// Every expected row is in every denominator; an error scores 0 and marks the run incomplete.
    EveryExpectedRow,
}

/// Effect of a malformed tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MalformedCall {
    /// The upstream driver raises: the whole sample becomes an error.
    SampleError,
    /// The call is answered with an error tool response and the conversation continues.
    ErrorResponse,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_switch_of_every_profile_is_as_the_table_says() {
        let upstream = Switches {
            inverted_instruction: true,
            extraction: Extraction::Upstream,
            errors: ErrorCounting::Upstream,
            frame_loss_is_error: false,
            malformed_call: MalformedCall::SampleError,
            flag_truncated_calls: false,
            video_channel_frames: 32,
            raw_text: true,
            empty_answer: true,
            video_channel_spread: Spread::Truncated,
            reader: Reader::Pinned,
        };
        assert_eq!(Profile::Release.switches(), upstream);
        assert_eq!(Profile::Paper.switches(), upstream);
        let corrected = Switches {
            inverted_instruction: false,
            extraction: Extraction::Strict,
            errors: ErrorCounting::EveryExpectedRow,
            frame_loss_is_error: true,
            malformed_call: MalformedCall::ErrorResponse,
            flag_truncated_calls: true,
            video_channel_frames: 64,
            raw_text: false,
            empty_answer: false,
            video_channel_spread: Spread::Rounded,
            reader: Reader::Current,
        };
        assert_eq!(Profile::Strict.switches(), corrected);
    }

    #[test]
    fn names_are_read_back_and_others_refused() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        assert!("Paper".parse::<Profile>().is_err_and(|error| error.contains("release, paper or strict")));
    }
}
