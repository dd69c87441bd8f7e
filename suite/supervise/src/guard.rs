//! The guard: a shell that, if this process dies, kills a supervised process and everything that it started.

use std::io::{PipeWriter, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use crate::mark::{LIMIT, Mark};

/// Reads the group's number, then waits: for a line, which releases the group, or for the end of the pipe, which
/// comes when nobody holds its other end any more. Then it kills the group and, until none is left, every process
/// whose environment holds the mark `$1` or whose limits have the line `$2`: workers of torchrun are in sessions of their
/// own, which the group does not reach. The signals of a terminal are for the supervisor.
const SCRIPT: &str = r#"trap "" INT TERM HUP QUIT
read -r group || exit 0
read -r line && exit 0
kill -s KILL -- "-$group" 2>/dev/null
rounds=0
while [ "$rounds" -lt 100 ]; do
  found=
  for file in $(grep -lsaF -- "$1" /proc/[0-9]*/environ; grep -lse "$2" /proc/[0-9]*/limits); do
    pid=${file#/proc/}
    kill -s KILL "${pid%/*}" 2>/dev/null && found=1
  done
  [ -n "$found" ] || exit 0
  rounds=$((rounds + 1))
  sleep 0.05
done"#;

/// First lines of a guarded process: tells the guard its number, takes the mark's limit `$1` (the shells differ in its
/// letter), then becomes the program. The pipe is its standard input up to then, so that no moment is left in which it
/// runs and the guard does not know it.
pub(crate) const ENTRY: &str = r#"echo $$ >&0
ulimit -S -x "$1" 2>/dev/null || ulimit -S -w "$1" 2>/dev/null
shift
exec "$@" </dev/null"#;

/// The guard of one process group.
#[derive(Debug)]
pub(crate) struct Guard {
    shell: Child,
    pipe: PipeWriter,
}

impl Guard {
    pub(crate) fn start(mark: &Mark) -> std::io::Result<Self> {
        let (reader, pipe) = std::io::pipe()?;
        let mut command = Command::new("/bin/sh");
        let limit = mark.limit().map_or("$^".to_owned(), |limit| format!("^{LIMIT}  *{limit} "));
        command.args(["-c", SCRIPT, "guard", &mark.entry(), &limit]).current_dir("/").process_group(0);
        command.env_clear().env("PATH", "/usr/bin:/bin");
        command.stdin(reader).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { shell: command.spawn()?, pipe })
    }

    /// Standard input for the process that is guarded; see [`ENTRY`].
    pub(crate) fn input(&self) -> std::io::Result<PipeWriter> {
        self.pipe.try_clone()
    }

    /// Ends the guard, once the group has ended.
    pub(crate) fn release(&mut self) {
        // Twice: where the process was stopped before it had told its number, the first line is taken for that. A guard
        // that is gone already needs none.
        let _ = self.pipe.write_all(b"released\nreleased\n");
        let _ = self.shell.wait();
    }
}
