//! A checkout of the release at one commit, and the Python environments of its lock files, from which its programs run.
//!
//! Everything is below one folder: `checkout`, copies of parts of it in `engines`, and `env/NAME`. A checkout and an
//! environment are made under a temporary name and renamed once they are verified: what has the final name is complete.
//!
//! ```
//! use paravt_reproduce::environments::Release;
//!
//! let release = Release::built_in()?;
//! assert_eq!(release.environment("eval")?.lock, "requirements/eval.lock");
//! # Ok::<(), paravt_reproduce::environments::Error>(())
//! ```

mod checkout;
mod environment;
mod files;
mod pins;
mod probe;
mod program;
mod release;

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use paravt_files::Lock;

pub use environment::{Built, Record};
pub use release::{Environment, Release, Setup};

/// Where everything is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    out: PathBuf,
}

impl Layout {
    /// Below a folder.
    pub fn new(out: &Path) -> Self {
        Self { out: out.to_owned() }
    }

    /// The release.
    pub fn checkout(&self) -> PathBuf {
        self.out.join("checkout")
    }

    /// Copies of parts of the release.
    pub fn engines(&self) -> PathBuf {
        self.out.join("engines")
    }

    /// Folder of the environments and of the logs of their installation.
    pub fn environments(&self) -> PathBuf {
        self.out.join("env")
    }

    /// An environment.
    pub fn environment(&self, name: &str) -> PathBuf {
        self.environments().join(name)
    }

    /// A text with the folders in the place of `{checkout}` and `{engines}`.
    fn filled(&self, text: &str) -> String {
        let shown = |path: PathBuf| path.display().to_string();
        text.replace("{checkout}", &shown(self.checkout())).replace("{engines}", &shown(self.engines()))
    }
}

/// Why the checkout or an environment cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data of a release are wrong.
    #[error("{file}: {message}")]
    Release { file: String, message: String },
    /// A file that cannot be read or written.
    #[error("cannot {action} {path}", path = .path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },
    /// A program that is not installed.
    #[error("`{program}` not found on PATH; {remedy}")]
    NoProgram { program: String, remedy: &'static str },
    #[error("{what} failed with {status}{hint}; last lines of {}:\n{tail}", .log.display())]
    Failed { what: String, status: ExitStatus, hint: &'static str, log: PathBuf, tail: String },
    /// A program that took too long.
    #[error("{what} did not end within {seconds} s; last lines of {}:\n{tail}", .log.display())]
    TimedOut { what: String, seconds: u64, log: PathBuf, tail: String },
    /// A process that cannot be started.
    #[error(transparent)]
    Supervise(#[from] paravt_supervise::Error),
    /// A checkout that is not the pinned release.
    #[error("{folder}: {finding}; {remedy}", folder = .folder.display())]
    Checkout { folder: PathBuf, finding: String, remedy: String },
    /// A lock file that is not the pinned one.
    #[error("{file}: SHA-256 is {found}, the release has {expected}; make the checkout again")]
    OtherLock { file: String, found: String, expected: String },
    /// A line of a lock file that is not `name==version`.
    #[error("{file}, line {line}: {message}")]
    Lock { file: String, line: usize, message: String },
    /// An environment that differs from what the release pins.
    #[error(
        "environment {name} was installed and is not the release's:\n{}",
        .findings.iter().map(|finding| format!("  {finding}")).collect::<Vec<_>>().join("\n")
    )]
    Environment { name: String, findings: Vec<String> },
    /// The answer of the probe cannot be read.
    #[error("environment {name}: the probe's answer cannot be read: {message}")]
    Probe { name: String, message: String },
    /// Another process works on the same folder.
    #[error("{folder}: another process is making it; wait for it or end it", folder = .folder.display())]
    Busy { folder: PathBuf },
}

/// An error about a file.
fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> Error + use<'a> {
    move |source| Error::Io { action, path: path.to_owned(), source }
}

/// Locks the making of a folder. A process that was killed, or that another thread is starting, may hold the lock for a
/// moment.
fn lock(folder: &Path) -> Result<Lock, Error> {
    let path = folder.with_added_extension("lock");
    let taken = Lock::take(&path, Duration::from_secs(1)).map_err(io("lock", &path))?;
    taken.ok_or_else(|| Error::Busy { folder: folder.to_owned() })
}

/// Removes a folder with everything in it, if it is there.
fn remove(folder: &Path) -> Result<(), Error> {
    paravt_files::remove(folder).map_err(io("remove", folder))
}

/// Renames the folder `part` to `whole` once everything in it is on disk.
fn replace(part: &Path, whole: &Path) -> Result<(), Error> {
    paravt_files::replace_dir(part, whole).map_err(io("write", whole))
}
