//! A key that cannot be printed by accident.

/// An API key.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key.
    pub fn new(key: String) -> Self {
        Self(key)
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// The text without the key.
    pub(crate) fn redact(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, "[key]") }
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[key]")
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn keys_are_not_printed() {
        let key = Secret::new("sk-1".into());
        assert_eq!(format!("{key:?}"), "[key]");
        assert_eq!(key.redact("bad key sk-1!"), "bad key [key]!");
    }
}
