//! Text as models and published files write it: clock times, embedded options, tagged blocks.

use paravt_python::decimal_digit;

/// Seconds of `ss`, `mm:ss` or `hh:mm:ss`, each part of decimal digits of any script with an optional
/// fraction. `None` for anything else.
pub fn clock_seconds(text: &str) -> Option<f64> {
    text.split(':').try_fold(0.0, |total, part| Some(total * 60.0 + decimal(part.trim())?))
}

/// A full-width letter, digit or sign as its ASCII one.
pub(crate) fn half_width(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(c as u32 - 0xfee0).unwrap_or(c),
        _ => c,
    }
}

/// A number without sign and exponent.
fn decimal(text: &str) -> Option<f64> {
    let plain = |c: char| match c {
        '.' => Some('.'),
        c => decimal_digit(c).and_then(|digit| char::from_digit(digit, 10)),
    };
    text.chars().map(plain).collect::<Option<String>>()?.parse().ok()
}

/// Letter and text of the option lines `(A) …` inside a question. A line counts when it holds the next letter:
/// `(1) …` in the stem or `(B) …` before `(A) …` is not an option.
pub fn embedded_options(question: &str) -> Vec<(char, &str)> {
    let mut found: Vec<(char, &str)> = Vec::new();
    for line in question.lines() {
        let next = char::from(b'A' + found.len() as u8);
        if let Some(text) = option_line(line, next) {
            found.push((next, text));
        }
    }
    found
}

/// The text of an option line of this letter.
fn option_line(line: &str, wanted: char) -> Option<&str> {
    let (letter, text) = line.trim_start().strip_prefix('(')?.split_once(')')?;
    (wanted <= 'Z' && letter.chars().eq([wanted])).then_some(text)
}

/// The question with other texts in its [`embedded_options`], in their order; blanks around a text stay.
pub(crate) fn with_embedded_options(question: &str, texts: &[&str]) -> String {
    let mut rest = texts.iter().zip('A'..).peekable();
    let lines = question.split_inclusive('\n').map(|line| {
        let found = rest.peek().and_then(|(new, letter)| Some((option_line(line, *letter)?, **new)));
        let Some((old, new)) = found else { return line.to_owned() };
        rest.next();
        let (before, text) = line.split_at(line.len() - old.trim_start().len());
        format!("{before}{new}{}", &text[text.trim_end().len()..])
    });
    lines.collect()
}

/// A number with one decimal; not a number is `nan`.
pub fn fixed1(value: f64) -> String {
    if value.is_nan() { "nan".to_owned() } else { format!("{value:.1}") }
}

/// Bodies of all closed `open … close` pairs, each from the first opening tag after the last pair.
pub fn between<'a>(text: &'a str, open: &'a str, close: &'a str) -> impl Iterator<Item = &'a str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find(open)? + open.len();
        let length = rest[start..].find(close)?;
        let body = &rest[start..start + length];
        rest = &rest[start + length + close.len()..];
        Some(body)
    })
}

/// Pretty JSON with a final newline.
pub(crate) fn to_pretty_json<T: serde::Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("our own types have string keys and serialise");
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_option_lines_in_sequence_count() {
        let options = embedded_options("Which of\n(1) x\n(B) y\nis it?\n(A) 1\n (B) 2\n(C)3");
        assert_eq!(options, [('A', " 1"), ('B', " 2"), ('C', "3")]);
        assert_eq!(embedded_options("Q? (A) in the line"), []);
        let many: String = (0..40).map(|n| format!("({}) x\n", char::from(b'A' + n))).collect();
        assert_eq!(embedded_options(&many).len(), 26);
    }

    #[test]
    fn clock_times_are_seconds() {
        for (text, seconds) in [
            ("7", 7.0),
            ("1:02", 62.0),
            ("01:02:03.5", 3723.5),
            (" 1 : 2 ", 62.0),
            ("٣:０5", 185.0),
            ("5.", 5.0),
        ] {
            assert_eq!(clock_seconds(text), Some(seconds), "{text}");
        }
        for text in ["", ":", "1:", "-1", "+1", "1e2", "a", "1:-2", "1.2.3", ".", "inf", "nan"] {
            assert_eq!(clock_seconds(text), None, "{text}");
        }
    }

    #[test]
    fn decimals_are_printed_by_the_exact_value() {
        for (value, text) in [
            (0.25, "0.2"),
            (0.35, "0.3"),
            (2.5, "2.5"),
            (-0.04, "-0.0"),
            (1e16, "10000000000000000.0"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(fixed1(value), text);
        }
    }

    #[test]
    fn closed_pairs_are_found_from_the_left() {
        let found: Vec<_> = between("<a>1<a>2</a>3</a><a>4", "<a>", "</a>").collect();
        assert_eq!(found, ["1<a>2"]);
    }
}
