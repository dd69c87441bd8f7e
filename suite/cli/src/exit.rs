//! Exit codes, the same for every command, and the code of every typed error.

use std::io::ErrorKind;
use std::process::ExitCode;

use paravt_fetch::FetchError;
use paravt_reports::ReportError;
use paravt_suite::backend::{BackendError, ErrorClass};
use paravt_suite::data::DataError;
use paravt_suite::evaluate::{ConfigError, MergeError, RunError};
use paravt_suite::journal::JournalError;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Ok = 0,
    /// The command worked and found something wrong (a failed case, a missing file).
    Finding = 1,
    /// Wrong usage or bad input: the same command would fail on every machine.
    Usage = 2,
    /// A precondition does not hold: data, server, disk space, permission, a lock.
    Preflight = 3,
    /// A run ended with samples missing or failed.
    Incomplete = 4,
    /// Ctrl-C.
    Interrupted = 130,
}

impl Exit {
    /// The worse of two: what stops a command before what it found.
    pub fn worse(self, other: Exit) -> Exit {
        if self.severity() >= other.severity() { self } else { other }
    }

    fn severity(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::Finding => 1,
            Exit::Incomplete => 2,
            Exit::Usage => 3,
            Exit::Preflight => 4,
            Exit::Interrupted => 5,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// An error before work began (a server, a model): exit code 3 unless its type has one of its own.
#[derive(Debug)]
struct Precondition(anyhow::Error);

impl std::fmt::Display for Precondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", crate::failure::causes(&self.0))
    }
}

impl std::error::Error for Precondition {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

/// Marks errors of steps that must succeed before the work begins.
pub(crate) trait OrPreflight<T> {
    /// An error that has no code by its type ends with [`Exit::Preflight`].
    ///
    /// # Errors
    /// The same error, marked.
    fn or_preflight(self) -> anyhow::Result<T>;
}

impl<T> OrPreflight<T> for anyhow::Result<T> {
    fn or_preflight(self) -> anyhow::Result<T> {
        self.map_err(|error| Precondition(error).into())
    }
}

/// The code of an error: by the first cause whose type says it, else wrong usage or bad input.
pub(crate) fn code(error: &anyhow::Error) -> Exit {
    if let Some(Precondition(inner)) = error.downcast_ref() {
        return typed(inner).unwrap_or(Exit::Preflight);
    }
    let io = || error.chain().find_map(|cause| cause.downcast_ref().map(of_io));
    typed(error).or_else(io).unwrap_or(Exit::Usage)
}

fn typed(error: &anyhow::Error) -> Option<Exit> {
    error.chain().find_map(|cause| {
        let run = cause.downcast_ref().map(of_run);
        run.or_else(|| cause.downcast_ref().map(of_merge))
            .or_else(|| cause.downcast_ref().map(of_config))
            .or_else(|| cause.downcast_ref().map(of_data))
            .or_else(|| cause.downcast_ref().map(of_journal))
            .or_else(|| cause.downcast_ref().map(of_backend))
            .or_else(|| cause.downcast_ref().map(of_fetch))
            .or_else(|| cause.downcast_ref().and_then(of_report))
    })
}

fn of_run(error: &RunError) -> Exit {
    match error {
        RunError::Config(error) => of_config(error),
        RunError::Data(error) => of_data(error),
        RunError::Journal(error) => of_journal(error),
        RunError::UnknownId { .. }
        | RunError::NoSamples { .. }
        | RunError::SameUid { .. }
        | RunError::Probe { .. }
        | RunError::Medium(_)
        | RunError::NoCodeTool { .. }
        | RunError::Prompt(_)
        | RunError::Summary(_) => Exit::Usage,
        RunError::Refused(_) => Exit::Preflight,
        RunError::NotWritten(_) => Exit::Incomplete,
    }
}

fn of_merge(error: &MergeError) -> Exit {
    match error {
        MergeError::Journal(error) => of_journal(error),
        MergeError::Io { source, .. } => of_io(source),
        MergeError::NoShards
        | MergeError::NotAShard { .. }
        | MergeError::OtherCount { .. }
        | MergeError::Twice { .. }
        | MergeError::Differs { .. }
        | MergeError::VideoDiffers { .. }
        | MergeError::SampleTwice { .. }
        | MergeError::Summary(_)
        | MergeError::NotEmpty { .. }
        | MergeError::Root => Exit::Usage,
    }
}

fn of_config(error: &ConfigError) -> Exit {
    match error {
        ConfigError::Json { .. }
        | ConfigError::NoMode(_)
        | ConfigError::TooFewFrames
        | ConfigError::Concurrency
        | ConfigError::Temperature
        | ConfigError::NoChatTools { .. }
        | ConfigError::Probe { .. }
        | ConfigError::Fixed { .. }
        | ConfigError::Repeat
        | ConfigError::Request(_) => Exit::Usage,
    }
}

fn of_data(error: &DataError) -> Exit {
    match error {
        DataError::Missing { .. } => Exit::Preflight,
        DataError::Io { source, .. } => match of_io(source) {
            Exit::Usage if source.kind() == ErrorKind::NotFound => Exit::Preflight,
            exit => exit,
        },
        DataError::Format { .. }
        | DataError::Column { .. }
        | DataError::Row { .. }
        | DataError::Rows { .. }
        | DataError::OutsideData { .. } => Exit::Usage,
    }
}

fn of_journal(error: &JournalError) -> Exit {
    match error {
        JournalError::Locked { .. } => Exit::Preflight,
        JournalError::Io { source, .. } => of_io(source),
        JournalError::NotResumed { .. }
        | JournalError::Exists { .. }
        | JournalError::Orphan { .. }
        | JournalError::Moved { .. }
        | JournalError::NoRun { .. }
        | JournalError::Differs { .. }
        | JournalError::Damaged { .. }
        | JournalError::Foreign { .. }
        | JournalError::BadManifest { .. }
        | JournalError::Version { .. } => Exit::Usage,
    }
}

fn of_backend(error: &BackendError) -> Exit {
    match error.class {
        ErrorClass::TooLarge => Exit::Preflight,
        class if class.concerns_every_call() => Exit::Preflight,
        _ => Exit::Usage,
    }
}

fn of_fetch(error: &FetchError) -> Exit {
    match error {
        FetchError::Access { .. }
        | FetchError::Network { .. }
        | FetchError::Offline { .. }
        | FetchError::Protocol { .. }
        | FetchError::Hash { .. }
        | FetchError::Space { .. }
        | FetchError::Locked { .. } => Exit::Preflight,
        FetchError::NotFound { .. }
        | FetchError::NoRevision { .. }
        | FetchError::NoMatch { .. }
        | FetchError::Invalid { .. } => Exit::Usage,
        FetchError::Archive { .. } => Exit::Finding,
        FetchError::Io { source, .. } => of_io(source),
    }
}

fn of_report(error: &ReportError) -> Option<Exit> {
    match error {
        ReportError::Journal(error) => Some(of_journal(error)),
        _ => None,
    }
}

/// What the machine lacks is a precondition; a file that is not there or not what it should be was named
/// wrongly.
fn of_io(error: &std::io::Error) -> Exit {
    match error.kind() {
        ErrorKind::PermissionDenied
        | ErrorKind::ReadOnlyFilesystem
        | ErrorKind::StorageFull
        | ErrorKind::QuotaExceeded
        | ErrorKind::OutOfMemory => Exit::Preflight,
        _ => Exit::Usage,
    }
}

#[cfg(test)]
mod tests;
