//! Each error type has its code, with and without context.

use std::io;

use anyhow::Context as _;
use paravt_suite::format::VersionError;
use paravt_suite::protocol::render::RenderError;
use paravt_suite::protocol::{PromptMode, native};
use paravt_suite::run::RUN_VERSION;
use paravt_suite::summary::SummaryError;

use super::*;

fn of(error: impl Into<anyhow::Error>) -> Exit {
    let bare = error.into();
    let exit = code(&bare);
    assert_eq!(code(&bare.context("while doing something").context("above")), exit, "context hides no type");
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
    let row = DataError::Row { path: "p".into(), row: 0.into(), column: "c".into(), message: "m".into() };
    assert_eq!(of(row), Exit::Usage);
}

#[test]
fn run_directories() {
    let io =
        |kind: ErrorKind| JournalError::Io { path: "p".into(), action: "cannot write", source: kind.into() };
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
    assert_eq!(of(RunError::NoSamples { task: "t".into(), reason: "r".into() }), Exit::Usage);
    assert_eq!(of(RunError::SameUid { task: "t".into(), uid: "u".into() }), Exit::Usage);
    let no_text = RenderError::NoText { protocol: "p".into(), what: "w".into() };
    assert_eq!(of(RunError::Prompt(no_text)), Exit::Usage);
    assert_eq!(of(RunError::Summary(SummaryError::TooMany { expected: 1, found: 2 })), Exit::Usage);
    assert_eq!(of(RunError::Refused("no tools".into())), Exit::Preflight);
    let full =
        JournalError::Io { path: "p".into(), action: "cannot append", source: ErrorKind::StorageFull.into() };
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
        ConfigError::Concurrency,
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
        ErrorClass::ServerParsed,
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
        FetchError::Space { path: "p".into(), needed: 2, reserve: 0, available: 1 },
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
    assert_eq!(crate::failure::causes(&error), "above: no config.json");
    let typed: anyhow::Result<()> = Err(backend(ErrorClass::BadRequest).into()).or_preflight();
    assert_eq!(code(&typed.unwrap_err()), Exit::Usage, "a type says more than the step");
    let file: anyhow::Result<()> = Err(io::Error::from(ErrorKind::NotFound).into()).or_preflight();
    assert_eq!(code(&file.unwrap_err()), Exit::Preflight, "a model folder without a file");
    assert_eq!(of(io::Error::from(ErrorKind::StorageFull)), Exit::Preflight);
    assert_eq!(of(io::Error::from(ErrorKind::NotFound)), Exit::Usage);
}

#[test]
fn the_worse_exit_code_of_two_is_kept() {
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
