//! The journal: one append-only JSON line per finished sample, on disk before it counts.
//!
//! Resuming reads what is there, cuts a torn last line off, and goes on. A sample that is run
//! again (after an API failure) appends a second record; the last one of a sample counts.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use crate::record::Record;
use crate::run::Manifest;

/// File names inside a run directory.
pub const JOURNAL: &str = "journal.jsonl";
/// The manifest's file name.
pub const MANIFEST: &str = "manifest.json";
/// The protocol's file name.
pub const PROTOCOL: &str = "protocol.json";
/// The derived summary's file name.
pub const SUMMARY: &str = "summary.json";
const LOCK: &str = ".lock";

/// What can go wrong with a run directory.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process writes this run.
    #[error("{dir}: another process is writing this run; wait for it or choose another directory", dir = .dir.display())]
    Locked {
        /// The run directory.
        dir: PathBuf,
    },
    /// The directory already holds a run.
    #[error("{dir}: there already is a run; continue it with --resume or choose another --out", dir = .dir.display())]
    Exists {
        /// The run directory.
        dir: PathBuf,
    },
    /// The directory holds no run.
    #[error("{dir}: no run here ({missing} is missing)", dir = .dir.display())]
    NoRun {
        /// The run directory.
        dir: PathBuf,
        /// Which file is missing.
        missing: &'static str,
    },
    /// The run in the directory is another one than asked for.
    #[error("{dir}: this run was started differently and cannot be resumed: {differences}", dir = .dir.display())]
    Differs {
        /// The run directory.
        dir: PathBuf,
        /// What differs.
        differences: String,
    },
    /// A line other than the last cannot be read.
    #[error("{path}:{line}: the journal is damaged: {message}; keep a copy, remove the line, and resume to redo the sample", path = .path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// One-based line.
        line: usize,
        /// Why.
        message: String,
    },
    /// Reading or writing failed.
    #[error("{path}: {action}: {source}{hint}", path = .path.display(), hint = disk_full_hint(.source))]
    Io {
        /// The file.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
}

fn disk_full_hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            "; the disk is full: every finished sample is safe, free some space and run again with --resume"
        }
        _ => "",
    }
}

/// What a journal holds.
#[derive(Debug, Default)]
pub struct Contents {
    /// The last record of each sample, by row.
    pub records: Vec<Record>,
    /// Length of the readable part in bytes.
    pub good_bytes: u64,
    /// Bytes of a torn last line, if any.
    pub torn_bytes: u64,
}

/// Reads the journal of a run directory; no journal is an empty one.
///
/// # Errors
/// A damaged line that is not the last one; I/O.
pub fn read(dir: &Path) -> Result<Contents, JournalError> {
    let path = dir.join(JOURNAL);
    let io = |source| JournalError::Io { path: path.clone(), action: "cannot read", source };
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Contents::default()),
        Err(error) => return Err(io(error)),
    };
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut by_uid: HashMap<String, Record> = HashMap::new();
    let mut contents = Contents::default();
    let mut line = Vec::new();
    let mut number = 0;
    let mut bad: Option<(usize, String)> = None;
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line).map_err(io)?;
        if length == 0 {
            break;
        }
        number += 1;
        if let Some((line, message)) = bad {
            return Err(JournalError::Damaged { path, line, message });
        }
        let parsed = if line.last() == Some(&b'\n') {
            serde_json::from_slice::<Record>(&line).map_err(|error| error.to_string())
        } else {
            Err("the line has no end".to_owned())
        };
        match parsed {
            Ok(record) => {
                contents.good_bytes += length as u64;
                by_uid.insert(record.sample.uid.clone(), record);
            }
            Err(message) => {
                contents.torn_bytes = length as u64;
                bad = Some((number, message));
            }
        }
    }
    contents.records = by_uid.into_values().collect();
    contents.records.sort_by(|a, b| (a.sample.row, &a.sample.uid).cmp(&(b.sample.row, &b.sample.uid)));
    Ok(contents)
}

/// Reads the manifest of a run directory.
///
/// # Errors
/// There is none, or it is not readable.
pub fn read_manifest(dir: &Path) -> Result<Manifest, JournalError> {
    let path = dir.join(MANIFEST);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(JournalError::NoRun { dir: dir.to_owned(), missing: MANIFEST });
        }
        Err(source) => return Err(JournalError::Io { path, action: "cannot read", source }),
    };
    serde_json::from_slice(&bytes).map_err(|error| JournalError::Damaged {
        path,
        line: error.line(),
        message: error.to_string(),
    })
}

