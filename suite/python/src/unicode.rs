//! Classes of Unicode characters, and the values of digits of any script.

use std::sync::LazyLock;

use regex_syntax::hir::{Class, HirKind};

/// A Unicode class of characters, e.g. `\p{Nd}`.
pub struct CharClass(Vec<(char, char)>);

impl CharClass {
    /// The class that a literal pattern stands for.
    ///
    /// # Panics
    /// The pattern is not one class of characters: for literals only, which a test reaches.
    pub fn literal(pattern: &str) -> Self {
        let hir = regex_syntax::parse(pattern).expect("literal pattern");
        match hir.into_kind() {
            HirKind::Class(Class::Unicode(class)) => {
                Self(class.iter().map(|range| (range.start(), range.end())).collect())
            }
            other => unreachable!("`{pattern}` is a literal class, parsed as {other:?}"),
        }
    }

    /// The first character of the run of consecutive members that holds `c`; `None` for a character that is
    /// not in the class.
    pub fn run_of(&self, c: char) -> Option<char> {
        let after = self.0.partition_point(|(start, _)| *start <= c);
        self.0[..after].last().filter(|(_, end)| c <= *end).map(|(start, _)| *start)
    }
}

/// Value of a Unicode decimal digit (category Nd).
pub fn decimal_digit(c: char) -> Option<u32> {
    static DIGITS: LazyLock<CharClass> = LazyLock::new(|| CharClass::literal(r"\p{Nd}"));
    if c.is_ascii() {
        return c.to_digit(10);
    }
    // Every run of category Nd starts at a zero and holds whole tens.
    DIGITS.run_of(c).map(|zero| (c as u32 - zero as u32) % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_any_script_have_values() {
        assert_eq!(decimal_digit('７'), Some(7));
        assert_eq!(decimal_digit('٣'), Some(3));
        assert_eq!(decimal_digit('\u{1d7d8}'), Some(0), "the second run of mathematical digits");
        assert_eq!(decimal_digit('²'), None);
    }
}
