//! Options of a choice question as files have them: a list, an object by letter, or one text of lines.

use serde_json::{Map, Value};

use super::{RowContext, letters};
use crate::data::DataError;

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
        match (expected.peek().and_then(|letter| without_letter(line, *letter)), options.last_mut()) {
            (Some(bare), _) => {
                options.push(bare.to_owned());
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

/// `A. red`, `(A) red` or `A: red` without the letter and the blanks after it.
pub(super) fn without_letter(option: &str, letter: char) -> Option<&str> {
    let bare = option.trim_start().trim_start_matches('(').strip_prefix(letter)?;
    Some(bare.strip_prefix(['.', ')', ':'])?.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_options_from_their_letters_on() {
        assert_eq!(of_lines("A. red\nB. a\n  lamp\nC. A. x\n"), ["red", "a\n  lamp", "A. x"]);
        assert_eq!(of_lines("A. \nC. x"), ["C. x"], "the letter after A is B");
        assert_eq!(of_lines("no options"), [""; 0]);
    }
}
