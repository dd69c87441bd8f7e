//! The hub and its cache as the environment names them, with the variables of huggingface_hub.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::FetchError;
use crate::hub::{Hub, Token};
use crate::retry::Retries;

const DEFAULT_ENDPOINT: &str = "https://huggingface.co";
/// Maximum bytes of a file with a token.
const MAX_TOKEN: u64 = 4096;

/// The folder of downloads: `$HF_HOME`, else `~/.cache/huggingface`; `None` without a home.
pub fn home() -> Option<PathBuf> {
    variable("HF_HOME").map(PathBuf::from).or_else(default_home)
}

/// Whether the hub must not be asked: `HF_HUB_OFFLINE` is 1.
pub fn is_offline() -> bool {
    variable("HF_HUB_OFFLINE").is_some_and(|value| value == "1")
}

impl Hub {
    /// The hub of `HF_ENDPOINT`, with the token of `HF_TOKEN`, else the one that `hf auth login` left.
    ///
    /// # Errors
    /// The endpoint is not an HTTP address; a token that cannot be sent: without it, the hub would answer as to
    /// somebody else.
    pub fn of_environment(root: &Path, retries: Retries) -> Result<Self, FetchError> {
        let endpoint = variable("HF_ENDPOINT");
        let endpoint = endpoint.map_or(DEFAULT_ENDPOINT.into(), |value| value.to_string_lossy().into_owned());
        Self::new(&endpoint, token(root)?, retries)
    }
}

fn token(root: &Path) -> Result<Option<Token>, FetchError> {
    if let Some(token) = variable("HF_TOKEN")
        && let Some(token) = Token::new("HF_TOKEN", &token.to_string_lossy())?
    {
        return Ok(Some(token));
    }
    let home = default_home().map(|home| home.join("token"));
    let files = [variable("HF_TOKEN_PATH").map(PathBuf::from), Some(root.join("token")), home];
    for path in files.into_iter().flatten() {
        let Ok(bytes) = paravt_files::read_limited(&path, MAX_TOKEN) else { continue };
        if let Some(token) = Token::new(&path.to_string_lossy(), &String::from_utf8_lossy(&bytes))? {
            return Ok(Some(token));
        }
    }
    Ok(None)
}

fn default_home() -> Option<PathBuf> {
    variable("HOME").map(|home| Path::new(&home).join(".cache/huggingface"))
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
