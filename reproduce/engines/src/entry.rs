//! The Python files that run inside the environments of the release.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::files;

/// Runs lmms-engine and writes its steps as lines of JSON.
pub const SFT: &str = include_str!("entry/sft_entry.py");
/// Runs the release's reinforcement learning and writes its steps as lines of JSON.
pub const RL: &str = include_str!("entry/rl_entry.py");
/// Writes AReaL's configuration.
pub(crate) const COMPOSE: &str = include_str!("entry/compose.py");
/// Variable that names the file of these lines.
pub(crate) const STEPS: &str = "PARAVT_STEPS";

/// Writes an entry file into a folder; the name ends in `.py`, which AReaL's parser of arguments asks for.
pub(crate) fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    files::write(&path, text.as_bytes())?;
    Ok(path)
}
