//! Takes texts out of pinned files of a release.
//!
//! No text of a release is part of this tree: constants, f-strings and conditions are found by their names and shapes in
//! the parsed source, so that a changed file is a named error, not a wrong text.

mod conditions;
mod expressions;
mod fstrings;
mod git;
pub mod parts;
mod schemas;
pub mod shapes;
mod source;
mod tools;

use std::collections::BTreeMap;
use std::path::Path;

pub use git::Cancel;
use paravt_suite::protocol::cache::{self, CacheError};
use paravt_suite::protocol::{Protocol, Source};
pub use source::{Files, read_files, read_files_until};

/// A release whose texts can be imported: where it is, which files, and how they become a protocol.
pub struct Release {
    /// Name of the protocol.
    pub name: &'static str,
    /// Repository on GitHub.
    pub repository: &'static str,
    /// Pinned commit.
    pub commit: &'static str,
    /// Files that are read.
    pub files: &'static [Pinned],
    /// Makes the protocol of the files' texts.
    pub make: fn(&Files, Source) -> Result<Protocol, ImportError>,
}

/// A file of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pinned {
    /// Path in the repository.
    pub path: &'static str,
    /// SHA-256 at the pinned commit.
    pub sha256: &'static str,
    /// Whether an unpinned source may lack it.
    pub optional: bool,
}

impl Pinned {
    /// A file that every source must have.
    pub const fn new(path: &'static str, sha256: &'static str) -> Self {
        Self { path, sha256, optional: false }
    }
}

/// Why an import failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum ImportError {
    /// A file is not there or not readable.
    #[error("{file} cannot be read from {from}: {message}")]
    Unreadable { file: String, from: String, message: String },
    /// A file is not the pinned one.
    #[error(
        "{file} has SHA-256 {found}, pinned is {pinned}; import the file of commit {commit}, or pass --unpinned and have every record marked"
    )]
    Hash { file: &'static str, found: String, pinned: &'static str, commit: &'static str },
    /// A file is not Python.
    #[error("{file}: not parsed as Python: {message}")]
    Syntax { file: &'static str, message: String },
    /// A text is not where it is expected.
    #[error("{file}: {wanted} was not found{near}; the file's structure has changed", near = .line.map(|line| format!(" (looked near line {line})")).unwrap_or_default())]
    Shape {
        file: &'static str,
        wanted: String,
        /// Line near which it was looked for.
        line: Option<usize>,
    },
}

impl Release {
    /// Makes the protocol out of the files.
    ///
    /// # Errors
    /// A file of another hash (unless `unpinned`), or whose structure is not the expected one.
    pub fn import(&self, files: &Files, unpinned: bool) -> Result<Protocol, ImportError> {
        let (hashes, pinned) = self.hashes(files, unpinned)?;
        // The hashes decide: the pinned texts are the pinned commit's wherever they were read.
        let commit = if pinned { self.commit.to_owned() } else { files.commit.clone() };
        let source = Source { repository: self.repository.to_owned(), commit, files: hashes, pinned };
        (self.make)(files, source)
    }

    /// The imported protocol that a cache folder holds; `None` where none was imported.
    ///
    /// # Errors
    /// The file is damaged or was changed.
    pub fn stored(&self, dir: &Path) -> Result<Option<Protocol>, CacheError> {
        cache::load(dir, self.name)
    }

    /// Whether a file of this name and hash is a pinned one.
    pub fn is_pinned(&self, file: &str, hash: &str) -> bool {
        self.files.iter().any(|pinned| (pinned.path, pinned.sha256) == (file, hash))
    }

    /// SHA-256 of each file that is there, and whether all are the pinned ones.
    fn hashes(&self, files: &Files, unpinned: bool) -> Result<(BTreeMap<String, String>, bool), ImportError> {
        let mut hashes = BTreeMap::new();
        let mut pinned = true;
        for file in self.files {
            let Some(text) = files.get(file.path) else {
                let message = "it is not there; name a checkout of the whole repository".to_owned();
                if !unpinned || !file.optional {
                    let from = files.commit.clone();
                    return Err(ImportError::Unreadable { file: file.path.to_owned(), from, message });
                }
                pinned = false;
                continue;
            };
            let found = paravt_files::sha256(text);
            if found != file.sha256 {
                if !unpinned {
                    let commit = self.commit;
                    return Err(ImportError::Hash { file: file.path, found, pinned: file.sha256, commit });
                }
                pinned = false;
            }
            hashes.insert(file.path.to_owned(), found);
        }
        Ok((hashes, pinned))
    }
}
