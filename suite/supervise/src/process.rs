//! A process with everything that it starts.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::guard::{ENTRY, Guard};
use crate::log::Log;
use crate::mark::{self, Mark};
use crate::secret::Secrets;
use crate::signal::{self, Signal};
use crate::{Error, pid_file};

/// Time between two polls of a process that is waited for.
const PAUSE: Duration = Duration::from_millis(100);
/// Time between two probes of a process that is not ready.
const PROBE_PAUSE: Duration = Duration::from_millis(500);
/// Time that a probe gets at least.
const LEAST_PROBE: Duration = Duration::from_secs(1);
/// Time between SIGTERM and SIGKILL when a [`Process`] is dropped.
const DROP_GRACE: Duration = Duration::from_secs(10);

/// A program, its arguments and what it sees around it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// Program: a path, or a name that `PATH` knows.
    pub program: OsString,
    pub args: Vec<String>,
    /// Variables beside those of this process.
    pub env: BTreeMap<String, String>,
    /// Working directory; `None` for that of this process.
    pub dir: Option<PathBuf>,
}

/// A running process with everything that it started. Dropping it stops it.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    guard: Guard,
    mark: Mark,
    log: Log,
    pid_file: PathBuf,
    status: Option<ExitStatus>,
    stopped: bool,
}

impl Process {
    /// Starts a program. Its output is appended to `FOLDER/NAME.log`, its number is in `FOLDER/NAME.pid`; the
    /// process of an earlier command that the latter still names is ended first.
    ///
    /// # Errors
    /// A file that cannot be written, or no process to be had. A program that does not exist ends with code 127.
    pub fn start(name: &str, command: &Command, folder: &Path) -> Result<Self, Error> {
        Self::start_counting(name, command, folder, &[])
    }

