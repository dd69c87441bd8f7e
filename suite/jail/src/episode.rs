//! An interpreter from its start to the end of its jail.

use std::io::{BufRead, BufReader, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Deserialize;
use serde_json::json;

use crate::command::{self, ERROR_BYTES};
use crate::output::{Figure, Opened, Outcome, Output, Ready, Reply};
use crate::wire::{Stop, Watch, Wire};
use crate::{Error, Jail, Limits, Medium, seccomp, spawn};

/// Bytes of the messages of bubblewrap and of an interpreter that does not start.
const MESSAGE_BYTES: u64 = 8 << 10;

/// One episode: an interpreter that keeps its variables over the calls. Dropping it ends the jail.
#[derive(Debug)]
pub struct Episode {
    jail: Jail,
    medium: Medium,
    state: State,
    /// Number of the last call, which its reply repeats.
    call: u64,
    restarted: bool,
}

#[derive(Debug)]
enum State {
    Starting(Process, Instant),
    Ready(Process, Opened),
    Ended,
}

impl Episode {
    pub(crate) fn start(jail: Jail, medium: Medium) -> Result<Self, Error> {
        let action = match &medium {
            Medium::Video(_) => "find the video",
            Medium::Images { .. } => "find the image",
        };
        let found = |file: &Path| {
            let io = |source| Error::Io { video: file.to_owned(), action, source };
            let path = file.canonicalize().map_err(io)?;
            jail.python.check_hides(&path)?;
            Ok(path)
        };
        let medium = medium.map(found)?;
        let process = Process::start(&jail, &medium)?;
        let state = State::Starting(process, Instant::now());
        Ok(Self { jail, medium, state, call: 0, restarted: false })
    }

    /// Waits until the interpreter is ready: the files as it sees them.
    ///
    /// # Errors
    /// The jail cannot be made, or the interpreter cannot open a file.
    pub fn opened(&mut self) -> Result<&Opened, Error> {
        self.state = match std::mem::replace(&mut self.state, State::Ended) {
            State::Ready(process, opened) => State::Ready(process, opened),
            State::Starting(process, since) => self.await_ready(process, since)?,
            State::Ended => {
                let process = Process::start(&self.jail, &self.medium)?;
                self.restarted = true;
                self.await_ready(process, Instant::now())?
            }
        };
        let State::Ready(_, opened) = &self.state else { unreachable!("it is ready") };
        Ok(opened)
    }

    fn await_ready(&self, mut process: Process, since: Instant) -> Result<State, Error> {
        let limits = &self.jail.limits;
        match process.ready(since + limits.start, self.medium.files().len(), limits) {
            Ok(opened) => Ok(State::Ready(process, opened)),
            Err(stop) => Err(match process.message(stop) {
                message if message.starts_with("bwrap: ") => Error::Refused { message },
                message => Error::Start { video: self.medium.first(), message },
            }),
        }
    }

    /// Runs code with the variables of the calls before it. After a call that ended the interpreter, a new one is
    /// started.
    ///
    /// # Errors
    /// No interpreter can be started: what the code does is an [`Outcome`].
    pub fn run(&mut self, code: &str) -> Result<Output, Error> {
        let open_seconds = self.opened()?.open_seconds;
        let State::Ready(process, _) = &mut self.state else { unreachable!("it is ready") };
        self.call += 1;
        let opening = Duration::try_from_secs_f64(open_seconds).unwrap_or(Duration::MAX);
        let paid = if process.calls == 0 { opening } else { Duration::ZERO };
        let limits = &self.jail.limits;
        let began = Instant::now();
        let result = process.exchange(self.call, code, began + limits.call.saturating_sub(paid), limits);
        let mut output = result.unwrap_or_else(|stop| {
            let outcome = match stop {
                Stop::Late => Outcome::TimedOut,
                Stop::Closed => Outcome::Ended("the interpreter ended".to_owned()),
                Stop::Broken(reason) => Outcome::Ended(format!("the interpreter was killed: {reason}")),
            };
            self.state = State::Ended;
            Output::failed(outcome)
        });
        output.seconds = began.elapsed().as_secs_f64();
        output.restarted = std::mem::take(&mut self.restarted);
        Ok(output)
    }

    /// Number of the interpreter's process, for those who watch it from outside.
    pub fn process_id(&self) -> Option<u32> {
        match &self.state {
            State::Starting(process, _) | State::Ready(process, _) => Some(process.id),
            State::Ended => None,
        }
    }
}

/// A running jail. Dropping it kills everything in it, and returns when nothing is left.
#[derive(Debug)]
struct Process {
    bubblewrap: Child,
    /// The interpreter, process 1 of its namespace.
    handle: OwnedFd,
    id: u32,
    wire: Wire,
    stderr: BufReader<PipeReader>,
    calls: u64,
}

/// What bubblewrap writes first.
#[derive(Deserialize)]
struct Info {
    #[serde(rename = "child-pid")]
    child: u32,
}

impl Process {
    fn start(jail: &Jail, medium: &Medium) -> Result<Self, Error> {
        let io = |action| move |source| Error::Io { video: medium.first(), action, source };
        let make = io("make its pipes");
        let (ours, theirs) = UnixStream::pair().map_err(&make)?;
        let (stderr, messages) = std::io::pipe().map_err(&make)?;
        let mut command = command::worker(jail, medium);
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(seccomp::pipe()?).stderr(messages);
        let mut bubblewrap = spawn::spawn(command).map_err(io("start bubblewrap"))?;
        let mut stderr = BufReader::new(stderr);
        let found = info(&mut stderr).and_then(|info| {
            let pid = Pid::from_raw(i32::try_from(info.child).unwrap_or_default());
            let handle = pidfd_open(pid.ok_or("bwrap: process 0")?, PidfdFlags::empty());
            handle.map(|handle| (info.child, handle)).map_err(|error| format!("bwrap: {error}"))
        });
        let (id, handle) = found.map_err(|message| {
            // An error means that it has ended by itself.
            let _ = bubblewrap.kill();
            let _ = bubblewrap.wait();
            Error::Refused { message }
        })?;
        let wire = Wire::new(ours).map_err(make)?;
        Ok(Self { bubblewrap, handle, id, wire, stderr, calls: 0 })
    }

    /// Waits for the interpreter's first frame, and the pictures behind it.
    fn ready(&mut self, until: Instant, files: usize, limits: &Limits) -> Result<Opened, Stop> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Started {
            Ready(Ready),
            Failed { error: String },
        }
        let watch = Watch { until, check: &|| None };
        let frame = self.wire.receive(6 * ERROR_BYTES + 1024, &watch)?;
        let ready = match serde_json::from_slice(&frame) {
            Ok(Started::Ready(ready)) => ready,
            Ok(Started::Failed { error }) => return Err(Stop::Broken(error)),
            Err(error) => return Err(Stop::Broken(error.to_string())),
        };
        if ready.pictures > files {
            return Err(Stop::Broken(format!("it shows {} pictures of {files} files", ready.pictures)));
        }
        let pictures = self.figures(ready.pictures, &watch, limits)?;
        Ok(ready.with(pictures))
    }

    /// Figures that a frame has announced.
    fn figures(&mut self, count: usize, watch: &Watch<'_>, limits: &Limits) -> Result<Vec<Figure>, Stop> {
        let mut room = limits.figure_bytes;
        let mut figure = || {
            let png = self.wire.receive(room, watch)?;
            room -= png.len();
            Figure::new(png, limits).map_err(Stop::Broken)
        };
        (0..count).map(|_| figure()).collect()
    }

    fn exchange(&mut self, call: u64, code: &str, until: Instant, limits: &Limits) -> Result<Output, Stop> {
        self.wire.check_silent()?;
        self.calls += 1;
        let id = self.id;
        let check = || threads(id).filter(|threads| *threads > limits.threads).map(too_many);
        let watch = Watch { until, check: &check };
        self.wire.send(json!({ "call": call, "code": code }).to_string().as_bytes(), &watch)?;
        let frame = self.wire.receive(Reply::max_bytes(limits), &watch)?;
        let reply: Reply = serde_json::from_slice(&frame)
            .map_err(|error| Stop::Broken(format!("its reply is not one: {error}")))?;
        reply.check(call, limits).map_err(Stop::Broken)?;
        let figures = self.figures(reply.figures, &watch, limits)?;
        Ok(Output {
            outcome: reply.error.map_or(Outcome::Done, Outcome::Raised),
            stdout: reply.stdout,
            stdout_bytes: reply.stdout_bytes,
            figures,
            figures_made: reply.figures_made,
            figures_total: reply.figures_total,
            ..Output::failed(Outcome::Done)
        })
    }

    /// Why it did not start: its own words, or bubblewrap's.
    fn message(&mut self, stop: Stop) -> String {
        self.kill();
        let mut bytes = Vec::new();
        // Everybody who could write is dead: it ends.
        let _ = (&mut self.stderr).take(MESSAGE_BYTES).read_to_end(&mut bytes);
        let written = String::from_utf8_lossy(&bytes).trim().to_owned();
        match stop {
            Stop::Broken(reason) => reason,
            Stop::Late => format!("it was not ready in time; {written}"),
            Stop::Closed if written.is_empty() => "it ended without a message".to_owned(),
            Stop::Closed => written,
        }
    }

    fn kill(&mut self) {
        // An error means that it has ended. bubblewrap ends after its child, which ends after its whole namespace.
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
        let _ = self.bubblewrap.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads what bubblewrap writes of its child: an object of JSON, or a message of an error.
fn info(stderr: &mut impl BufRead) -> Result<Info, String> {
    let mut text = String::new();
    while !text.ends_with("}\n") {
        let line =
            stderr.take(MESSAGE_BYTES).read_line(&mut text).map_err(|error| format!("bwrap: {error}"))?;
        if line == 0 || text.len() as u64 > MESSAGE_BYTES {
            return Err(text.trim().to_owned());
        }
    }
    serde_json::from_str(&text).map_err(|_| text.trim().to_owned())
}

/// Threads of a process.
fn threads(id: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // Behind the name, which may hold spaces and brackets: field 20, of which 18 are behind it.
    stat[stat.rfind(')')? + 1..].split_whitespace().nth(17)?.parse().ok()
}

fn too_many(threads: u64) -> String {
    format!("it had {threads} threads")
}
