//! Takes texts out of pinned files of a release.
//!
//! No text of a release is part of this tree: a file is known by its hash, and a text by its place in the file.

mod git;
pub mod parts;
mod source;
mod texts;

use std::collections::BTreeMap;
use std::path::Path;

pub use git::Cancel;
use paravt_suite::protocol::cache::{self, CacheError};
use paravt_suite::protocol::{Protocol, Source};
pub use source::{read_files, read_files_until};
pub use texts::{Text, Texts};

/// Contents of a release's files by path.
pub type Files = BTreeMap<&'static str, String>;

/// A release whose texts can be imported: where it is, which files and texts, and how they become a protocol.
pub struct Release {
    pub name: &'static str,
    pub repository: &'static str,
    pub commit: &'static str,
    pub files: &'static [Pinned],
    pub texts: &'static [Text],
    /// Makes the protocol of the texts.
    pub make: fn(&Texts, Source) -> Result<Protocol, ImportError>,
}

/// A file of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pinned {
    pub path: &'static str,
    /// SHA-256 at the pinned commit.
    pub sha256: &'static str,
}

impl Pinned {
    /// A file.
    pub const fn new(path: &'static str, sha256: &'static str) -> Self {
        Self { path, sha256 }
    }
}

/// Why an import failed.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file is not there or not readable.
    #[error("{file} cannot be read from {from}: {message}")]
    Unreadable { file: String, from: String, message: String },
    /// A file is not the pinned one.
    #[error(
        "{file} has SHA-256 {found}, pinned is {pinned}; import the file of commit {commit}, and put wording of your own into a \
         protocol file with `base = \"{protocol}\"`"
    )]
    Hash {
        file: &'static str,
        found: String,
        pinned: &'static str,
        commit: &'static str,
        protocol: &'static str,
    },
    /// A text cannot be read, or has another form than the protocol needs.
    #[error("{release}: text {text} ({place}): {message}")]
    Text { release: &'static str, text: String, place: String, message: String },
}

impl Release {
    /// Makes the protocol out of the files.
    ///
    /// # Errors
    /// A file of another hash, or a text that is not at its place.
    pub fn import(&self, files: &Files) -> Result<Protocol, ImportError> {
        let files_by_hash = self.hashes(files)?;
        let texts = Texts::read(self.name, self.texts, files)?;
        // The hashes decide: the texts are the pinned commit's wherever they were read.
        self.protocol(&texts, files_by_hash, true)
    }

    /// The protocol with other texts in the place of the release's, and marked as such.
    ///
    /// # Errors
    /// A text is missing or has another form.
    pub fn with_texts(&self, texts: &Texts) -> Result<Protocol, ImportError> {
        self.protocol(texts, BTreeMap::new(), false)
    }

    fn protocol(
        &self,
        texts: &Texts,
        files: BTreeMap<String, String>,
        pinned: bool,
    ) -> Result<Protocol, ImportError> {
        let (repository, commit) = (self.repository.to_owned(), self.commit.to_owned());
        (self.make)(texts, Source { repository, commit, files, pinned })
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

    /// SHA-256 of each file.
    fn hashes(&self, files: &Files) -> Result<BTreeMap<String, String>, ImportError> {
        let mut hashes = BTreeMap::new();
        for file in self.files {
            let text = files.get(file.path).ok_or_else(|| ImportError::Unreadable {
                file: file.path.to_owned(),
                from: self.repository.to_owned(),
                message: "it is not there; name a checkout of the whole repository".to_owned(),
            })?;
            let found = paravt_files::sha256(text);
            if found != file.sha256 {
                return Err(ImportError::Hash {
                    file: file.path,
                    found,
                    pinned: file.sha256,
                    commit: self.commit,
                    protocol: self.name,
                });
            }
            hashes.insert(file.path.to_owned(), found);
        }
        Ok(hashes)
    }
}
