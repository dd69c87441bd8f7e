//! Standard output and error of the command: a closed pipe ends neither a run nor a table with a
//! panic, and no text of a server or a file steers the terminal.
//!
//! `println!` and its relatives are shadowed for the whole crate, so that no call can forget it.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, IsTerminal as _, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anstream::{AutoStream, ColorChoice};
use paravt_reports::terminal::{COLUMNS, Detail, Text, fold};
use paravt_suite::printable::printable_json;

/// First failure of standard output that is not a reader who left.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Time of the latest line on standard error.
static LATEST: Mutex<Option<Instant>> = Mutex::new(None);

/// Most and fewest columns of a line on standard error.
const WIDEST: usize = 100;
const NARROWEST: usize = 40;

/// Whether progress is left out.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Takes `--color` and `--quiet`. To be called before anything is printed.
pub(crate) fn configure(color: clap::ColorChoice, quiet: bool) {
    match color {
        clap::ColorChoice::Auto => ColorChoice::Auto,
        clap::ColorChoice::Always => ColorChoice::Always,
        clap::ColorChoice::Never => ColorChoice::Never,
    }
    .write_global();
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Whether progress is left out: `--quiet`.
pub(crate) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Writes to standard output. A reader that has left (`| head -1`) wants no more: the rest is
/// dropped and the command goes on, because its exit code and its files still count.
pub(crate) fn stdout(text: Arguments<'_>) {
    stdout_as_is(&printable_json(&text.to_string()));
}

fn stdout_as_is(text: &str) {
    let mut stream = io::stdout().lock();
    let written = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
        && let Ok(mut failed) = FAILED.lock()
    {
        failed.get_or_insert(error);
    }
}

/// Writes a text for a terminal to standard output: in colours where `--color` says so, by default on a terminal
/// that shows them, unless `NO_COLOR` or `TERM=dumb` is set. A [`Text`] holds no control character of others.
pub(crate) fn show(text: &Text) {
    let coloured = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
    stdout_as_is(&if coloured { text.coloured() } else { text.to_string() });
}

/// The same on standard error, as wide as the terminal.
pub(crate) fn show_error(text: &Text) {
    let coloured = AutoStream::choice(&io::stderr()) != ColorChoice::Never;
    let shown = text.render(error_columns().unwrap_or(COLUMNS), coloured);
    let _ = io::stderr().lock().write_all(shown.as_bytes());
}

/// Columns of a line on standard error where that is a terminal: longer ones than [`WIDEST`] are hard to read.
fn error_columns() -> Option<usize> {
    let stderr = io::stderr();
    let size = stderr.is_terminal().then(|| terminal_size::terminal_size_of(&stderr))?;
    // A terminal that does not say its width, as on a serial line, says 0.
    let columns = size.map_or(0, |(width, _)| usize::from(width.0));
    Some(if columns == 0 { COLUMNS } else { columns.clamp(NARROWEST, WIDEST) })
}

/// How a command prints its result.
#[derive(clap::Args)]
pub(crate) struct Printed {
    /// Print all details instead of one line per run, split or check.
    // The flag of all commands; counted, because that one is.
    #[arg(short, long, action = clap::ArgAction::Count, conflicts_with = "json")]
    verbose: u8,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

impl Printed {
    /// Prints a result as the flags ask.
    pub(crate) fn print(&self, text: impl FnOnce(Detail) -> Text, json: impl FnOnce() -> String) {
        match self {
            Self { json: true, .. } => stdout(format_args!("{}", json())),
            Self { verbose: 1.., .. } => show(&text(Detail::Full)),
            _ => show(&text(Detail::Brief)),
        }
    }
}

/// Writes to standard error what a command says, which breaks the silence that meters wait for.
pub(crate) fn stderr(text: Arguments<'_>) {
    if let Ok(mut latest) = LATEST.lock() {
        *latest = Some(Instant::now());
    }
    log(text);
}

/// Writes to standard error, folded where that is a terminal: a log keeps its lines whole, for `grep`. A failure has no
/// place to be reported.
pub(crate) fn log(text: Arguments<'_>) {
    let text = text.to_string();
    let text = printable_json(&text);
    let folded = error_columns().map(|columns| {
        let lines: Vec<String> = text.split('\n').map(|line| fold(line, columns)).collect();
        lines.join("\n")
    });
    let _ = io::stderr().lock().write_all(folded.as_deref().unwrap_or(&text).as_bytes());
}

/// Time since a command said something on standard error, lines of the log apart; `None` before the first.
pub(crate) fn silence() -> Option<Duration> {
    (*LATEST.lock().ok()?).map(|latest| latest.elapsed())
}

/// The first error of standard output, e.g. a full disk.
pub(crate) fn failure() -> Option<io::Error> {
    FAILED.lock().ok()?.take()
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
