//! The name of a mode.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Protocol;
use crate::nearest;

/// Characters that a name may have.
const LONGEST: usize = 64;

/// Prompt mode: the name of one of a protocol's system texts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PromptMode(String);

impl PromptMode {
    /// A mode whose name stands in the code.
    ///
    /// # Panics
    /// The name is not a valid one.
    pub fn named(name: &'static str) -> Self {
        name.parse().expect("a name in the code is valid")
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PromptMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for PromptMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::try_from(text.to_owned())
    }
}

impl TryFrom<String> for PromptMode {
    type Error = String;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        if name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(valid)
            && name.len() <= LONGEST
        {
            return Ok(Self(name));
        }
        let shown: String = name.chars().take(LONGEST).collect();
        Err(format!(
            "prompt mode `{shown}`: use lower-case letters, digits, `_` and `-`, a letter first, at most {LONGEST} characters"
        ))
    }
}

impl From<PromptMode> for String {
    fn from(mode: PromptMode) -> Self {
        mode.0
    }
}

/// A protocol does not have a mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("protocol {protocol} has no mode {mode}; it has {known}{hint}", hint = nearest::hint(.nearest.as_deref()))]
pub struct UnknownMode {
    pub protocol: String,
    pub mode: PromptMode,
    /// The modes that it has, separated by commas.
    pub known: String,
    /// The one whose name is nearest, if one is near.
    pub nearest: Option<String>,
}

impl UnknownMode {
    pub(super) fn of(protocol: &Protocol, mode: &PromptMode) -> Self {
        let known: Vec<&str> = protocol.system.keys().map(PromptMode::as_str).collect();
        Self {
            protocol: protocol.name.clone(),
            mode: mode.clone(),
            known: known.join(", "),
            nearest: nearest::nearest(mode.as_str(), known.iter().copied()).map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::native;

    #[test]
    fn names_are_checked_wherever_they_come_from() {
        let longest = "a".repeat(LONGEST);
        for name in ["direct", "agentic_general", "v2-short", &longest] {
            assert_eq!(name.parse::<PromptMode>().unwrap().as_str(), name);
        }
        let too_long = "a".repeat(LONGEST + 1);
        for name in ["", "Direct", "2fast", "a b", "a/b", "../x", "é", &too_long] {
            assert!(name.parse::<PromptMode>().is_err(), "{name}");
            assert!(serde_json::from_value::<PromptMode>(name.into()).is_err(), "{name}");
        }
    }

    #[test]
    fn an_unknown_mode_names_the_known_ones_and_the_nearest() {
        let protocol = native::protocol();
        let problem = |name| protocol.system_text(&PromptMode::named(name)).unwrap_err().to_string();
        assert_eq!(
            problem("reasonin"),
            "protocol native has no mode reasonin; it has direct, reasoning, agentic_general, agentic_minimal, \
             native\ndid you mean `reasoning`?"
        );
        assert!(!problem("zzz").contains("did you mean"));
    }
}
