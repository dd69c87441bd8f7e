//! Keys that cannot be printed by accident, and their removal from what servers say.

use crate::EXCERPT;

/// An API key, or the value of a header.
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
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[key]")
    }
}

/// Everything that a message or a record may not hold.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

/// Shorter secrets (`EMPTY`, `none`) are words that a model may say: an answer keeps them.
const SHORTEST_IN_ANSWERS: usize = 8;

impl Secrets {
    pub(crate) fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<String> = secrets.into_iter().filter(|secret| !secret.is_empty()).collect();
        // The longest first: one may be part of another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    /// The text without any secret.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "[key]"))
    }

    /// Takes secrets out of a model's answer.
    pub(crate) fn scrub(&self, text: &mut String) {
        for secret in self.0.iter().filter(|secret| secret.len() >= SHORTEST_IN_ANSWERS) {
            if text.contains(secret.as_str()) {
                *text = text.replace(secret, "[key]");
            }
        }
    }

    /// The start of a server's text on one line, secrets removed before it is cut.
    pub(crate) fn excerpt(&self, body: &[u8]) -> String {
        let text = self.redact(&String::from_utf8_lossy(body));
        text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(EXCERPT).collect()
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{} keys]", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_not_printed() {
        assert_eq!(format!("{:?}", Secret::new("sk-1".into())), "[key]");
        let secrets = Secrets::new(["sk-1".to_owned(), "sk-1234".to_owned(), String::new()]);
        assert_eq!(secrets.redact("bad keys sk-1234, sk-1!"), "bad keys [key], [key]!");
        assert!(!format!("{secrets:?}").contains("sk"));
    }

    #[test]
    fn an_excerpt_never_ends_within_a_key() {
        let key = "sk-0123456789abcdefghijkl";
        let secrets = Secrets::new([key.to_owned()]);
        for before in EXCERPT - key.len()..=EXCERPT {
            let body = format!("{}{key} is not valid", "x".repeat(before));
            let shown = secrets.excerpt(body.as_bytes());
            assert!(!shown.contains("sk-0"), "{before}: {shown}");
        }
    }

    #[test]
    fn answers_lose_keys_and_keep_words() {
        let secrets = Secrets::new(["EMPTY".to_owned(), "token-abc123".to_owned()]);
        let mut text = "EMPTY token-abc123".to_owned();
        secrets.scrub(&mut text);
        assert_eq!(text, "EMPTY [key]");
    }
}
