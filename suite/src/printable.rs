//! Foreign text (model names, labels, answers, server messages) for terminals and pages.
//!
//! A terminal executes escape sequences wherever they come from, and a text that changes the reading
//! direction shows other words than it holds. Whatever the suite did not write itself passes one of
//! these functions before it is printed.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text with every invisible or controlling character shown by its code, `⟨U+001B⟩`; line feeds
/// and tabs stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    replaced(text, is_hidden_in_lines, by_code)
}

/// The same for a text that has to stay on one line, such as a cell of a table or a field of a log
/// line: line feeds and tabs are shown by their codes, too.
pub fn printable_line(text: &str) -> Cow<'_, str> {
    replaced(text, is_hidden, by_code)
}

/// The same as [`printable`] with the escapes of JSON, `\u001b`, for output that may be JSON: it stays the
/// same document.
pub fn printable_json(text: &str) -> Cow<'_, str> {
    replaced(text, is_hidden_in_lines, by_json_escape)
}

fn replaced(text: &str, hidden: fn(char) -> bool, show: fn(&mut String, char)) -> Cow<'_, str> {
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if hidden(c) {
            show(&mut shown, c);
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

// Writing to a string cannot fail.
fn by_code(shown: &mut String, c: char) {
    let _ = write!(shown, "⟨U+{:04X}⟩", u32::from(c));
}

fn by_json_escape(shown: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        let _ = write!(shown, "\\u{unit:04x}");
    }
}

fn is_hidden_in_lines(c: char) -> bool {
    !matches!(c, '\n' | '\t') && is_hidden(c)
}

/// Control characters (C0, DEL, C1), line and paragraph separators, marks of the reading direction,
/// and characters without any shape. The joiners U+200C and U+200D stay: scripts and emoji need them.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_direction_overrides_are_shown_by_code() {
        assert_eq!(printable("m\u{1b}[2J\u{9b}31m\r"), "m⟨U+001B⟩[2J⟨U+009B⟩31m⟨U+000D⟩");
        assert_eq!(printable("a\u{202e}b\u{2066}c\u{61c}\u{200b}\u{feff}\u{e0041}"), {
            "a⟨U+202E⟩b⟨U+2066⟩c⟨U+061C⟩⟨U+200B⟩⟨U+FEFF⟩⟨U+E0041⟩"
        });
        assert_eq!(printable("two\nlines\tand a tab"), "two\nlines\tand a tab");
        assert_eq!(printable_line("two\nlines\u{2028}"), "two⟨U+000A⟩lines⟨U+2028⟩");
    }

    #[test]
    fn text_that_steers_the_terminal_is_escaped_and_json_stays_json() {
        assert_eq!(printable_json("m\u{1b}[2J\r\u{202e}x\u{9b}"), "m\\u001b[2J\\u000d\\u202ex\\u009b");
        assert_eq!(printable_json("a\n\tä — 視"), "a\n\tä — 視");
        let json = serde_json::json!({"text": "\u{202e}\u{7f}a\u{1b}\u{200b}\u{e0041}"});
        let shown = printable_json(&format!("{json:#}")).into_owned();
        assert!(shown.contains("\\udb40\\udc41"), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), json);
    }

    #[test]
    fn ordinary_text_is_borrowed() {
        for text in ["héé 日本", "👩‍👧", "عربي", "क्‍ष"] {
            assert!(matches!(printable_line(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }
}
