//! Diagnostics: events of this suite's crates on standard error (`-v`, `-vv`) and in the `run.log` of a run
//! directory.
//!
//! Warnings always reach standard error. A log holds events from "info" on, or "debug" with `-vv`. It names no
//! secret, and no folder of this machine as long as events do not; it is bounded, whatever a server sends.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use paravt_suite::printable::printable_line;
use paravt_suite::redact;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{DefaultFields, FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormattedFields, layer};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// Name of a log in its directory.
const FILE: &str = "run.log";
/// Bytes after which a log is set aside as `run.log.old`, in the place of the one before.
const LARGEST: u64 = 8 << 20;
/// Bytes of a line that are kept.
const LINE: usize = 4096;
/// Crates whose events are shown: those of the suite.
const OURS: &str = "paravt";

/// Logs of the directories that are worked in, the outermost first.
static LOGS: Mutex<Vec<Log>> = Mutex::new(Vec::new());

/// The latest line on standard error.
static LATEST: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Whether more than warnings go to standard error.
static VERBOSE: AtomicBool = AtomicBool::new(false);

/// Shows events from a level on: 0 warnings, 1 (`-v`) what is done, 2 (`-vv`) details. To be called once.
pub(crate) fn start(verbosity: u8) {
    VERBOSE.store(verbosity > 0, Ordering::Relaxed);
    let level = match verbosity {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    let from = |level| Targets::new().with_target(OURS, level);
    let terminal = layer().with_ansi(false).event_format(Lines { dated: false }).with_writer(|| Terminal);
    let files = layer().with_ansi(false).event_format(Lines { dated: true }).with_writer(|| Logs);
    let subscriber = tracing_subscriber::registry()
        .with(terminal.with_filter(from(level)))
        .with(files.with_filter(from(level.max(LevelFilter::INFO))));
    // Only a test starts it twice.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// Whether lines beyond warnings appear on standard error, between which a progress bar cannot stand.
pub(crate) fn is_verbose() -> bool {
    VERBOSE.load(Ordering::Relaxed)
}

/// Writes events to `run.log` of a directory until it is dropped.
#[must_use = "the log ends when this is dropped"]
pub(crate) struct Logging(());

/// Writes events to `run.log` of a directory from now on. The file appears with its first event, once the
/// directory is there.
pub(crate) fn to(dir: &Path) -> Logging {
    logs().push(Log { path: dir.join(FILE), state: State::Closed });
    Logging(())
}

impl Drop for Logging {
    fn drop(&mut self) {
        logs().pop();
    }
}

fn logs() -> MutexGuard<'static, Vec<Log>> {
    LOGS.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Log {
    path: PathBuf,
    state: State,
}

enum State {
    Closed,
    Open {
        file: File,
        bytes: u64,
    },
    /// Writing failed; the run continues without a log.
    Failed,
}

impl Log {
    fn append(&mut self, line: &str) {
        let parent = self.path.parent();
        if matches!(self.state, State::Closed) && parent.is_some_and(Path::is_dir) {
            self.state = open(&self.path).unwrap_or(State::Failed);
        }
        if let State::Open { file, bytes } = &mut self.state {
            let written = file.write_all(line.as_bytes());
            *bytes += line.len() as u64;
            if written.is_err() {
                self.state = State::Failed;
            } else if *bytes >= LARGEST {
                let aside = self.path.with_extension("log.old");
                let moved = paravt_files::rename(&self.path, &aside).and_then(|()| open(&self.path));
                self.state = moved.unwrap_or(State::Failed);
            }
        }
    }
}

/// Opens a log for what follows, where nothing or a regular file has its name.
fn open(path: &Path) -> io::Result<State> {
    if path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let file = File::options().create(true).append(true).open(path)?;
    let bytes = file.metadata()?.len();
    Ok(State::Open { file, bytes })
}

/// Standard error, one event a call.
struct Terminal;

impl Write for Terminal {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // Each try of a request says the same; the log has them all.
        let mut latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
        if *latest != line {
            crate::output::log(format_args!("{}", to_line(line)));
            *latest = line.to_vec();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// All open logs, one event a call.
struct Logs;

impl Write for Logs {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut logs = logs();
        if !logs.is_empty() {
            let shown = to_line(line);
            logs.iter_mut().for_each(|log| log.append(&shown));
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An event as one bounded line without secrets and control characters.
fn to_line(line: &[u8]) -> String {
    let line = line.trim_ascii_end();
    // Cut twice: a URL that the first cut goes through, and that is not seen to be one, lies beyond the second.
    let kept = String::from_utf8_lossy(&line[..line.len().min(16 * LINE)]);
    let text = printable_line(&redact::urls(&kept)).into_owned();
    if text.len() <= LINE && kept.len() == line.len() {
        return text + "\n";
    }
    format!("{} [cut from {} bytes]\n", &text[..text.floor_char_boundary(LINE)], line.len())
}

/// `warning: MESSAGE FIELDS` with the time and the spans around it.
struct Lines {
    dated: bool,
}

impl<S> FormatEvent<S, DefaultFields> for Lines
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, DefaultFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if self.dated {
            SystemTime.format_time(&mut writer)?;
            writer.write_char(' ')?;
        }
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        write!(writer, "{level}: ")?;
        for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            write!(writer, "{}", span.name())?;
            if let Some(fields) = span.extensions().get::<FormattedFields<DefaultFields>>() {
                write!(writer, "{{{fields}}}")?;
            }
            writer.write_str(": ")?;
        }
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_hold_neither_keys_nor_control_characters() {
        let line = to_line(b"asked http://me:key@host/v1?token=key\n\x1b[2J\n");
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.starts_with("asked http://…@host/v1?…"), "{line}");
        assert!(!line.contains("key") && !line.contains('\x1b'), "{line}");
        let long = to_line(&vec![b'x'; 10_000]);
        assert_eq!(long[LINE..], *" [cut from 10000 bytes]\n");
        let hidden = to_line(format!("http://{}:key@host", "x".repeat(LINE - 20)).as_bytes());
        assert_eq!(hidden, "http://…@host\n");
    }

    #[test]
    fn a_log_appears_with_its_directory_and_is_set_aside_when_it_is_large() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("run");
        let mut log = Log { path: folder.join(FILE), state: State::Closed };
        log.append("before the directory\n");
        std::fs::create_dir(&folder).unwrap();
        let line = format!("{}\n", "x".repeat(LINE));
        for _ in 0..=3 * LARGEST / LINE as u64 {
            log.append(&line);
        }
        let size = |name: &str| std::fs::metadata(folder.join(name)).unwrap().len();
        assert!((LARGEST..LARGEST + 2 * LINE as u64).contains(&size("run.log.old")));
        assert!(size(FILE) < LARGEST);
    }

    #[test]
    fn a_fifo_in_the_place_of_a_log_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let mut log = Log { path, state: State::Closed };
        log.append("line\n");
        assert!(matches!(log.state, State::Failed));
    }
}