    /// As [`Process::start`]; counts the lines of its output that hold each of some texts, see [`Process::count`].
    pub fn start_counting(
        name: &str,
        command: &Command,
        folder: &Path,
        texts: &[&'static str],
    ) -> Result<Self, Error> {
        let io = |action, path: Option<&Path>| {
            let (name, path) = (name.to_owned(), path.map(Path::to_owned));
            move |source| Error::Io { name, action, path, source }
        };
        std::fs::create_dir_all(folder).map_err(io("cannot make the folder", Some(folder)))?;
        let pid_file = folder.join(format!("{name}.pid"));
        pid_file::end_leftover(&pid_file).map_err(io("cannot replace", Some(&pid_file)))?;
        let path = folder.join(format!("{name}.log"));
        let (log, output) = Log::open(&path, texts, Secrets::seen_with(&command.env))
            .map_err(io("cannot write", Some(&path)))?;
        let mark = Mark::new();
        let mut guard = Guard::start(&mark).map_err(io("cannot start its guard", None))?;
        let spawned = spawn(command, &guard, &mark, output);
        let child = match spawned {
            Ok(child) => child,
            Err(error) => {
                guard.release();
                return Err(io("cannot start the process", None)(error));
            }
        };
        tracing::info!(name, pid = child.id(), "process started");
        let (name, status, stopped) = (name.to_owned(), None, false);
        let process = Self { name, child, guard, mark, log, pid_file, status, stopped };
        pid_file::write(&process.pid_file, process.id(), &process.mark)
            .map_err(io("cannot write", Some(process.pid_file.as_path())))?;
        Ok(process)
    }

    /// Its number, which is that of its group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// File of its output.
    pub fn log(&self) -> &Path {
        self.log.path()
    }

    /// Time since its last output.
    pub fn silence(&self) -> Duration {
        self.log.silence()
    }

    /// The last lines of its output.
    pub fn tail(&self) -> String {
        self.log.tail()
    }

    /// Lines of its output so far that hold a text of [`Process::start_counting`].
    pub fn count(&self, text: &str) -> u64 {
        self.log.count(text)
    }

    /// Waits a moment until all output of a process that ended is in the log.
    pub fn drain(&mut self) {
        self.log.drain();
    }

    /// How it ended; `None` while it runs.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
            if let Some(status) = self.status {
                tracing::info!(name = self.name, %status, "process ended");
            }
        }
        self.status
    }

    /// Waits until the probe succeeds; returns the time that took. The process is left running where it does not, unless a
    /// probe is still waiting for its answer after `limit`: then it is killed, which ends the probe.
    ///
    /// # Errors
    /// The process ended, or no probe succeeded within `limit`.
    pub fn wait_ready(
        &mut self,
        limit: Duration,
        mut probe: impl FnMut() -> Result<(), String>,
    ) -> Result<Duration, Error> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.exited() {
                self.log.drain();
                let (name, log) = (self.name.clone(), self.log.path().to_owned());
                return Err(Error::Ended { name, status, log, tail: self.log.tail() });
            }
            let (answer, late) = self.within(limit.saturating_sub(began.elapsed()), &mut probe);
            let failure = match answer {
                _ if late => "it did not answer the last request in time".to_owned(),
                Ok(()) => return Ok(began.elapsed()),
                Err(failure) => failure,
            };
            if late || began.elapsed() >= limit {
                let (name, log) = (self.name.clone(), self.log.path().to_owned());
                let tail = self.log.tail();
                return Err(Error::NotReady { name, waited: limit, probe: failure, log, tail });
            }
            std::thread::sleep(PROBE_PAUSE.min(limit));
        }
    }

    /// The result of a probe, and whether the process was killed because the probe took longer than `limit`.
    fn within<T>(&self, limit: Duration, probe: &mut impl FnMut() -> T) -> (T, bool) {
        let (ended, end) = std::sync::mpsc::channel::<()>();
        // At least a moment: whoever is ready in time has to be able to say so.
        let limit = limit.max(LEAST_PROBE);
        std::thread::scope(|scope| {
            let timer = scope.spawn(move || {
                let late = end.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
                if late {
                    let _ = signal::send(self.id(), Signal::KILL);
                    self.mark.kill();
                }
                late
            });
            let answer = probe();
            drop(ended);
            (answer, timer.join().unwrap_or_default())
        })
    }

    /// Ends it: SIGTERM to its group, and SIGKILL for what is left of it and of all that it started after `grace`.
    /// Returns once all of it is gone but processes of other users.
    pub fn stop(&mut self, grace: Duration) {
        if std::mem::replace(&mut self.stopped, true) {
            return;
        }
        let _ = signal::send(self.id(), Signal::TERM);
        let until = Instant::now() + grace;
        while self.runs() && Instant::now() < until {
            std::thread::sleep(PAUSE);
        }
        // The number stays taken until the last of the group is gone.
        while self.runs() {
            self.mark.kill();
            if signal::is_running(self.id()) && signal::send(self.id(), Signal::KILL) == Err(Errno::PERM) {
                tracing::warn!(name = self.name, group = self.id(), "left running: not permitted to end it");
                break;
            }
            std::thread::sleep(PAUSE);
        }
        self.guard.release();
        self.log.drain();
        let _ = paravt_files::remove(&self.pid_file);
    }

    fn runs(&mut self) -> bool {
        // Waited for first: a dead leader is a member of the group until then.
        self.exited();
        signal::is_running(self.id()) || !self.mark.carriers().is_empty()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop(DROP_GRACE);
    }
}

fn spawn(
    command: &Command,
    guard: &Guard,
    mark: &Mark,
    output: std::io::PipeWriter,
) -> std::io::Result<Child> {
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", ENTRY, "sh"]).arg(mark.limit().unwrap_or_default().to_string());
    shell.arg(&command.program).args(&command.args).envs(&command.env);
    // Programs that rename themselves would else write over the environment that is looked at.
    shell.env(mark::VARIABLE, mark.value()).env("SPT_NOENV", "1");
    if let Some(dir) = &command.dir {
        shell.current_dir(dir);
    }
    shell.stdin(guard.input()?).stdout(output.try_clone()?).stderr(output).process_group(0);
    shell.spawn()
}
