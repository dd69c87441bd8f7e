//! What a process and all its descendants carry, by which those that left its group are found: an environment variable,
//! and a number that also a daemon with an environment of its own keeps, its limit of file locks (`RLIMIT_LOCKS`), which
//! Linux inherits and does not apply.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::signal::{self, Signal};
use crate::stat;

/// Least limit that is a mark: nanoseconds between 1970 and 1973.
const LEAST_LIMIT: u64 = 100_000_000_000_000_000;
/// Line of the limit in `/proc/PID/limits`, before the number.
pub(crate) const LIMIT: &str = "Max file locks";
pub(crate) const VARIABLE: &str = "PARAVT_SUPERVISED";

/// A value of the variable that no other process has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Mark(String);

impl Mark {
    pub(crate) fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Two of one process are nanoseconds apart, two processes of one moment have other numbers.
        Self(format!("{}-{}", std::process::id(), now.as_nanos()))
    }

    pub(crate) fn value(&self) -> &str {
        &self.0
    }

    /// As the environment holds it.
    pub(crate) fn entry(&self) -> String {
        format!("{VARIABLE}={}", self.0)
    }

    /// The limit of file locks: the nanoseconds of the value, so many that no other process has it.
    pub(crate) fn limit(&self) -> Option<u64> {
        let nanos = self.0.rsplit_once('-')?.1.parse().ok()?;
        (LEAST_LIMIT..i64::MAX as u64).contains(&nanos).then_some(nanos)
    }

    /// Numbers of the living processes that carry it, where the system shows them (`/proc`).
    pub(crate) fn carriers(&self) -> Vec<u32> {
        let (entry, limit) = (self.entry(), self.limit());
        let carries = |pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let has_entry = environment.split(|&byte| byte == 0).any(|variable| variable == entry.as_bytes());
            // Unlike its environment, the limits of a dead process are shown until it is waited for.
            has_entry || (limit.is_some() && limit_of(*pid) == limit && stat::living(*pid).is_some())
        };
        stat::processes().filter(carries).collect()
    }

    /// Kills all that carry it.
    pub(crate) fn kill(&self) {
        for pid in self.carriers() {
            let _ = signal::send_one(pid, Signal::KILL);
        }
    }
}

/// The limit of file locks of a process, where the system shows it and there is one.
fn limit_of(pid: u32) -> Option<u64> {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    limits.lines().find_map(|line| line.strip_prefix(LIMIT))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_that_no_user_sets_is_a_mark() {
        assert!(Mark::new().limit().is_some());
        for forged in ["", "12", "12-", "12-1024", "12-unlimited", "12-18446744073709551615"] {
            assert_eq!(Mark(forged.to_owned()).limit(), None, "{forged}");
        }
    }
}
