//! Errors of downloads and archives. None holds a token, a query string or a signed URL.

use std::path::{Path, PathBuf};

use crate::size::size;

/// Why data could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The hub wants an account, or terms accepted, or does not know the repository.
    #[error("{repo}: {message}")]
    Access { repo: String, message: String },
    /// The repository has no such branch, tag or commit.
    #[error("{revision}: no such revision; {page} lists the branches and commits")]
    NoRevision { revision: String, page: String },
    /// The repository or file does not exist.
    #[error("{repo}: {message}")]
    NotFound { repo: String, message: String },
    /// The hub could not be reached, or kept failing.
    #[error("{what}: {message} ({tries} tries); run the command again to continue")]
    Network { what: String, message: String, tries: u32 },
    /// The environment forbids to ask the hub.
    #[error("HF_HUB_OFFLINE is 1: cannot download {what}; unset it first")]
    Offline { what: String },
    /// A name, pattern or setting that nothing could be done with.
    #[error("{what}: {message}")]
    Invalid { what: String, message: String },
    /// A reply that is not what the hub's interface promises.
    #[error("{what}: {message}")]
    Protocol { what: String, message: String },
    /// A file arrived with another hash than the repository lists.
    #[error("{file}: {algorithm} is {found}, the repository lists {expected}; downloaded twice, not kept")]
    Hash { file: String, algorithm: &'static str, found: String, expected: String },
    /// The disk cannot hold what is to come.
    #[error(
        "{path}: too little space: {needed} to write and a reserve of {reserve}, {free} free",
        path = .path.display(), needed = size(*.needed), reserve = size(*.reserve), free = size(*.available)
    )]
    Space { path: PathBuf, needed: u64, reserve: u64, available: u64 },
    /// A pattern matches no file of the repository.
    #[error("{repo}: no file matches {pattern} at revision {revision}")]
    NoMatch { repo: String, pattern: String, revision: String },
    /// An archive that cannot be read at all.
    #[error("{archive}: {message}")]
    Archive { archive: String, message: String },
    /// Another process downloads or unpacks the same thing.
    #[error("{path}: locked by another process; wait for it to end", path = .path.display())]
    Locked { path: PathBuf },
    /// A file on this machine could not be read or written.
    #[error("{path}: {source}", path = .path.display())]
    Io { path: PathBuf, source: std::io::Error },
}

impl FetchError {
    /// Wraps an error of the file system with its path.
    pub fn io(path: &Path) -> impl FnOnce(std::io::Error) -> FetchError + '_ {
        move |source| FetchError::Io { path: path.to_owned(), source }
    }

    pub(crate) fn invalid(what: impl Into<String>, message: impl Into<String>) -> FetchError {
        FetchError::Invalid { what: what.into(), message: message.into() }
    }

    pub(crate) fn protocol(what: impl Into<String>, message: impl Into<String>) -> FetchError {
        FetchError::Protocol { what: what.into(), message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_disk_is_described_by_sizes_that_do_not_fit() {
        let small = FetchError::Space {
            path: "d".into(),
            needed: 1_227_669,
            reserve: 16 << 20,
            available: 3_145_728,
        };
        assert_eq!(
            small.to_string(),
            "d: too little space: 1.2 MB to write and a reserve of 16.8 MB, 3.1 MB free"
        );
    }
}
