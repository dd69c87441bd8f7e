//! Tries of an agent that begins afresh.

use serde::{Deserialize, Serialize};

use super::Template;
use super::harness::is_default;

/// How often an agent begins afresh where its answer does not count by the rules of its
/// [`Reference`](crate::agent::Reference).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tries {
    /// Maximum of tries; a single one counts whatever it ends with.
    pub count: usize,
    /// System texts of the tries, in the place of that of the mode; the last one is that of all that follow, too. Slot
    /// `n`: frames of the first turn.
    #[serde(skip_serializing_if = "is_default")]
    pub system: Vec<Template>,
}

impl Default for Tries {
    fn default() -> Self {
        Self { count: 1, system: Vec::new() }
    }
}

impl Tries {
    /// The system text of a try (from 0), where it is not that of the mode.
    pub fn system(&self, number: usize) -> Option<&Template> {
        self.system.get(number).or(self.system.last())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_system_text_is_that_of_all_tries_that_follow() {
        let text = r#"{"count": 4, "system": ["{n} frames", "{n} frames", "answer"]}"#;
        let tries: Tries = serde_json::from_str(text).unwrap();
        let texts: Vec<_> =
            (0..4).map(|number| tries.system(number).unwrap().render(&[("n", "8")])).collect();
        assert_eq!(texts, ["8 frames", "8 frames", "answer", "answer"].map(|text| Ok(text.to_owned())));
        assert_eq!(Tries::default().system(0), None);
    }
}
