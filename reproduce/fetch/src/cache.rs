//! The hub's cache layout, as huggingface_hub writes and reads it:
//! `{datasets,models}--OWNER--NAME/{blobs/HASH, snapshots/COMMIT/PATH, refs/REVISION}`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use paravt_files::{Lock, remove, rename, write_atomic};
use paravt_hub::checkpoint::{INDEX, weight_files};

use crate::error::FetchError;
use crate::names;
use crate::repository::{HubFile, Oid, RepoType};

/// The cache folder of one repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
    locks: PathBuf,
}

impl Cache {
    /// The cache of a repository below a data root (`$HF_HOME`).
    pub fn new(root: &Path, kind: RepoType, repo: &str) -> Self {
        let name = format!("{}--{}", kind.plural(), repo.replace('/', "--"));
        let hub = root.join("hub");
        Self { locks: hub.join(".locks").join(&name), folder: hub.join(name) }
    }

    /// Where the bytes of a file lie, named by their hash.
    pub fn blob(&self, oid: &Oid) -> PathBuf {
        self.folder.join("blobs").join(oid.name())
    }

    /// The folder of a commit.
    pub fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// A file in the folder of a commit.
    pub fn pointer(&self, commit: &str, file: &HubFile) -> PathBuf {
        self.snapshot(commit).join(&file.path)
    }

    /// Whether the whole file is there: hashes were verified when it came, sizes are compared here.
    pub fn holds(&self, file: &HubFile) -> bool {
        fs::metadata(self.blob(&file.oid)).is_ok_and(|blob| blob.is_file() && blob.len() == file.size)
    }

    /// Links a blob into the folder of a commit.
    ///
    /// # Errors
    /// The link cannot be made.
    pub fn link(&self, commit: &str, file: &HubFile) -> Result<(), FetchError> {
        let pointer = self.pointer(commit, file);
        let parent = pointer.parent().expect("a snapshot's file lies in its folder");
        fs::create_dir_all(parent).map_err(FetchError::io(parent))?;
        let depth = file.path.components().count() + 1;
        let target: PathBuf = std::iter::repeat_n("..", depth).collect();
        let target = target.join("blobs").join(file.oid.name());
        if fs::read_link(&pointer).is_ok_and(|found| found == target) {
            return Ok(());
        }
        let aside = parent.join(format!(".{}.{}", file.oid.name(), std::process::id()));
        let _ = fs::remove_file(&aside);
        symlink(&target, &aside).map_err(FetchError::io(&aside))?;
        rename(&aside, &pointer).map_err(FetchError::io(&pointer))
    }

    /// Remembers which commit a branch or tag was.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn set_ref(&self, revision: &str, commit: &str) -> Result<(), FetchError> {
        if revision == commit {
            return Ok(());
        }
        let relative = names::relative(revision.as_bytes(), false)
            .map_err(|reason| FetchError::invalid("revision", format!("`{revision}`: {reason}")))?;
        let path = self.folder.join("refs").join(relative);
        let parent = path.parent().expect("a reference lies in `refs`");
        fs::create_dir_all(parent).map_err(FetchError::io(parent))?;
        write_atomic(&path, commit.as_bytes()).map_err(FetchError::io(&path))
    }

    /// The folder of a commit, or of the one that a branch or tag was when it was fetched.
    pub fn current(&self, revision: &str) -> Option<PathBuf> {
        let relative = names::relative(revision.as_bytes(), false).ok()?;
        let noted = fs::read_to_string(self.folder.join("refs").join(relative));
        let commit = noted.as_deref().unwrap_or(revision).trim();
        let folder = names::is_hex(commit, 40).then(|| self.snapshot(commit))?;
        folder.is_dir().then_some(folder)
    }

    /// The folder of a whole model at a revision: its configuration and every file of weights that its index names.
    pub fn model(&self, revision: &str) -> Option<PathBuf> {
        let folder = self.current(revision)?;
        if !folder.join("config.json").is_file() {
            return None;
        }
        let is_pickled = !folder.join(INDEX).exists() && folder.join("pytorch_model.bin").is_file();
        (is_pickled || has_weights(&folder)).then_some(folder)
    }

    /// Takes the lock that huggingface_hub takes for the same blob; it ends with the value.
    ///
    /// # Errors
    /// Another process holds it, or it cannot be made.
    pub fn lock(&self, oid: &Oid) -> Result<Lock, FetchError> {
        lock(&self.locks.join(format!("{}.lock", oid.name())))
    }

    /// Deletes a file's bytes and its link in the folder of a commit.
    ///
    /// # Errors
    /// They cannot be deleted.
    pub fn delete(&self, commit: &str, file: &HubFile) -> Result<(), FetchError> {
        for path in [self.pointer(commit, file), self.blob(&file.oid)] {
            remove(&path).map_err(FetchError::io(&path))?;
        }
        Ok(())
    }
}

/// Takes an exclusive lock on a file, which is made where it is missing.
///
/// # Errors
/// Another process holds it, or it cannot be made.
pub(crate) fn lock(path: &Path) -> Result<Lock, FetchError> {
    let taken = Lock::take(path, Duration::ZERO).map_err(FetchError::io(path))?;
    taken.ok_or_else(|| FetchError::Locked { path: path.to_owned() })
}

/// Whether every safetensors file of a model's folder is there.
pub(crate) fn has_weights(folder: &Path) -> bool {
    weight_files(folder).is_ok_and(|files| files.iter().all(|file| file.is_file()))
}
