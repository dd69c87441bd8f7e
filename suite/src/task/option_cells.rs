//! Options of a choice question as files have them: a list, an object by letter, or one text of lines.

use serde_json::{Map, Value};

use super::{RowContext, letters};
use crate::data::DataError;
use crate::sample::Question;
use crate::text::half_width;

/// The options of one column and whether they have been taken off their letters.
pub(super) fn of_column(cx: &RowContext<'_>, column: &str) -> Result<(Vec<String>, bool), DataError> {
    match cx.published.column::<Value>(column)? {
        Value::Object(options) => Ok((of_object(cx, column, &options)?, true)),
        Value::String(lines) => Ok((of_lines(&lines), true)),
        _ => Ok((cx.published.column::<Vec<String>>(column)?, false)),
    }
}

/// `{"A": "red", "B": "blue"}`: the letters from A on, in whichever order; null where the row has fewer.
fn of_object(
    cx: &RowContext<'_>,
    column: &str,
    options: &Map<String, Value>,
) -> Result<Vec<String>, DataError> {
    let given: Vec<_> = options.iter().filter(|(_, option)| !option.is_null()).collect();
    let expected = letters(given.len());
    expected
        .chars()
        .map(|letter| {
            let option = options.get(letter.encode_utf8(&mut [0; 4])).and_then(Value::as_str);
            let message = || format!("expected an object of texts by letter, {expected}");
            option.map(str::to_owned).ok_or_else(|| cx.error(column, message()))
        })
        .collect()
}

/// `A. red`, `B. blue`, …, one a line. A line that does not begin with the next letter goes on with the option before.
fn of_lines(text: &str) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    let mut expected = ('A'..='Z').peekable();
    for line in text.lines() {
        let label = label(line).filter(|(letter, _)| expected.peek() == Some(letter));
        match (label, options.last_mut()) {
            (Some((_, bare)), _) => {
                options.push(bare.trim().to_owned());
                expected.next();
            }
            (None, Some(option)) => {
                option.push('\n');
                option.push_str(line);
            }
            // Before the first letter.
            (None, None) => {}
        }
    }
    options.iter().map(|option| option.trim().to_owned()).collect()
}

/// The letter that a text is labelled with, in its case, and the text after the label: `A. red`, `(A) red`, `A: red`,
/// `[A] red`, and in the signs of Chinese and Japanese `A、红`, `（Ａ）红`, `【A】红`.
pub(super) fn label(text: &str) -> Option<(char, &str)> {
    let bare =
        text.trim_start().trim_start_matches(|c| matches!(half_width(c), '(' | '[' | '【' | '〔' | '「'));
    let mut rest = bare.chars();
    let letter = rest.next().map(half_width).filter(char::is_ascii_alphabetic)?;
    let closes = |c| matches!(half_width(c), '.' | ')' | ':' | ']' | '、' | '。' | '】' | '〕' | '」');
    Some((letter, rest.as_str().strip_prefix(closes)?))
}

/// An option without its letter, capital or small, and the blanks around it.
pub(super) fn without_letter(option: &str, letter: char) -> Option<&str> {
    label(option).filter(|(found, _)| found.eq_ignore_ascii_case(&letter)).map(|(_, bare)| bare.trim())
}

/// The letter that an answer stands for: `（B）`, `Ｂ`, `b`, `B. blue` where that is the option of B.
pub(super) fn letter_of(answer: &str, question: &Question) -> Option<String> {
    let text = answer.trim();
    let alone = || Some((half_width(text.chars().next().filter(|c| text.chars().eq([*c]))?), ""));
    let (letter, rest) = label(text).or_else(alone)?;
    let index = question.letters.find(letter.to_ascii_uppercase())?;
    let is_label =
        rest.trim().is_empty() || question.options.get(index).is_some_and(|own| own.trim() == rest.trim());
    is_label.then(|| letter.to_ascii_uppercase().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_in_the_signs_of_several_languages() {
        for text in [
            "A. red", "(A) red", "A) red", "A: red", "[A] red", "A、red", "（A）red", "A）red", "Ａ．red",
            "（Ａ） red", "A：red", "【A】red", "「A」red", "〔A〕red", "［A］red", "A。red", " a) red ",
        ] {
            assert_eq!(without_letter(text, 'A'), Some("red"), "{text}");
            assert_eq!(without_letter(text, 'B'), None, "{text}");
        }
        for text in ["A red", "A", "Apple. red", "1. red", "", "（", "Á. red"] {
            assert_eq!(without_letter(text, 'A'), None, "{text}");
        }
        let options = ["red".to_owned(), "blue".to_owned()].to_vec();
        let question = Question { options, letters: "AB".to_owned(), ..Question::default() };
        for answer in ["（B）", "B、", "Ｂ", "b", "(b)", "B.", " 【Ｂ】 ", "B. blue", "（B）blue"] {
            assert_eq!(letter_of(answer, &question).as_deref(), Some("B"), "{answer}");
        }
        for answer in ["C", "B. red", "Blue", "", "AB", "A, B", "(C)", "the B"] {
            assert_eq!(letter_of(answer, &question), None, "{answer}");
        }
    }

    #[test]
    fn lines_are_options_from_their_letters_on() {
        assert_eq!(of_lines("A. red\nB. a\n  lamp\nC. A. x\n"), ["red", "a\n  lamp", "A. x"]);
        assert_eq!(of_lines("A. \nC. x"), ["C. x"], "the letter after A is B");
        assert_eq!(of_lines("no options"), [""; 0]);
    }
}
