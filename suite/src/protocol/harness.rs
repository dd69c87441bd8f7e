//! Conventions of the evaluation harness around an agent's loop, where they reach the model or the answer.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Template;

/// How a harness writes a conversation, and what it sets by split.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Harness {
    /// The first user message of single splits, by their names, where it is another one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub openings: BTreeMap<String, Template>,
    /// A text part of its own at the end of the first user message; slot `video_name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<Template>,
    /// How a turn with calls is written.
    #[serde(skip_serializing_if = "is_default")]
    pub calls: CallMessages,
    /// Requests that have the results of a turn's calls.
    #[serde(skip_serializing_if = "is_default")]
    pub history: History,
    /// Token limit of a reply in single splits; elsewhere that of the protocol.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub max_tokens: BTreeMap<String, u32>,
    /// Words of the tool for calls that it refuses, by the names that the agent's rules have for them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, Template>,
    /// Splits in which something is not the authors': results are a `variant`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub variants: BTreeSet<String>,
}

/// How a turn with calls is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallMessages {
    /// The reply is one message, the results of its calls are another.
    #[default]
    #[serde(rename = "together")]
    OneMessagePerTurn,
    /// Text and calls of the reply are a message each, and so are the results of each call. A call that cannot be read
    /// at all ends the conversation without an answer.
    #[serde(rename = "apart")]
    OneMessagePerCall,
}

/// Requests that have the results of a turn's calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum History {
    #[default]
    #[serde(rename = "kept")]
    Kept,
    #[serde(rename = "once")]
    NextRequestOnly,
}

impl Harness {
    /// The first user message of a split, where it has one of its own.
    pub fn opening(&self, split: &str) -> Option<&Template> {
        self.openings.get(split)
    }
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
