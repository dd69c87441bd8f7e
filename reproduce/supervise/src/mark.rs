//! An environment variable that a process and all its descendants carry, by which those that left its group are found.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::{signal, stat};

/// Name of the variable.
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

    /// Numbers of the living processes that carry it, where the system shows environments (`/proc`).
    pub(crate) fn carriers(&self) -> Vec<u32> {
        let wanted = self.entry();
        let carries = |pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
        };
        stat::processes().filter(carries).collect()
    }

    /// Kills all that carry it.
    pub(crate) fn kill(&self) {
        for pid in self.carriers() {
            signal::send_one(pid, signal::KILL);
        }
    }
}
