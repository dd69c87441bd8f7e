//! The one writer of a run directory: lock, atomic files, appended records.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use paravt_files::{Lock, write_atomic};

use super::{Contents, IoContext as _, JOURNAL, JournalError, LOCK, MANIFEST, PROTOCOL, SUMMARY, read_run};
use crate::record::{Measured, Record};
use crate::run::{Manifest, RUN_VERSION};
use crate::summary::Summary;
use crate::text::to_pretty_json;

/// Refuses to continue a run as another one; its selection may grow.
///
/// # Errors
/// Differing settings, in words.
pub(crate) fn same_run(dir: &Path, stored: &Manifest, wanted: &Manifest) -> Result<(), JournalError> {
    let differences = stored.obstacles(wanted);
    if differences.is_empty() {
        return Ok(());
    }
    Err(JournalError::Differs { dir: dir.to_owned(), differences: differences.join("; ") })
}

/// Writes the derived summary of a run.
pub fn write_summary(dir: &Path, summary: &Summary) -> Result<(), JournalError> {
    #[derive(serde::Serialize)]
    struct Versioned<'a> {
        version: u32,
        #[serde(flatten)]
        summary: &'a Summary,
    }
    write_file(&dir.join(SUMMARY), &to_pretty_json(&Versioned { version: RUN_VERSION, summary }))
}

/// Writes a file of a run directory so that it is there whole or not at all, also after a power cut.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), JournalError> {
    write_atomic(path, bytes).at(path, "cannot write")
}

/// A run directory whose lock is held; nothing of it was changed yet.
#[derive(Debug)]
pub struct RunDir {
    dir: PathBuf,
    /// `None` once the journal has it.
    lock: Option<Lock>,
    /// Folders that were made for it, the innermost first.
    made: Vec<PathBuf>,
}

impl Drop for RunDir {
    /// A start that failed leaves nothing behind: the lock and the folders made for it go.
    fn drop(&mut self) {
        let is_alone = |dir: &Path| std::fs::read_dir(dir).is_ok_and(|entries| entries.count() == 1);
        if self.lock.is_some() && !self.made.is_empty() && is_alone(&self.dir) {
            let removed = std::fs::remove_file(self.dir.join(LOCK));
            // A folder that another program has put something into stays.
            let _ = removed.and_then(|()| self.made.iter().try_for_each(std::fs::remove_dir));
        }
    }
}

impl RunDir {
    /// Makes the directory and takes its lock.
    ///
    /// # Errors
    /// Another process holds the lock; I/O.
    pub fn lock(dir: &Path) -> Result<Self, JournalError> {
        let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let made = dir.ancestors().take_while(is_missing).map(Path::to_owned).collect();
        std::fs::create_dir_all(dir).at(dir, "cannot make the run directory")?;
        let path = dir.join(LOCK);
        let Some(lock) = Lock::take(&path, Duration::ZERO).at(&path, "cannot lock")? else {
            return Err(JournalError::Locked { dir: dir.to_owned() });
        };
        Ok(Self { dir: dir.to_owned(), lock: Some(lock), made })
    }

    /// Whether a run was started here.
    ///
    /// # Errors
    /// There are files of a run without its manifest: nobody knows which run they are of.
    pub(crate) fn has_run(&self) -> Result<bool, JournalError> {
        if self.dir.join(MANIFEST).exists() {
            return Ok(true);
        }
        let has_bytes = |name: &&str| self.dir.join(name).metadata().is_ok_and(|found| found.len() > 0);
        match [JOURNAL, SUMMARY, PROTOCOL].into_iter().find(has_bytes) {
            Some(file) => Err(JournalError::Orphan { dir: self.dir.clone(), file }),
            None => Ok(false),
        }
    }

    /// The run that was started here.
    ///
    /// # Errors
    /// No run, a damaged one, one of a newer version.
    pub fn stored(&self) -> Result<(Manifest, Contents), JournalError> {
        read_run(&self.dir)
    }

    /// Starts a new run: writes the manifest.
    ///
    /// # Errors
    /// The directory holds a run already, or a part of one, or cannot be written.
    pub fn create(self, manifest: &Manifest) -> Result<Journal, JournalError> {
        if self.has_run()? {
            return Err(JournalError::Exists { dir: self.dir.clone() });
        }
        let id = format!("{:016x}", RandomState::new().hash_one(&manifest.task.name));
        let journal = self.open(Some(id))?;
        journal.write_manifest(manifest)?;
        Ok(journal)
    }

