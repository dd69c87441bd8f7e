//! A process id with the start time of the process, so that another process with the same id is not taken for it.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::mark::Mark;
use crate::signal::{self, Signal};
use crate::stat;

/// Time between SIGTERM and SIGKILL for a process of an earlier command.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    pid: u32,
    /// Clock ticks between the start of the machine and that of the process.
    started: u64,
    /// What it and all that it started carry.
    mark: Mark,
}

/// Notes a running process.
pub(crate) fn write(path: &Path, pid: u32, mark: &Mark) -> std::io::Result<()> {
    let entry = Entry { pid, started: started(pid).unwrap_or_default(), mark: mark.clone() };
    paravt_files::write_atomic(path, &serde_json::to_vec(&entry)?)
}

/// Ends the group of the process that a file notes, if that very process still runs: one of an earlier command
/// whose guard was killed as well.
pub(crate) fn end_leftover(path: &Path) -> std::io::Result<()> {
    let Ok(bytes) = std::fs::read(path) else { return Ok(()) };
    if let Ok(entry) = serde_json::from_slice::<Entry>(&bytes) {
        let runs = || entry.started > 0 && started(entry.pid) == Some(entry.started);
        let until = Instant::now() + GRACE;
        if runs() {
            let _ = signal::send(entry.pid, Signal::TERM);
        }
        while runs() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        if runs() {
            let _ = signal::send(entry.pid, Signal::KILL);
        }
        entry.mark.kill();
    }
    paravt_files::remove(path)
}

/// When a process was started, where the system tells. Dead ones that nobody has waited for do not count.
fn started(pid: u32) -> Option<u64> {
    stat::living(pid).map(|stat| stat.started)
}
