#![forbid(unsafe_code)]
//! Python semantics that the reference code relies on.
//!
//! The reference is Python; its `str.strip`, `\w`, `float()` and `json.loads` differ from Rust's
//! nearest relatives in corners that models do reach.

mod format;
mod json;
mod number;
mod numpy;
mod unicode;
mod value;

use std::sync::LazyLock;

use regex::Regex;

pub use format::{FormatError, format_named};
pub use json::{JsonError, loads};
pub use number::{Int, MAX_STR_DIGITS, float, floor_div, int, repr_float, whole};
pub use numpy::linspace;
pub use unicode::{CharClass, decimal_digit};
pub use value::{PyValue, dumps, repr, repr_str};

/// Python's `\s` (and `str.isspace`) as a class for the `regex` crate, whose own `\s` lacks U+001C to U+001F.
pub(crate) const SPACE: &str = r"[\s\x1c-\x1f]";

/// Python's `\w` as a class for the `regex` crate, whose own has combining marks too.
pub const WORD: &str = r"[\p{L}\p{N}_]";

/// A literal pattern of the reference with Python's `\s`, `\w` and `\W`.
///
/// # Panics
/// The pattern does not compile: for literals only, which a test reaches.
pub fn literal_regex(pattern: &str) -> Regex {
    let pattern = pattern.replace(r"\s", SPACE).replace(r"\w", WORD).replace(r"\W", r"[^\p{L}\p{N}_]");
    Regex::new(&pattern).expect("literal pattern")
}

/// A static [`literal_regex`], compiled where it is first used: `pattern! { NUMBER = r"\d+" }`.
#[macro_export]
macro_rules! pattern {
    ($(#[$doc:meta])* $vis:vis $name:ident = $pattern:expr) => {
        $(#[$doc])*
        $vis static $name: ::std::sync::LazyLock<::regex::Regex> =
            ::std::sync::LazyLock::new(|| $crate::literal_regex($pattern));
    };
}

/// `str.isspace` of one character.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// `str.strip()`.
pub fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Python's `\w`: alphanumeric by category (no combining marks, unlike Rust's), or an underscore.
pub fn is_word(c: char) -> bool {
    static MEMBERS: LazyLock<CharClass> = LazyLock::new(|| CharClass::literal(WORD));
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    MEMBERS.run_of(c).is_some()
}

/// `str.split()`: the words between white space.
pub fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// `str.splitlines()`.
pub fn split_lines(text: &str) -> Vec<&str> {
    let is_break = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_break(*c)) {
        lines.push(&rest[..at]);
        let after = &rest[at + c.len_utf8()..];
        rest = if c == '\r' { after.strip_prefix('\n').unwrap_or(after) } else { after };
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// First match of `\b([class])\b` where `wanted` accepts the character.
pub fn standalone(text: &str, wanted: impl Fn(char) -> bool) -> Option<char> {
    let mut before = false;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let after = characters.peek().copied().is_some_and(is_word);
        if wanted(c) && !before && !after {
            return Some(c);
        }
        before = is_word(c);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_are_pythons() {
        assert_eq!(strip("\u{1c}\u{1f} a\u{85}\u{3000}"), "a");
        assert_eq!(strip("\u{200b}a"), "\u{200b}a", "zero width space is not white space");
    }

    #[test]
    fn words_are_pythons() {
        assert!(!is_word('\u{301}'), "combining marks are none");
        assert!(is_word('²') && is_word('ª') && is_word('Ⅷ') && is_word('你'));
        assert_eq!(standalone("A\u{301} B", |c| c == 'A' || c == 'B'), Some('A'));
        assert_eq!(standalone("A² xB", |c| c == 'A' || c == 'B'), None);
    }
}
