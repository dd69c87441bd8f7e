//! Text with named slots.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// Text with named slots, kept as pieces so that no brace in a text has to be escaped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Template(pub Vec<Piece>);

/// One piece of a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Piece {
    /// Literal text.
    Text(String),
    /// A value by name.
    Slot(String),
}

/// A slot that the caller has no value for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the template has a slot `{slot}` that nothing fills here (known: {known})")]
pub struct UnknownSlot {
    /// Name of the slot.
    pub slot: String,
    /// Names that were available.
    pub known: String,
}

impl Template {
    /// Parses `"a {slot} b"`; for texts of our own, which hold no other braces.
    pub fn parse(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, tail)) = after.split_once('}') else { break };
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            pieces.push(Piece::Slot(name.to_owned()));
            rest = tail;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Self(pieces)
    }

    /// Whether it puts in a value of this name.
    pub fn has_slot(&self, name: &str) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Slot(slot) if slot == name))
    }

    /// Fills the slots.
    ///
    /// # Errors
    /// A slot without a value.
    pub fn render(&self, values: &[(&str, &str)]) -> Result<String, UnknownSlot> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(literal) => text.push_str(literal),
                Piece::Slot(slot) => {
                    let value = values.iter().find(|(name, _)| name == slot).ok_or_else(|| UnknownSlot {
                        slot: slot.clone(),
                        known: values.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
                    })?;
                    let _ = write!(text, "{}", value.1);
                }
            }
        }
        Ok(text)
    }
}
