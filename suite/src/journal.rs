//! The journal: one append-only JSON line per finished sample, on disk before it counts.
//!
//! Resuming reads what is there, cuts a torn last line off, and continues. Torn is a line without its
//! line end; a complete line is never cut off, whatever it holds. A sample that is run again (after
//! a failure) appends a second record; the last one of a sample and epoch counts.

mod stored;
mod writer;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::format::{self, VersionError};
use crate::record::{RECORD_VERSION, Record};
use crate::run::{Manifest, RUN_VERSION};

pub use stored::Stored;
pub(crate) use writer::same_run;
pub(crate) use writer::write_file;
pub use writer::{Journal, RunDir, write_summary};

/// File names inside a run directory.
pub const JOURNAL: &str = "journal.jsonl";
/// The manifest's file name.
pub const MANIFEST: &str = "manifest.json";
/// The protocol's file name.
pub const PROTOCOL: &str = "protocol.json";
/// The derived summary's file name.
pub const SUMMARY: &str = "summary.json";
const LOCK: &str = ".lock";

/// Errors of run directories.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process writes this run.
    #[error("{dir}: another process is writing this run; wait for it or choose another directory", dir = .dir.display())]
    Locked { dir: PathBuf },
    /// The directory already holds a run, which nobody asked to continue.
    #[error("{dir}: already holds a run; continue it with --resume or choose another --out", dir = .dir.display())]
    NotResumed { dir: PathBuf },
    /// The directory already holds a run, where a new one is to be.
    #[error("{dir}: already holds a run; choose another --out", dir = .dir.display())]
    Exists { dir: PathBuf },
    /// The directory holds files of a run that cannot be known.
    #[error("{dir}: holds {file} of a run whose manifest.json is missing, and would mix it with another run; restore manifest.json from a copy, move the folder away, or choose another --out", dir = .dir.display())]
    Orphan { dir: PathBuf, file: &'static str },
    /// The directory is not the one in which the run began.
    #[error("{dir}: was moved, removed or replaced while a run was writing into it; the samples since then are not recorded: move it back and continue with --resume, or choose another --out", dir = .dir.display())]
    Moved { dir: PathBuf },
    /// The directory holds no run.
    #[error("{dir}: not a run directory ({missing} is missing)", dir = .dir.display())]
    NoRun { dir: PathBuf, missing: &'static str },
    /// The run in the directory is another one than asked for.
    #[error("{dir}: cannot be resumed with other settings: {differences}; repeat the first command with --resume, or choose another --out", dir = .dir.display())]
    Differs { dir: PathBuf, differences: String },
    /// A complete line cannot be read.
    #[error("{path}:{line}: damaged record: {message}; keep a copy of the file, remove the line, and redo the sample with --resume", path = .path.display())]
    Damaged { path: PathBuf, line: usize, message: String },
    /// A record that the run of the manifest cannot have written.
    #[error("{path}: record of sample {uid} does not belong to this run: {message}; keep a copy of the file, remove the line, and redo the sample with --resume", path = .path.display())]
    Foreign { path: PathBuf, uid: String, message: String },
    /// The manifest cannot be read.
    #[error("{path}: damaged: {message}; restore it from a copy, or start again in another --out", path = .path.display())]
    BadManifest { path: PathBuf, message: String },
    /// Another version of the program wrote the file.
    #[error("{path}: {source}", path = .path.display())]
    Version { path: PathBuf, source: VersionError },
    /// Reading or writing failed.
    #[error("{path}: {action}: {source}{hint}", path = .path.display(), hint = disk_full_hint(.source))]
    Io { path: PathBuf, action: &'static str, source: std::io::Error },
}

/// Says which file of a run directory an error of the system is about.
trait IoContext<T> {
    fn at(self, path: &Path, action: &'static str) -> Result<T, JournalError>;
}

impl<T> IoContext<T> for std::io::Result<T> {
    fn at(self, path: &Path, action: &'static str) -> Result<T, JournalError> {
        self.map_err(|source| JournalError::Io { path: path.to_owned(), action, source })
    }
}

fn disk_full_hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            "; the disk is full: free some space; every finished sample is safe"
        }
        _ => "",
    }
}

/// Records of a journal, and the length of a torn last line.
#[derive(Debug, Default)]
pub struct Contents {
    /// The last record of each sample and epoch, by row.
    pub records: Vec<Record>,
    /// Length of the readable part in bytes.
    pub good_bytes: u64,
    /// Bytes of a torn last line, if any.
    pub torn_bytes: u64,
}

