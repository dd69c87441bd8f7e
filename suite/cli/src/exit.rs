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
    /// Success.
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

/// An error of a step that prepares something (a server, a model): whatever its type, the work could not
/// begin.
#[derive(Debug)]
struct Precondition(anyhow::Error);

impl std::fmt::Display for Precondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for Precondition {}

/// Marks errors of steps that must succeed before the work begins.
pub trait OrPreflight<T> {
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
pub fn code(error: &anyhow::Error) -> Exit {
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
        | MergeError::UnknownSize
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
        | ConfigError::Temperature
        | ConfigError::NoChatTools { .. }
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
        JournalError::Exists { .. }
        | JournalError::NoRun { .. }
        | JournalError::Differs { .. }
        | JournalError::Damaged { .. }
        | JournalError::Foreign { .. }
        | JournalError::BadManifest { .. }
        | JournalError::Version { .. }
        | JournalError::OlderRun { .. } => Exit::Usage,
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
mod tests {
    use std::io;

    use anyhow::Context as _;
    use paravt_suite::format::VersionError;
    use paravt_suite::protocol::render::RenderError;
    use paravt_suite::protocol::{PromptMode, native};
    use paravt_suite::run::RUN_VERSION;
    use paravt_suite::scoring::summary::SummaryError;

    use super::*;

    fn of(error: impl Into<anyhow::Error>) -> Exit {
        let bare = error.into();
        let exit = code(&bare);
        assert_eq!(
            code(&bare.context("while doing something").context("above")),
            exit,
            "context hides no type"
        );
        exit
    }

    fn backend(class: ErrorClass) -> BackendError {
        BackendError::new(class, "m", 1)
    }

    #[test]
    fn data() {
        let missing =
            DataError::Missing { task: "t".into(), what: "w".into(), looked: vec![], remedy: "r".into() };
        assert_eq!(of(missing), Exit::Preflight);
        let io = |kind: ErrorKind| DataError::Io { path: "p".into(), source: kind.into() };
        assert_eq!(of(io(ErrorKind::NotFound)), Exit::Preflight);
        assert_eq!(of(io(ErrorKind::PermissionDenied)), Exit::Preflight);
        assert_eq!(of(io(ErrorKind::InvalidData)), Exit::Usage);
        assert_eq!(of(DataError::Format { path: "p".into(), message: "m".into() }), Exit::Usage);
        let column = DataError::Column { path: "p".into(), column: "c".into(), message: "m".into() };
        assert_eq!(of(column), Exit::Usage);
        let row = DataError::Row { path: "p".into(), row: 0, column: "c".into(), message: "m".into() };
        assert_eq!(of(row), Exit::Usage);
    }

    #[test]
    fn run_directories() {
        let io = |kind: ErrorKind| JournalError::Io {
            path: "p".into(),
            action: "cannot write",
            source: kind.into(),
        };
        assert_eq!(of(JournalError::Locked { dir: "d".into() }), Exit::Preflight);
        assert_eq!(of(io(ErrorKind::StorageFull)), Exit::Preflight);
        assert_eq!(of(io(ErrorKind::QuotaExceeded)), Exit::Preflight);
        assert_eq!(of(io(ErrorKind::PermissionDenied)), Exit::Preflight);
        assert_eq!(of(io(ErrorKind::ReadOnlyFilesystem)), Exit::Preflight);
        assert_eq!(of(io(ErrorKind::NotADirectory)), Exit::Usage);
        assert_eq!(of(JournalError::Exists { dir: "d".into() }), Exit::Usage);
        assert_eq!(of(JournalError::NoRun { dir: "d".into(), missing: "manifest.json" }), Exit::Usage);
        assert_eq!(of(JournalError::Differs { dir: "d".into(), differences: "x".into() }), Exit::Usage);
        assert_eq!(of(JournalError::Damaged { path: "p".into(), line: 1, message: "m".into() }), Exit::Usage);
        let foreign = JournalError::Foreign { path: "p".into(), uid: "u".into(), message: "m".into() };
        assert_eq!(of(foreign), Exit::Usage);
        assert_eq!(of(JournalError::BadManifest { path: "p".into(), message: "m".into() }), Exit::Usage);
        let newer = VersionError::TooNew { found: 99, supported: RUN_VERSION };
        assert_eq!(of(JournalError::Version { path: "p".into(), source: newer }), Exit::Usage);
        assert_eq!(of(JournalError::OlderRun { dir: "d".into(), found: 1 }), Exit::Usage);
        assert_eq!(of(ReportError::Journal(JournalError::Locked { dir: "d".into() })), Exit::Preflight);
    }

    #[test]
    fn runs() {
        let missing =
            || DataError::Missing { task: "t".into(), what: "w".into(), looked: vec![], remedy: "r".into() };
        let locked = || JournalError::Locked { dir: "d".into() };
        assert_eq!(of(RunError::Data(missing())), Exit::Preflight);
        assert_eq!(of(RunError::Journal(locked())), Exit::Preflight);
        assert_eq!(of(RunError::Journal(JournalError::Exists { dir: "d".into() })), Exit::Usage);
        assert_eq!(of(RunError::Config(ConfigError::TooFewFrames)), Exit::Usage);
        assert_eq!(of(RunError::UnknownId { task: "t".into(), id: "i".into() }), Exit::Usage);
        assert_eq!(of(RunError::NoSamples { task: "t".into() }), Exit::Usage);
        assert_eq!(of(RunError::SameUid { task: "t".into(), uid: "u".into() }), Exit::Usage);
        let no_text = RenderError::NoText { protocol: "p".into(), what: "w".into() };
        assert_eq!(of(RunError::Prompt(no_text)), Exit::Usage);
        assert_eq!(of(RunError::Summary(SummaryError::TooMany { expected: 1, found: 2 })), Exit::Usage);
        assert_eq!(of(RunError::Refused("no tools".into())), Exit::Preflight);
        let full = JournalError::Io {
            path: "p".into(),
            action: "cannot append",
            source: ErrorKind::StorageFull.into(),
        };
        assert_eq!(of(RunError::NotWritten(full)), Exit::Incomplete, "what was written counts");
    }

    #[test]
    fn merges() {
        let dir = || "d".into();
        assert_eq!(of(MergeError::Journal(JournalError::Locked { dir: dir() })), Exit::Preflight);
        let io = |kind: ErrorKind| MergeError::Io { action: "write", path: "p".into(), source: kind.into() };
        assert_eq!(of(io(ErrorKind::StorageFull)), Exit::Preflight);
        assert_eq!(of(io(ErrorKind::PermissionDenied)), Exit::Preflight);
        assert_eq!(of(io(ErrorKind::NotFound)), Exit::Usage);
        for error in [
            MergeError::NoShards,
            MergeError::NotAShard { dir: dir() },
            MergeError::OtherCount { dir: dir(), number: 1, of: 3, shards: 2 },
            MergeError::Twice { dir: dir(), number: 1, shards: 2 },
            MergeError::Differs { first: dir(), dir: dir(), differences: "x".into() },
            MergeError::VideoDiffers { dir: dir(), video: "v".into(), ours: 1, theirs: 2 },
            MergeError::UnknownSize,
            MergeError::SampleTwice { uid: "u".into() },
            MergeError::Summary(SummaryError::TooMany { expected: 1, found: 2 }),
            MergeError::NotEmpty { out: dir() },
            MergeError::Root,
        ] {
            assert_eq!(of(error), Exit::Usage);
        }
    }

    #[test]
    fn configurations() {
        for error in [
            ConfigError::Json { message: "m".into(), nearest: None },
            ConfigError::NoMode(native::protocol().system_text(&PromptMode::named("x")).unwrap_err()),
            ConfigError::TooFewFrames,
            ConfigError::Temperature,
            ConfigError::NoChatTools { protocol: "p".into() },
            ConfigError::Request("top_p".into()),
        ] {
            assert_eq!(of(error), Exit::Usage);
        }
    }

    #[test]
    fn backends() {
        for class in [
            ErrorClass::Connection,
            ErrorClass::Timeout,
            ErrorClass::RateLimited,
            ErrorClass::Server,
            ErrorClass::Unauthorized,
            ErrorClass::Malformed,
            ErrorClass::EmptyReply,
            ErrorClass::ParsedAway,
            ErrorClass::TooLarge,
            ErrorClass::Engine,
        ] {
            assert_eq!(of(backend(class)), Exit::Preflight, "{class:?}");
        }
        for class in [ErrorClass::BadRequest, ErrorClass::ContextLength, ErrorClass::NotRecorded] {
            assert_eq!(of(backend(class)), Exit::Usage, "{class:?}");
        }
    }

    #[test]
    fn fetching() {
        let text = || "x".to_owned();
        let io = |kind: ErrorKind| FetchError::Io { path: "p".into(), source: kind.into() };
        for error in [
            FetchError::Access { repo: text(), message: text() },
            FetchError::Network { what: text(), message: text(), tries: 8 },
            FetchError::Protocol { what: text(), message: text() },
            FetchError::Hash { file: text(), algorithm: "SHA-256", found: text(), expected: text() },
            FetchError::Space { path: "p".into(), needed: 2, available: 1 },
            FetchError::Locked { path: "p".into() },
            io(ErrorKind::StorageFull),
            io(ErrorKind::PermissionDenied),
        ] {
            assert_eq!(of(error), Exit::Preflight);
        }
        for error in [
            FetchError::NotFound { repo: text(), message: text() },
            FetchError::NoRevision { revision: text(), page: text() },
            FetchError::NoMatch { repo: text(), pattern: text(), revision: text() },
            FetchError::Invalid { what: text(), message: text() },
        ] {
            assert_eq!(of(error), Exit::Usage);
        }
        assert_eq!(of(FetchError::Archive { archive: text(), message: text() }), Exit::Finding);
    }

    #[test]
    fn errors_without_a_type() {
        assert_eq!(code(&anyhow::anyhow!("--nframes: at least 2")), Exit::Usage);
        let prepared: anyhow::Result<()> = Err(anyhow::anyhow!("no config.json")).or_preflight();
        let error = prepared.context("above").unwrap_err();
        assert_eq!(code(&error), Exit::Preflight);
        assert_eq!(format!("{error:#}"), "above: no config.json");
        let typed: anyhow::Result<()> = Err(backend(ErrorClass::BadRequest).into()).or_preflight();
        assert_eq!(code(&typed.unwrap_err()), Exit::Usage, "a type says more than the step");
        let file: anyhow::Result<()> = Err(io::Error::from(ErrorKind::NotFound).into()).or_preflight();
        assert_eq!(code(&file.unwrap_err()), Exit::Preflight, "a model folder without a file");
        assert_eq!(of(io::Error::from(ErrorKind::StorageFull)), Exit::Preflight);
        assert_eq!(of(io::Error::from(ErrorKind::NotFound)), Exit::Usage);
    }

    #[test]
    fn the_worse_of_two_is_what_stopped_the_command() {
        use Exit::{Finding, Incomplete, Interrupted, Ok, Preflight, Usage};
        for (a, b, worse) in [
            (Ok, Finding, Finding),
            (Finding, Incomplete, Incomplete),
            (Incomplete, Preflight, Preflight),
            (Incomplete, Usage, Usage),
            (Preflight, Interrupted, Interrupted),
        ] {
            assert_eq!((a.worse(b), b.worse(a)), (worse, worse));
        }
    }
}
