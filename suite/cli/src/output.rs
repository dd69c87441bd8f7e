//! Standard output and error of the command: a closed pipe ends neither a run nor a table with a
//! panic, and no text of a server or a file steers the terminal.
//!
//! `println!` and its relatives are shadowed for the whole crate, so that no call can forget it.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::Mutex;

use paravt_suite::printable::printable_json;

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
    stream.write_all(printable_json(&text.to_string()).as_bytes())
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