/// Reads the journal of a run directory; no journal is an empty one.
///
/// # Errors
/// A damaged line, a record of a newer version, I/O.
pub fn read(dir: &Path) -> Result<Contents, JournalError> {
    let stored = Stored::find(dir)?;
    let (good_bytes, torn_bytes) = (stored.good_bytes, stored.torn_bytes);
    let mut records = Vec::with_capacity(stored.len());
    stored.each(|part| records.extend(part))?;
    Ok(Contents { records, good_bytes, torn_bytes })
}

/// Puts records into the order of their rows.
pub(crate) fn sort_by_row(records: &mut [Record]) {
    records.sort_by(|a, b| (a.sample.row, a.key()).cmp(&(b.sample.row, b.key())));
}

/// Reads manifest and journal of a run directory and checks that they belong together.
///
/// # Errors
/// As of [`read_manifest`] and [`read`]; a record of another split, profile or protocol, or with a score
/// that is not between 0 and 1.
pub fn read_run(dir: &Path) -> Result<(Manifest, Contents), JournalError> {
    let manifest = read_manifest(dir)?;
    let contents = read(dir)?;
    for record in &contents.records {
        check_owner(&manifest, record).map_err(|message| JournalError::Foreign {
            path: dir.join(JOURNAL),
            uid: record.sample.uid.clone(),
            message,
        })?;
    }
    Ok((manifest, contents))
}

/// Checks that the run of a manifest can have written a record.
///
/// # Errors
/// It is of another run, split, profile, protocol or number of repetitions, or its score is not between 0 and 1.
pub fn check_owner(manifest: &Manifest, record: &Record) -> Result<(), String> {
    let plan = &manifest.plan;
    Err(if record.protocol != manifest.protocol_hash {
        let (found, name, wanted) = (&record.protocol, &manifest.protocol, &manifest.protocol_hash);
        format!("recorded under protocol {found}, the run is of {name} ({wanted})")
    } else if record.profile != plan.profile() {
        format!("recorded under profile {}, the run is of {}", record.profile, plan.profile())
    } else if record.sample.task != manifest.task.name {
        format!("it belongs to split {}, the run to {}", record.sample.task, manifest.task.name)
    } else if record.epoch >= plan.repeat {
        format!("it is epoch {}, counted from 0, of a run with {}", record.epoch, plan.repeat)
    } else if manifest.id.as_ref().is_some_and(|id| record.measured.run.as_ref() != Some(id)) {
        "another run recorded it: manifest.json and journal.jsonl are of two runs".to_owned()
    } else if !(0.0..=1.0).contains(&record.score.value) {
        format!("score {} is not between 0 and 1", record.score.value)
    } else {
        return Ok(());
    })
}

/// Opens a file for reading, `None` where there is none. What is not a file (a pipe would wait for ever)
/// is refused.
fn open_regular(path: &Path) -> Result<Option<File>, JournalError> {
    let opened = match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(std::io::Error::other("not a regular file")),
        Ok(_) => File::open(path).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    opened.at(path, "cannot read")
}

/// The record of a complete line. A line of a newer version may have any shape: its version is looked at
/// before it is called damaged.
fn parse_record(line: &[u8], path: &Path, number: usize) -> Result<Record, JournalError> {
    let parsed = serde_json::from_slice::<Record>(line);
    let version = parsed.as_ref().ok().map(|record| u64::from(record.version));
    if let Some(version) = version.or_else(|| format::version_of(line)) {
        format::check(version, RECORD_VERSION)
            .map_err(|source| JournalError::Version { path: path.to_owned(), source })?;
    }
    parsed.map_err(|error| JournalError::Damaged {
        path: path.to_owned(),
        line: number,
        message: error.to_string(),
    })
}

/// Reads the manifest of a run directory.
///
/// # Errors
/// There is none, it is of a newer version, or it is damaged.
pub fn read_manifest(dir: &Path) -> Result<Manifest, JournalError> {
    let path = dir.join(MANIFEST);
    let mut file =
        open_regular(&path)?.ok_or_else(|| JournalError::NoRun { dir: dir.to_owned(), missing: MANIFEST })?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).at(&path, "cannot read")?;
    if let Some(version) = format::version_of(&bytes) {
        format::check(version, RUN_VERSION)
            .map_err(|source| JournalError::Version { path: path.clone(), source })?;
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| JournalError::BadManifest { path, message: error.to_string() })
}
