//! Text with named slots.

use serde::{Deserialize, Serialize};

/// Text with named slots, kept as pieces so that no brace in a text has to be escaped. A file may write it as
/// one text, too ([`Template::read`]).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Template(pub Vec<Piece>);

/// A template as files have it.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text with slots in braces, or a list of pieces")]
enum Written {
    Text(String),
    Pieces(Vec<Piece>),
}

impl TryFrom<Written> for Template {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Text(text) => Self::read(&text),
            Written::Pieces(pieces) => Ok(Self(pieces)),
        }
    }
}

/// The beginning of a text, for errors.
fn excerpt(text: &str) -> String {
    text.chars().take(60).collect()
}

/// One piece of a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Piece {
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
    #[error("unknown slot `{slot}`; this text has {known}")]
    UnknownSlot { slot: String, known: String },
    #[error("the text has more than {} MiB at slot `{slot}`; put the value in fewer times", MAX_TEXT >> 20)]
    TooLong {
        /// The slot whose value did not fit.
        slot: String,
    },
}

impl Template {
    /// The template of a text that stands in the code; see [`Template::read`].
    ///
    /// # Panics
    /// A brace is not closed.
    pub fn parse(text: &str) -> Self {
        Self::read(text).expect("a template in the code has closed slots")
    }

    /// Reads `"a {slot} b"`; `{{` and `}}` are braces.
    ///
    /// # Errors
    /// A brace that is not closed, or a slot without a name.
    pub fn read(text: &str) -> Result<Self, String> {
        let (mut pieces, mut literal, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            literal.push_str(before);
            let brace = &from[..1];
            if let Some(after) = from[1..].strip_prefix(brace) {
                literal.push_str(brace);
                rest = after;
                continue;
            }
            let end = from.find('}').filter(|_| brace == "{").ok_or_else(|| {
                let other = if brace == "{" { "}" } else { "{" };
                format!(
                    "template `{}`: `{brace}` without `{other}`; write `{brace}{brace}` for the brace itself",
                    excerpt(text)
                )
            })?;
            let name = &from[1..end];
            if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || "_-. ".contains(c)) {
                return Err(format!(
                    "template `{}`: `{{{name}}}` is not a slot; write `{{{{` for a brace",
                    excerpt(text)
                ));
            }
            if !literal.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut literal)));
            }
            pieces.push(Piece::Slot(name.to_owned()));
            rest = &from[end + 1..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal));
        }
        Ok(Self(pieces))
    }

    /// Names of the values that it puts in.
    pub fn slots(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Slot(slot) => Some(slot.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// Whether it puts in a value of this name.
    pub(crate) fn has_slot(&self, name: &str) -> bool {
        self.slots().any(|slot| slot == name)
    }

    /// What stands before and behind the first slot of this name.
    pub fn around(&self, name: &str) -> Option<(Self, Self)> {
        let at = self.0.iter().position(|piece| matches!(piece, Piece::Slot(slot) if slot == name))?;
        Some((Self(self.0[..at].to_vec()), Self(self.0[at + 1..].to_vec())))
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
        assert_eq!(error, "unknown slot `b`; this text has a");
    }

    #[test]
    fn doubled_braces_are_braces_and_open_ones_are_refused() {
        let rendered = |text: &str| Template::read(text).unwrap().render(&[("a", "1")]).unwrap();
        assert_eq!(rendered("{{{a}}} {{\"x\": 2}}{{"), "{1} {\"x\": 2}{");
        assert_eq!(rendered(""), "");
        for text in ["{a", "a}", "{}", "{a:b}", "{a{b}", "{{a}", "{\"x\": 2}"] {
            assert!(Template::read(text).is_err(), "{text}");
        }
        let both = ["\"{a} b\"", r#"[{"slot": "a"}, {"text": " b"}]"#];
        let [text, pieces] = both.map(|json| serde_json::from_str::<Template>(json).unwrap());
        assert_eq!(text, pieces);
        assert_eq!(serde_json::to_string(&text).unwrap(), r#"[{"slot":"a"},{"text":" b"}]"#);
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
