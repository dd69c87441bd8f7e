//! Commands of other programs: run with a log, or asked for a short answer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use paravt_files::quote;
use paravt_suite::redact;
use paravt_supervise::{Process, variable};

use crate::environments::{Error, io};

/// Time between two polls of a process.
const PAUSE: Duration = Duration::from_millis(50);
/// Time between SIGTERM and SIGKILL for a process that took too long.
const GRACE: Duration = Duration::from_secs(5);
/// Variables that would point git, uv or Python at another repository or environment.
const UNSET: [&str; 12] = [
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP",
    "UV_PROJECT_ENVIRONMENT",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its words, the program first.
    pub(crate) words: Vec<String>,
    /// Variables beside those of this process.
    pub(crate) env: BTreeMap<String, String>,
}

impl Program {
    pub(crate) fn new<const N: usize>(words: [&str; N]) -> Self {
        Self { words: words.map(str::to_owned).to_vec(), env: BTreeMap::new() }
    }

    /// Appends arguments.
    pub(crate) fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.words.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable.
    pub(crate) fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.insert(name.to_owned(), value.into());
        self
    }

    /// As a shell takes it, with its variables; without secrets.
    pub(crate) fn line(&self) -> String {
        let variables = self.env.iter().map(|(name, value)| variable(name, &quote(value)));
        let words = self.words.iter().map(|word| quote(redact::urls(word)));
        variables.chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Variables of this process that it does not get.
    fn unset(&self) -> impl Iterator<Item = &'static str> {
        UNSET.into_iter().filter(|name| !self.env.contains_key(*name))
    }

    /// Runs it with its output in `LOGS/NAME.log`; it is killed when this process ends.
    pub(crate) fn run(
        &self,
        what: &str,
        name: &str,
        logs: &Path,
        limit: Option<Duration>,
    ) -> Result<(), Error> {
        let command = paravt_supervise::Command {
            program: "env".into(),
            args: self
                .unset()
                .flat_map(|name| ["-u", name])
                .map(str::to_owned)
                .chain(self.words.clone())
                .collect(),
            env: self.env.clone(),
            dir: None,
        };
        let mut process = Process::start(name, &command, logs)?;
        let began = Instant::now();
        let status = loop {
            if let Some(status) = process.exited() {
                break Some(status);
            }
            if limit.is_some_and(|limit| began.elapsed() > limit) {
                break None;
            }
            std::thread::sleep(PAUSE);
        };
        process.stop(GRACE);
        let (what, log, tail) = (what.to_owned(), process.log().to_owned(), process.tail());
        match (status, limit) {
            (Some(status), _) if status.success() => Ok(()),
            (Some(status), _) => Err(Error::Failed { what, status, hint: hint(&tail), log, tail }),
            (None, limit) => {
                let seconds = limit.unwrap_or_default().as_secs();
                Err(Error::TimedOut { what, seconds, log, tail })
            }
        }
    }

    /// Its standard output, if it succeeds.
    pub(crate) fn answer(&self) -> Result<Vec<u8>, String> {
        let mut command = std::process::Command::new(&self.words[0]);
        command.args(&self.words[1..]).envs(&self.env).stdin(std::process::Stdio::null());
        for name in self.unset() {
            command.env_remove(name);
        }
        let output = command.output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

/// A remedy for the cause that the last lines of a failed program name; empty for an unknown one.
fn hint(tail: &str) -> &'static str {
    let has = |words: &[&str]| words.iter().any(|word| tail.contains(word));
    if has(&["No space left on device", "os error 28", "Disk quota exceeded", "os error 122"]) {
        " (the disk is full: make room below --out and run the command again)"
    } else if has(&[
        "Could not resolve host", "dns error", "Failed to connect", "Connection refused",
        "client error (Connect)", "Network is unreachable", "Network connectivity is disabled",
        "error sending request",
    ]) {
        " (the network does not answer: check the connection and the proxy, and run the command again)"
    } else {
        ""
    }
}

/// The absolute path of a program on PATH, or of one that is given as a path.
pub(crate) fn find(program: &str, remedy: &'static str) -> Result<PathBuf, Error> {
    let missing = || Error::NoProgram { program: program.to_owned(), remedy };
    let path = paravt_supervise::find(program).ok_or_else(missing)?;
    std::path::absolute(&path).map_err(io("find", &path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_a_shell_takes_it() {
        let program = Program::new(["uv", "pip", "install"]).args(["a b", "c==1"]).env("MAX_JOBS", "16");
        assert_eq!(program.line(), "MAX_JOBS=16 uv pip install 'a b' c==1");
        let private = Program::new(["uv", "--index-url=https://me:secret@host/simple", "git@host:a/b"])
            .env("UV_KEY", "secret");
        assert_eq!(private.line(), "UV_KEY=… uv '--index-url=https://…@host/simple' git@host:a/b");
        let private =
            Program::new(["uv", "https://me:a/secret@host/simple", "https://host/simple?key=secret"]);
        assert_eq!(private.line(), "uv 'https://…@host/simple' 'https://host/simple?…'");
    }

    #[test]
    fn a_failure_has_the_last_lines_and_the_cause() {
        let logs = tempfile::tempdir().unwrap();
        let program = Program::new(["sh", "-c", "echo No space left on device; exit 3"]);
        let error = program.run("pass 1", "sft", logs.path(), None).unwrap_err().to_string();
        assert!(error.contains("pass 1 failed with exit status: 3 (the disk is full"), "{error}");
        let slow = Program::new(["sleep", "300"]);
        let error = slow.run("the probe", "sft", logs.path(), Some(Duration::from_millis(200))).unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{error}");
        assert!(find("paravt-no-such-program", "install it").unwrap_err().to_string().contains("install it"));
    }
}
