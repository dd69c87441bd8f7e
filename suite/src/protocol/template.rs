//! Text with named slots.

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

/// Maximum size of a rendered text, in bytes; the longest subtitles have some hundred thousand.
pub const MAX_TEXT: usize = 64 << 20;

/// Why a template cannot be filled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A slot that the caller has no value for.
    #[error("the template has a slot `{slot}` that nothing fills here (known: {known})")]
    UnknownSlot {
        /// Name of the slot.
        slot: String,
        /// Names that were available.
        known: String,
    },
    /// The text is too long.
    #[error("the text has more than {} MiB at slot `{slot}`; put the value in fewer times", MAX_TEXT >> 20)]
    TooLong {
        /// The slot whose value did not fit.
        slot: String,
    },
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
    /// A slot without a value, or a text of more than [`MAX_TEXT`] bytes.
    pub fn render(&self, values: &[(&str, &str)]) -> Result<String, TemplateError> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(literal) => text.push_str(literal),
                Piece::Slot(slot) => {
                    let value = values.iter().find(|(name, _)| name == slot).ok_or_else(|| {
                        TemplateError::UnknownSlot {
                            slot: slot.clone(),
                            known: values.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
                        }
                    })?;
                    if text.len() + value.1.len() > MAX_TEXT {
                        return Err(TemplateError::TooLong { slot: slot.clone() });
                    }
                    text.push_str(value.1);
                }
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_filled_by_name() {
        let template = Template::parse("{a} and {b}, {a}");
        assert_eq!(template.render(&[("a", "1"), ("b", "{a}")]).unwrap(), "1 and {a}, 1");
        let error = template.render(&[("a", "1")]).unwrap_err().to_string();
        assert_eq!(error, "the template has a slot `b` that nothing fills here (known: a)");
    }

    #[test]
    fn a_template_that_doubles_its_own_output_reaches_the_limit() {
        let doubling = Template::parse("{text}{text}");
        let mut text = "12345678".to_owned();
        let mut error = None;
        for _ in 0..40 {
            match doubling.render(&[("text", text.as_str())]) {
                Ok(twice) => text = twice,
                Err(found) => {
                    error = Some(found);
                    break;
                }
            }
        }
        assert_eq!(text.len(), MAX_TEXT);
        let error = error.unwrap().to_string();
        assert_eq!(error, "the text has more than 64 MiB at slot `text`; put the value in fewer times");
    }
}
