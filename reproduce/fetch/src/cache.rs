//! The hub's cache layout, as huggingface_hub writes and reads it:
//! `{datasets,models}--OWNER--NAME/{blobs/HASH, snapshots/COMMIT/PATH, refs/REVISION}`.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::error::FetchError;
use crate::names;
use crate::repository::{HubFile, Kind, Oid};

/// The cache folder of one repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    folder: PathBuf,
    locks: PathBuf,
}

impl Cache {
    /// The cache of a repository below a data root (`$HF_HOME`).
    pub fn new(root: &Path, kind: Kind, repo: &str) -> Self {
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
        fs::rename(&aside, &pointer).map_err(FetchError::io(&pointer))
    }

    /// Remembers which commit a branch or tag was.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_ref(&self, revision: &str, commit: &str) -> Result<(), FetchError> {
        if revision == commit {
            return Ok(());
        }
        let relative = names::relative(revision.as_bytes(), false)
            .map_err(|reason| FetchError::invalid("revision", format!("`{revision}`: {reason}")))?;
        let path = self.folder.join("refs").join(relative);
        let parent = path.parent().expect("a reference lies in `refs`");
        fs::create_dir_all(parent).map_err(FetchError::io(parent))?;
        let aside = parent.join(format!(".{}.{}", commit, std::process::id()));
        crate::disk::create(&aside)?.write_all(commit.as_bytes()).map_err(FetchError::io(&aside))?;
        fs::rename(&aside, &path).map_err(FetchError::io(&path))
    }

    /// The folder of the commit that a branch or tag was when it was fetched.
    pub fn current(&self, revision: &str) -> Option<PathBuf> {
        let relative = names::relative(revision.as_bytes(), false).ok()?;
        let commit = fs::read_to_string(self.folder.join("refs").join(relative)).ok()?;
        let commit = commit.trim();
        let folder = names::is_hex(commit, 40).then(|| self.snapshot(commit))?;
        folder.is_dir().then_some(folder)
    }

    /// The folder of a whole model: its configuration and every file of weights that its index names.
    pub fn model(&self) -> Option<PathBuf> {
        let folder = self.current("main")?;
        if !folder.join("config.json").is_file() {
            return None;
        }
        let index = fs::read(folder.join("model.safetensors.index.json")).ok();
        let is_whole = match index {
            Some(index) => {
                let index: serde_json::Value = serde_json::from_slice(&index).ok()?;
                let files = index.get("weight_map")?.as_object()?.values();
                files
                    .map(|file| file.as_str())
                    .all(|file| file.is_some_and(|file| folder.join(file).is_file()))
            }
            None => ["model.safetensors", "pytorch_model.bin"].iter().any(|name| folder.join(name).is_file()),
        };
        is_whole.then_some(folder)
    }

    /// Takes the lock that huggingface_hub takes for the same blob; it ends with the file.
    ///
    /// # Errors
    /// Another process holds it, or it cannot be made.
    pub fn lock(&self, oid: &Oid) -> Result<File, FetchError> {
        lock(&self.locks.join(format!("{}.lock", oid.name())))
    }

    /// Deletes a file's bytes and its link in the folder of a commit.
    ///
    /// # Errors
    /// They cannot be deleted.
    pub fn delete(&self, commit: &str, file: &HubFile) -> Result<(), FetchError> {
        for path in [self.pointer(commit, file), self.blob(&file.oid)] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(FetchError::io(&path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Takes an exclusive lock on a file, which is made where it is missing.
///
/// # Errors
/// Another process holds it, or it cannot be made.
pub(crate) fn lock(path: &Path) -> Result<File, FetchError> {
    let parent = path.parent().expect("a lock lies in a folder");
    fs::create_dir_all(parent).map_err(FetchError::io(parent))?;
    let file = File::options().create(true).append(true).open(path).map_err(FetchError::io(path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(FetchError::Locked { path: path.to_owned() }),
        Err(fs::TryLockError::Error(error)) => Err(FetchError::io(path)(error)),
    }
}
