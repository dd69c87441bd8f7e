//! Untrusted text for people.

/// Text in which nothing is invisible: characters that turn the reading direction or control a
/// terminal are shown by their code.
pub fn visible(text: &str) -> String {
    let hidden = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    if !text.chars().any(hidden) {
        return text.to_owned();
    }
    text.chars().fold(String::new(), |mut out, c| {
        if hidden(c) {
            out.push_str(&format!("⟨U+{:04X}⟩", c as u32));
        } else {
            out.push(c);
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stays_invisible() {
        assert_eq!(visible("a\u{202e}b\u{0}\n"), "a⟨U+202E⟩b⟨U+0000⟩\n");
        assert_eq!(visible("héé 日本"), "héé 日本");
    }
}
