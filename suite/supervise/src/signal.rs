//! Signals to process groups, which the standard library cannot send.

use rustix::io::{Errno, Result};
pub(crate) use rustix::process::Signal;
use rustix::process::{Pid, kill_process, kill_process_group, test_kill_process_group};

use crate::stat;

/// Sends a signal to all processes of a group. `ESRCH`: there is none; `EPERM`: all are other users'.
pub(crate) fn send(group: u32, signal: Signal) -> Result<()> {
    kill_process_group(number(group)?, signal)
}

pub(crate) fn send_one(pid: u32, signal: Signal) -> Result<()> {
    kill_process(number(pid)?, signal)
}

/// Whether a group has a living process. Where the system does not show processes, dead ones that nobody has waited
/// for count, too.
pub(crate) fn is_running(group: u32) -> bool {
    exists(number(group).and_then(test_kill_process_group)) && stat::group_lives(group).unwrap_or(true)
}

/// Whether an answer comes from a process, if only to refuse the signal.
fn exists(answer: Result<()>) -> bool {
    !matches!(answer, Err(Errno::SRCH))
}

/// Group 1 would be every process of the system, group 0 that of this process.
fn number(id: u32) -> Result<Pid> {
    let id = i32::try_from(id).ok().filter(|&id| id > 1);
    id.and_then(Pid::from_raw).ok_or(Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_group_is_signalled_until_it_is_gone() {
        let mut child = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        assert!(is_running(child.id()));
        send(child.id(), Signal::TERM).unwrap();
        child.wait().unwrap();
        assert!(!is_running(child.id()));
        assert_eq!(send(child.id(), Signal::KILL), Err(Errno::SRCH));
    }

    #[test]
    fn only_a_missing_group_is_gone() {
        assert!(exists(Ok(())) && exists(Err(Errno::PERM)) && exists(Err(Errno::NOMEM)));
        assert!(!exists(Err(Errno::SRCH)));
        for all in [0, 1, u32::MAX] {
            assert_eq!(send(all, Signal::KILL), Err(Errno::SRCH));
            assert!(!is_running(all));
        }
    }
}
