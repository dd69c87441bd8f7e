//! Standard output and error of the command: a closed pipe ends neither a run nor a table with a
//! panic, and no text of a server or a file steers the terminal.
//!
//! `println!` and its relatives are shadowed for the whole crate, so that no call can forget it.

use std::borrow::Cow;
use std::fmt::{Arguments, Write as _};
use std::io::{self, ErrorKind, Write};
use std::sync::Mutex;

/// First failure of standard output that is not a reader who left.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Writes to standard output. A reader that has left (`| head -1`) wants no more: the rest is
/// dropped and the command goes on, because its exit code and its files still count.
pub fn stdout(text: Arguments<'_>) {
    let mut stream = io::stdout().lock();
    let written = write(&mut stream, text).and_then(|()| stream.flush());
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
        && let Ok(mut failed) = FAILED.lock()
    {
        failed.get_or_insert(error);
    }
}

/// Writes to standard error; where that fails nobody is left to tell.
pub fn stderr(text: Arguments<'_>) {
    let _ = write(&mut io::stderr().lock(), text);
}

/// What kept standard output from being written, e.g. a full disk.
pub fn failure() -> Option<io::Error> {
    FAILED.lock().ok()?.take()
}

fn write(stream: &mut impl Write, text: Arguments<'_>) -> io::Result<()> {
    stream.write_all(printable(&text.to_string()).as_bytes())
}

/// The text with control characters but line breaks and tabs escaped as JSON escapes them (`\u001b`),
/// so that a model's text neither moves the cursor nor reverses the line, and JSON stays the same JSON.
fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if steers(character) {
            let _ = write!(shown, "\\u{:04x}", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Controls (C0, DEL, C1) and the marks that change the direction of text.
fn steers(character: char) -> bool {
    let allowed = matches!(character, '\n' | '\t');
    let direction =
        matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (character.is_control() && !allowed) || direction
}

// Every form that a call may take, used or not.
#[allow(unused_macros)]
macro_rules! print {
    ($($text:tt)*) => { $crate::output::stdout(format_args!($($text)*)) };
}

#[allow(unused_macro_rules)]
macro_rules! println {
    () => { $crate::output::stdout(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::stdout(format_args!("{}\n", format_args!($($text)*))) };
}

#[allow(unused_macro_rules)]
macro_rules! eprintln {
    () => { $crate::output::stderr(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::stderr(format_args!("{}\n", format_args!($($text)*))) };
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn text_that_steers_the_terminal_is_escaped_and_json_stays_json() {
        assert_eq!(printable("m\u{1b}[2J\r\u{202e}x\u{9b}"), "m\\u001b[2J\\u000d\\u202ex\\u009b");
        assert_eq!(printable("a\n\tä — 視"), "a\n\tä — 視");
        let json = serde_json::json!({"text": "\u{202e}\u{7f}a\u{1b}"});
        let read: serde_json::Value = serde_json::from_str(&printable(&format!("{json:#}"))).unwrap();
        assert_eq!(read, json);
    }
}
