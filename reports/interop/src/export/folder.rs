//! The folder that an export writes.

use std::path::{Path, PathBuf};

use paravt_files::{make_dir, write_atomic};
use serde_json::Value;

use super::{ExportError, Exported};

/// Files below one folder, each written once.
pub(super) struct Folder {
    dir: PathBuf,
    pub(super) exported: Exported,
}

impl Folder {
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), exported: Exported::default() }
    }

    /// Path of a file or folder within it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Writes a file whose name is a relative path.
    ///
    /// # Errors
    /// It was written before, or cannot be written.
    pub(super) fn put(&mut self, name: &str, content: &[u8]) -> Result<(), ExportError> {
        let path = self.path(name);
        if self.exported.files.contains(&path) {
            return Err(ExportError::Twice { path });
        }
        let written = self.make_dirs(name).and_then(|()| write_atomic(&path, content));
        written.map_err(|source| ExportError::Io { path: path.clone(), source })?;
        self.exported.files.push(path);
        Ok(())
    }

    /// Makes the folder and those of a name within it. The folder itself may be a link; one below it is replaced.
    fn make_dirs(&self, name: &str) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.dir)?;
        let parts: Vec<&str> = name.split('/').collect();
        (1..parts.len()).try_for_each(|depth| make_dir(&self.path(&parts[..depth].join("/"))))
    }

    /// Writes an indented JSON file.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub(super) fn put_json(&mut self, name: &str, value: &Value) -> Result<(), ExportError> {
        self.put(name, format!("{value:#}\n").as_bytes())
    }

    /// Notes what the files lack.
    pub(super) fn note(&mut self, note: String) {
        self.exported.notes.push(note);
    }
}

/// One JSON value per line.
pub(super) fn lines(values: impl IntoIterator<Item = Value>) -> Vec<u8> {
    values.into_iter().flat_map(|value| format!("{value}\n").into_bytes()).collect()
}