/// Writes a file so that it is there whole or not at all, also after a power cut.
///
/// # Errors
/// I/O.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), JournalError> {
    let io = |action| move |source| JournalError::Io { path: path.to_owned(), action, source };
    let temporary = path.with_extension(format!("tmp{}", std::process::id()));
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    if let Err(error) = written {
        let _ = std::fs::remove_file(&temporary);
        return Err(io("cannot write")(error));
    }
    std::fs::rename(&temporary, path).map_err(io("cannot replace"))?;
    if let Some(parent) = path.parent() {
        // The rename itself must survive, too; a file system that cannot sync a folder is not worth failing for.
        let _ = File::open(parent).and_then(|folder| folder.sync_all());
    }
    Ok(())
}

/// The one writer of a run.
#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    file: File,
    length: u64,
    _lock: File,
}

impl Journal {
    /// Starts a new run: makes the directory, takes its lock and writes the manifest.
    ///
    /// # Errors
    /// The directory holds a run already, is locked, or cannot be written.
    pub fn create(dir: &Path, manifest: &Manifest) -> Result<Self, JournalError> {
        let journal = Self::lock(dir)?;
        if dir.join(MANIFEST).exists() {
            return Err(JournalError::Exists { dir: dir.to_owned() });
        }
        journal.write_manifest(manifest)?;
        Ok(journal)
    }

    /// Continues a run: checks that it is the same one, cuts a torn last line off and returns what is there.
    ///
    /// # Errors
    /// No run, another run, a locked one, or a damaged journal.
    pub fn resume(dir: &Path, wanted: &Manifest) -> Result<(Self, Manifest, Contents), JournalError> {
        if !dir.join(MANIFEST).exists() {
            return Err(JournalError::NoRun { dir: dir.to_owned(), missing: MANIFEST });
        }
        let mut journal = Self::lock(dir)?;
        let manifest = read_manifest(dir)?;
        let differences = manifest.differences(wanted);
        if !differences.is_empty() {
            return Err(JournalError::Differs { dir: dir.to_owned(), differences: differences.join("; ") });
        }
        let contents = read(dir)?;
        if contents.torn_bytes > 0 {
            journal.cut(contents.good_bytes)?;
        }
        Ok((journal, manifest, contents))
    }

    fn lock(dir: &Path) -> Result<Self, JournalError> {
        let io = |path: PathBuf, action| move |source| JournalError::Io { path, action, source };
        std::fs::create_dir_all(dir).map_err(io(dir.to_owned(), "cannot make the run directory"))?;
        let path = dir.join(LOCK);
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(io(path.clone(), "cannot open the lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(JournalError::Locked { dir: dir.to_owned() });
            }
            Err(std::fs::TryLockError::Error(source)) => {
                return Err(JournalError::Io { path, action: "cannot lock", source });
            }
        }
        let path = dir.join(JOURNAL);
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(io(path.clone(), "cannot open"))?;
        let length = file.metadata().map_err(io(path, "cannot read the length of"))?.len();
        Ok(Self { dir: dir.to_owned(), file, length, _lock: lock })
    }

    /// Writes the manifest.
    ///
    /// # Errors
    /// I/O.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<(), JournalError> {
        let bytes = to_pretty_json(manifest);
        write_atomic(&self.dir.join(MANIFEST), &bytes)
    }

    /// Appends records and waits until they are on disk. All of them or none.
    ///
    /// # Errors
    /// I/O; the journal then is as before the call.
    pub fn append(&mut self, records: &[Record]) -> Result<(), JournalError> {
        let mut bytes = Vec::new();
        for record in records {
            serde_json::to_writer(&mut bytes, record).map_err(|error| JournalError::Io {
                path: self.dir.join(JOURNAL),
                action: "cannot write a record",
                source: error.into(),
            })?;
            bytes.push(b'\n');
        }
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_data());
        if let Err(source) = written {
            // Leave no torn line behind where that is possible; resuming would cut it off anyway.
            let _ = self.cut(self.length);
            return Err(JournalError::Io { path: self.dir.join(JOURNAL), action: "cannot append", source });
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn cut(&mut self, length: u64) -> Result<(), JournalError> {
        self.file.set_len(length).and_then(|()| self.file.sync_data()).map_err(|source| {
            JournalError::Io { path: self.dir.join(JOURNAL), action: "cannot cut off a torn line of", source }
        })?;
        self.length = length;
        Ok(())
    }

    /// The run directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Pretty JSON with a final newline, for files that people read.
pub fn to_pretty_json<T: serde::Serialize>(value: &T) -> Vec<u8> {
    // Our own types have string keys and no failing serializers; an empty object would be visible at once.
    let mut bytes = serde_json::to_vec_pretty(value).unwrap_or_else(|_| b"{}".to_vec());
    bytes.push(b'\n');
    bytes
}