    /// Continues the run of which manifest and `contents` were read: cuts a torn last line off.
    pub fn resume(self, manifest: &Manifest, contents: &Contents) -> Result<Journal, JournalError> {
        let mut journal = self.open(manifest.id.clone())?;
        if contents.torn_bytes > 0 {
            journal.cut(contents.good_bytes)?;
        }
        Ok(journal)
    }

    fn open(mut self, id: Option<String>) -> Result<Journal, JournalError> {
        let path = self.dir.join(JOURNAL);
        // Records are not appended to a file of somebody else, and a pipe would wait for a reader.
        let is_link = path.is_symlink() && (path.is_file() || !path.exists());
        if is_link || path.metadata().is_ok_and(|found| found.file_type().is_fifo()) {
            let what = if is_link { "a link, not a regular file" } else { "a pipe, not a regular file" };
            let refused = std::io::Error::new(std::io::ErrorKind::InvalidInput, what);
            return Err(refused).at(&path, "cannot open");
        }
        let file = OpenOptions::new().create(true).append(true).open(&path).at(&path, "cannot open")?;
        let length = file.metadata().at(&path, "cannot read the length of")?.len();
        let lock = self.lock.take();
        Ok(Journal { dir: self.dir.clone(), id, file, length, _lock: lock })
    }
}

/// The one writer of a run.
#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    /// Ties its records to its manifest.
    id: Option<String>,
    file: File,
    length: u64,
    _lock: Option<Lock>,
}

impl Journal {
    /// Starts a new run in a directory.
    pub fn create(dir: &Path, manifest: &Manifest) -> Result<Self, JournalError> {
        RunDir::lock(dir)?.create(manifest)
    }

    /// Continues a run: checks that it is the same one, cuts a torn last line off and returns what is there.
    ///
    /// # Errors
    /// No run, another run, a locked one, or a damaged journal.
    pub fn resume(dir: &Path, wanted: &Manifest) -> Result<(Self, Manifest, Contents), JournalError> {
        if !dir.join(MANIFEST).exists() {
            return Err(JournalError::NoRun { dir: dir.to_owned(), missing: MANIFEST });
        }
        let locked = RunDir::lock(dir)?;
        let (manifest, contents) = locked.stored()?;
        same_run(dir, &manifest, wanted)?;
        Ok((locked.resume(&manifest, &contents)?, manifest, contents))
    }

    /// Writes the manifest.
    ///
    /// # Errors
    /// The directory was moved away; I/O.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<(), JournalError> {
        self.check_in_place()?;
        let manifest = Manifest { id: self.id.clone(), ..manifest.clone() };
        write_file(&self.dir.join(MANIFEST), &to_pretty_json(&manifest))
    }

    /// Refuses to go on where another folder, perhaps with another run, has the run's name by now.
    ///
    /// # Errors
    /// The directory was moved away.
    pub(crate) fn check_in_place(&self) -> Result<(), JournalError> {
        let file = |found: std::fs::Metadata| (found.dev(), found.ino());
        let named = std::fs::metadata(self.dir.join(JOURNAL)).map(file);
        match (named, self.file.metadata().map(file)) {
            (Ok(named), Ok(ours)) if named == ours => Ok(()),
            _ => Err(JournalError::Moved { dir: self.dir.clone() }),
        }
    }

    /// Appends records and waits until they are on disk. All of them or none.
    ///
    /// # Errors
    /// The directory was moved away; I/O; the journal then is as before the call.
    pub fn append(&mut self, records: &[Record]) -> Result<(), JournalError> {
        self.check_in_place()?;
        let mut bytes = Vec::new();
        for record in records {
            let measured = Measured { run: self.id.clone(), ..record.measured.clone() };
            let record = Record { measured, ..record.clone() };
            serde_json::to_writer(&mut bytes, &record).map_err(|error| JournalError::Io {
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
            return Err(source).at(&self.dir.join(JOURNAL), "cannot append");
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn cut(&mut self, length: u64) -> Result<(), JournalError> {
        let cut = self.file.set_len(length).and_then(|()| self.file.sync_data());
        cut.at(&self.dir.join(JOURNAL), "cannot cut off a torn line of")?;
        self.length = length;
        Ok(())
    }

    /// The run directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}
