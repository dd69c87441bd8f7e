//! The folder that an export writes.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use paravt_files::{make_dir, write_atomic_by};
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
        self.put_by(name, |out| Ok(out.write_all(content)?))
    }

    /// As [`put`](Self::put), one JSON value per line.
    pub(super) fn put_lines(
        &mut self,
        name: &str,
        mut values: impl Iterator<Item = Value>,
    ) -> Result<(), ExportError> {
        self.put_by(name, |out| Ok(values.try_for_each(|value| writeln!(out, "{value}"))?))
    }

    /// As [`put`](Self::put), of a file that `write` writes piece by piece: a long run has files that memory does not hold.
    pub(super) fn put_by(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut BufWriter<&mut File>) -> Result<(), Failure>,
    ) -> Result<(), ExportError> {
        let path = self.path(name);
        if self.exported.files.contains(&path) {
            return Err(ExportError::Twice { path });
        }
        let written = self.make_dirs(name).map_err(Failure::from).and_then(|()| {
            write_atomic_by(&path, |file| {
                let mut out = BufWriter::new(file);
                write(&mut out)?;
                Ok(out.flush()?)
            })
        });
        written.map_err(|failure| match failure {
            Failure::Io(source) => ExportError::Io { path: path.clone(), source },
            Failure::Other(error) => error,
        })?;
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
    pub(super) fn put_json(&mut self, name: &str, value: &Value) -> Result<(), ExportError> {
        self.put(name, format!("{value:#}\n").as_bytes())
    }

    /// Notes what the files lack.
    pub(super) fn note(&mut self, note: String) {
        self.exported.notes.push(note);
    }
}

/// Why a file is not written.
pub(super) enum Failure {
    /// Of the file itself.
    Io(io::Error),
    /// Of what is written into it.
    Other(ExportError),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        Self::Other(error)
    }
}
