//! Signals to process groups, which the standard library cannot send.

use std::process::{Command, Stdio};

use crate::stat;

/// Asks a group to end.
pub(crate) const TERM: &str = "TERM";
/// Ends a group.
pub(crate) const KILL: &str = "KILL";
/// Sends nothing.
const NONE: &str = "0";

/// Sends a signal to all processes of a group; false where there is none.
pub(crate) fn send(group: u32, signal: &str) -> bool {
    kill(&format!("-{group}"), signal)
}

/// Sends a signal to one process; false where there is none.
pub(crate) fn send_one(pid: u32, signal: &str) -> bool {
    kill(&pid.to_string(), signal)
}

fn kill(target: &str, signal: &str) -> bool {
    let mut kill = Command::new("/bin/sh");
    kill.args(["-c", "kill -s \"$1\" -- \"$2\"", "sh", signal, target]);
    kill.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    kill.status().is_ok_and(|status| status.success())
}

/// Whether a group has a living process. Where the system does not show processes, dead ones that nobody has waited
/// for count, too.
pub(crate) fn is_running(group: u32) -> bool {
    send(group, NONE) && stat::group_lives(group).unwrap_or(true)
}
