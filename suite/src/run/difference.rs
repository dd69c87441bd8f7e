//! A field in which two runs differ.

use std::fmt;

/// Digits of a SHA-256 that are shown.
const DIGITS: usize = 12;

/// A field of two manifests with different values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Dotted name, e.g. `nframes` or `request.top_p`.
    pub name: String,
    /// Value of the first run as it is shown: a hash by its first digits, a protocol by its name. `None` where it has none.
    pub was: Option<String>,
    /// Value of the second.
    pub now: Option<String>,
}

impl Difference {
    /// Of values; `called` are their names where the values are hashes that have one.
    pub(super) fn new(name: &str, values: [Option<String>; 2], called: Option<[&str; 2]>) -> Self {
        let [was, now] = values.map(|value| value.map(|value| shorten(&value).to_owned()));
        let [was, now] = match called {
            // Texts of the same name differ in their hashes.
            Some([a, b]) if a == b => [was, now].map(|hash| hash.map(|hash| format!("{a} ({hash})"))),
            Some(names) => names.map(|name| Some(name.to_owned())),
            None => [was, now],
        };
        Self { name: name.to_owned(), was, now }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, was, now } = self;
        let [was, now] = [was, now].map(|value| value.as_deref().unwrap_or("not set"));
        write!(f, "{name} was {was}, now {now}")
    }
}

/// The first digits of a SHA-256; anything else as it is.
fn shorten(value: &str) -> &str {
    let is_hash = value.len() == 64 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { &value[..DIGITS] } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_shown_by_their_names_or_first_digits() {
        let [one, other] = ["0123456789abcdef", "fedcba9876543210"].map(|part| Some(part.repeat(4)));
        let shown = |called| Difference::new("protocol", [one.clone(), other.clone()], called).to_string();
        assert_eq!(shown(Some(["native", "paravt"])), "protocol was native, now paravt");
        assert_eq!(
            shown(Some(["mine", "mine"])),
            "protocol was mine (0123456789ab), now mine (fedcba987654)"
        );
        assert_eq!(
            Difference::new("samples", [one.clone(), None], None).to_string(),
            "samples was 0123456789ab, now not set"
        );
    }
}
