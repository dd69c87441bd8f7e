//! Exit codes, the same for every command.

use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// All well.
    Ok = 0,
    /// The command worked and found something wrong (a failed case, a missing file).
    Finding = 1,
    /// Wrong usage or bad input.
    Usage = 2,
    /// A precondition of a run does not hold (data, server).
    Preflight = 3,
    /// A run ended with samples missing or failed.
    Incomplete = 4,
    /// Ctrl-C.
    Interrupted = 130,
}

impl Exit {
    /// The worse of two.
    pub fn worse(self, other: Exit) -> Exit {
        self.max(other)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}
