#![forbid(unsafe_code)]
//! Long-running child processes, such as inference servers.
//!
//! A [`Process`] runs in a process group of its own. Its output goes to a log file, in lines of bounded length and with
//! the secrets of its environment masked. A probe decides when it is ready; SIGTERM and, after a pause, SIGKILL stop it.
//! When this process ends in any way, SIGKILL included, a guard kills the group: a shell that waits for the end of a
//! pipe. Processes that left the group, such as the workers of torchrun, are found by an environment variable, daemons with
//! an environment of their own by a resource limit that they inherit (`/proc`).
//!
//! ```
//! use std::time::Duration;
//!
//! use paravt_supervise::{Command, Process};
//!
//! let folder = tempfile::tempdir()?;
//! let command = Command { program: "sleep".into(), args: vec!["60".to_owned()], ..Command::default() };
//! let mut process = Process::start("sleep", &command, folder.path())?;
//! assert!(process.exited().is_none());
//! process.stop(Duration::from_secs(1));
//! assert!(process.exited().is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod guard;
mod log;
mod mark;
mod output;
mod pid_file;
mod process;
mod secret;
mod signal;
mod stat;

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

pub use output::{find, output, wait};
pub use process::{Command, Process};
pub use secret::{variable, words};

/// Why a process cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or a process that the operating system refuses.
    #[error("{name}: {action}{}", .path.as_ref().map(|path| format!(" {}", path.display())).unwrap_or_default())]
    Io { name: String, action: &'static str, path: Option<PathBuf>, source: std::io::Error },
    /// The process ended before it was ready.
    #[error("{name} ended with {status} before it was ready; last lines of {}:\n{tail}", .log.display())]
    Ended { name: String, status: ExitStatus, log: PathBuf, tail: String },
    /// The process runs, but its probe fails.
    #[error(
        "{name} is not ready after {} s: {probe}; last lines of {}:\n{tail}", .waited.as_secs(), .log.display()
    )]
    NotReady { name: String, waited: Duration, probe: String, log: PathBuf, tail: String },
}
