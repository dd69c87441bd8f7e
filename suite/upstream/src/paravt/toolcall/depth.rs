//! A bound on the depth of parsed Python, by its tokens: the parser's trees are freed and walked by recursion.

use rustpython_parser::{StringKind, Tok};

/// An expression too deep for CPython's parser, which then raises something else than a syntax error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("maximum recursion depth exceeded during ast construction")]
pub struct TooDeep;

/// Tokens that may each nest a tree by one level; beyond this many, its depth could exceed a thread's stack.
const MAX_NESTING_TOKENS: usize = 2000;

/// Counts the tokens that may nest the tree which is being read.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    /// Of the expression that is being read.
    tokens: usize,
}

impl Nesting {
    /// Counts the next token.
    pub(super) fn add(&mut self, token: &Tok) -> Result<(), TooDeep> {
        match token {
            Tok::Newline => self.tokens = 0,
            Tok::String { value, kind: StringKind::FString | StringKind::RawFString, .. } => {
                self.tokens += in_braces(value);
            }
            Tok::Comma | Tok::Equal | Tok::String { .. } | Tok::Float { .. } => {}
            Tok::Rpar | Tok::Rsqb | Tok::Rbrace | Tok::Dedent => {}
            _ => self.tokens += 1,
        }
        if self.tokens > MAX_NESTING_TOKENS {
            return Err(TooDeep);
        }
        Ok(())
    }
}

/// Words and signs within the braces of an f-string, which are parsed with the string.
fn in_braces(text: &str) -> usize {
    let (mut depth, mut count, mut in_word) = (0_usize, 0, false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == '{' && depth == 0 && letters.next_if_eq(&'{').is_some() {
            continue;
        }
        let is_word = letter.is_alphanumeric() || letter == '_';
        if letter == '{' || depth > 0 {
            count += usize::from(is_word && !in_word || !is_word && !letter.is_whitespace());
        }
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        in_word = is_word && depth > 0;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_the_braces_of_an_f_string_is_counted() {
        for (text, count) in
            [("no {{ braces }} here", 0), ("{x}", 3), ("{not not x} and {y!r}", 10), ("{{{x}", 3)]
        {
            assert_eq!(in_braces(text), count, "{text}");
        }
    }
}
