#![forbid(unsafe_code)]
//! Python that a model has written, in a jail of its own for each episode.
//!
//! A [`Jail`] is an interpreter and its [`Limits`]. [`Jail::start`] begins an [`Episode`] over a [`Medium`]: bubblewrap makes
//! namespaces without a network, with these files, the interpreter and a small temporary folder as the only files, and a
//! seccomp filter leaves the calls that an interpreter needs. [`Episode::run`] gives code to the interpreter, which keeps
//! its variables, and takes standard output and figures back: JSON and PNG in frames of bounded length, which are checked
//! here, because code may write them itself.
//!
//! The interpreter imports its packages while the model writes its first turn: nothing waits for it before the first
//! [`Episode::run`].
//!
//! `suite/docs/code-tool.md` says what the jail stops and what not.

mod command;
mod episode;
mod medium;
mod output;
mod python;
mod seccomp;
mod spawn;
mod wire;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

pub use episode::Episode;
pub use medium::Medium;
pub use output::{Figure, Opened, Outcome, Output};
use python::Python;

/// What an episode may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Time for the interpreter to import its packages and to open its files.
    pub start: Duration,
    /// Time of one call. The first one also pays for opening the files, as in the release.
    pub call: Duration,
    /// Address space, in bytes.
    pub memory: u64,
    /// Size of the temporary folder, in bytes.
    pub disk: u64,
    /// Threads at one moment; more end the jail.
    pub threads: u64,
    /// Bytes of standard output of one call that come back; the rest is counted.
    pub stdout: usize,
    /// Figures of one call that come back; the rest is counted.
    pub figures: usize,
    /// Bytes of all figures of one call.
    pub figure_bytes: usize,
    pub figure_pixels: u64,
}

impl Default for Limits {
    /// 30 seconds as in the release, which has no other limit: the rest is far above what fits into a context of 32
    /// thousand tokens and 32 images.
    fn default() -> Self {
        Self {
            start: Duration::from_secs(60),
            call: Duration::from_secs(30),
            memory: 8 << 30,
            disk: 64 << 20,
            threads: 512,
            stdout: 1 << 20,
            figures: 64,
            figure_bytes: 64 << 20,
            figure_pixels: 64 << 20,
        }
    }
}

/// Why code cannot be run. What the code itself does wrong is an [`Outcome`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// bubblewrap is not installed.
    #[error("the code tool needs bubblewrap, and there is no program `bwrap`: apt-get install bubblewrap")]
    NoBubblewrap,
    /// The interpreter cannot be used.
    #[error("{python} cannot run the code of a model: {reason}")]
    Python { python: PathBuf, reason: String },
    /// A folder of the interpreter would show the code more than the interpreter.
    #[error(
        "{folder} belongs to the interpreter and holds {holds}, which the code of a model may not see; use an interpreter in a folder of its own (python3 -m venv DIR)"
    )]
    Exposed { folder: PathBuf, holds: PathBuf },
    /// The kernel forbids what the jail is made of.
    #[error(
        "the jail of the code tool cannot be made: {message}. Allow user namespaces: `sysctl -w user.max_user_namespaces=10000`, where it exists `sysctl -w kernel.unprivileged_userns_clone=1` or `kernel.apparmor_restrict_unprivileged_userns=0`, in a container `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`"
    )]
    Refused { message: String },
    /// The interpreter ended, or did not answer, before it was ready.
    #[error("the interpreter did not start for {video}: {message}")]
    Start { video: PathBuf, message: String },
    /// A file or a process that the operating system refuses.
    #[error("the jail of {video}: cannot {action}")]
    Io { video: PathBuf, action: &'static str, source: std::io::Error },
}

/// An interpreter with its limits, from which episodes are started.
#[derive(Debug, Clone)]
pub struct Jail {
    bubblewrap: PathBuf,
    python: Python,
    limits: Limits,
}

impl Jail {
    /// Asks an interpreter for its folders.
    ///
    /// # Errors
    /// bubblewrap is missing, or the interpreter does not run or lacks a package.
    pub fn new(python: &Path, limits: Limits) -> Result<Self, Error> {
        let bubblewrap = paravt_supervise::find("bwrap").ok_or(Error::NoBubblewrap)?;
        Ok(Self { bubblewrap, python: Python::find(python)?, limits })
    }

    /// The same interpreter under other limits.
    pub fn with_limits(&self, limits: Limits) -> Self {
        Self { limits, ..self.clone() }
    }

    /// What an episode may use.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Starts the interpreter of an episode over a video or images and does not wait until it is ready.
    ///
    /// # Errors
    /// A file does not exist, or the kernel forbids the jail.
    pub fn start(&self, medium: impl Into<Medium>) -> Result<Episode, Error> {
        Episode::start(self.clone(), medium.into())
    }

    /// Makes a jail without files, and imports the packages there.
    ///
    /// # Errors
    /// The kernel forbids the jail, or a package cannot be imported.
    pub fn check(&self) -> Result<(), Error> {
        let mut command = command::command(self, None, "import decord, matplotlib.pyplot, numpy, PIL.Image");
        command.stdin(Stdio::null()).stdout(seccomp::pipe()?).stderr(Stdio::piped());
        let refused = |message| Error::Refused { message };
        let child = spawn::spawn(command).map_err(|error| refused(error.to_string()))?;
        let output = child.wait_with_output().map_err(|error| refused(error.to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        let messages = String::from_utf8_lossy(&output.stderr);
        match messages.split_once("}\n") {
            Some((_, reason)) if !reason.starts_with("bwrap: ") => {
                let reason = format!("in the jail: {}", reason.trim());
                Err(Error::Python { python: self.python.executable.clone(), reason })
            }
            _ => Err(refused(messages.trim().to_owned())),
        }
    }

    /// Versions of the interpreter and its packages.
    pub fn versions(&self) -> &str {
        &self.python.versions
    }
}

/// What `doctor` says of an interpreter.
pub fn doctor(python: &Path) -> String {
    let jail = Jail::new(python, Limits::default());
    match jail.and_then(|jail| jail.check().map(|()| jail)) {
        Ok(jail) => format!("{} in a jail", jail.versions()),
        Err(error) => format!("not available: {error}"),
    }
}
