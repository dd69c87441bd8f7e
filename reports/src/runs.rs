//! Finds and reads run directories.

mod check;
mod digest;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use paravt_suite::journal::{self, JournalError};
use paravt_suite::printable::printable_line;
use paravt_suite::record::Record;
use paravt_suite::run::Manifest;
use paravt_suite::summary::{self, Summary, SummaryError, summarize};
use rayon::prelude::*;

use crate::frame::Frame;
use crate::labels::name_runs;
use crate::paper::PaperError;
use crate::rows::samples;
use crate::training::{TRAINING, Training};

pub(crate) use check::check_record;
pub use digest::RunDigest;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// There is no run in a folder.
    #[error("{path}: {}", if .0.exists() { "no run in this folder or below it (a run directory has a manifest.json)" } else { "no such folder" }, path = .0.display())]
    NoRun(PathBuf),
    /// A file of a run directory is a pipe, a device or a folder.
    #[error("{path}: not a regular file; a run directory holds regular files only", path = .0.display())]
    NotAFile(PathBuf),
    /// A record holds what no run of this manifest can have written.
    #[error(
        "{path}: sample `{uid}`: {message}; the run cannot be reported: take the record out of \
         journal.jsonl and run the sample again with --resume",
        path = .path.display()
    )]
    Record { path: PathBuf, uid: String, message: String },
    /// The records of a run do not belong together.
    #[error("{path}: {source}", path = .path.display())]
    Summary { path: PathBuf, source: SummaryError },
    #[error(transparent)]
    Paper(#[from] PaperError),
    /// Two runs without a sample in common.
    #[error("A and B have no samples in common; compare runs of the same task")]
    NothingInCommon,
    /// Two runs of different profiles.
    #[error("{task}: A has profile {a}, B has {b}; compare runs of the same profile")]
    Profiles { task: String, a: String, b: String },
    /// Two runs of one split on one side of a comparison.
    #[error(
        "{side} has two runs of {task}, {} and {}: name one of them",
        .first.display(),
        .second.display()
    )]
    Ambiguous { side: &'static str, task: String, first: PathBuf, second: PathBuf },
}

/// One run and its records.
#[derive(Debug)]
pub struct Run {
    pub path: PathBuf,
    pub manifest: Manifest,
    /// The last record of each sample, by row.
    pub records: Vec<Record>,
    /// Bytes of a torn last line that were left out.
    pub torn_bytes: u64,
    /// Training curves, where the run trained.
    pub training: Training,
}

impl Run {
    /// All numbers of the run.
    ///
    /// # Errors
    /// The records do not belong together.
    pub fn summary(&self) -> Result<Summary, ReportError> {
        let manifest = &self.manifest;
        summarize(&manifest.task, manifest.plan.switches(), &manifest.records_selected(), &self.records)
            .map_err(|source| ReportError::Summary { path: self.path.clone(), source })
    }

    /// Its samples, for pairs with those of other runs.
    pub fn samples(&self) -> Frame {
        samples(self.manifest.plan.switches(), &self.records).frame
    }

    /// Counts the records up.
    ///
    /// # Errors
    /// They do not belong together.
    pub fn count(&self) -> Result<RunDigest, ReportError> {
        let manifest = &self.manifest;
        summary::check(&manifest.task, manifest.expected_records(), &self.records)
            .map_err(|source| ReportError::Summary { path: self.path.clone(), source })?;
        Ok(self.digest())
    }

    /// Reads a run directory.
    ///
    /// # Errors
    /// There is no run, it is damaged, or a record does not belong to it.
    pub fn read(path: PathBuf) -> Result<Self, ReportError> {
        let manifest = manifest(&path)?;
        let contents = journal::read(&path)?;
        check::records(&path, &manifest, &contents.records)?;
        let training = Training::read(&path)?;
        Ok(Self { path, manifest, records: contents.records, torn_bytes: contents.torn_bytes, training })
    }
}

/// The manifest of a run directory whose files are all files, with names that a terminal can show.
fn manifest(path: &Path) -> Result<Manifest, ReportError> {
    for name in [journal::MANIFEST, journal::JOURNAL, TRAINING] {
        // Opening a named pipe would block until there is a writer.
        let file = path.join(name);
        if std::fs::metadata(&file).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(ReportError::NotAFile(file));
        }
    }
    let mut manifest = journal::read_manifest(path)?;
    for name in [&mut manifest.task.name, &mut manifest.task.title, &mut manifest.backend.model] {
        *name = printable_line(name).into_owned();
    }
    manifest.label = manifest.label.map(|label| printable_line(&label).into_owned());
    Ok(manifest)
}

/// Folders below a given one that are searched for runs: a recipe keeps its own in `stages/STAGE/SPLIT`.
const DEPTH: usize = 8;
/// A recipe's folder of results.
const STAGES: &str = "stages";
/// Beside it the shards, which are merged into the results, and what was made again.
const PASSED_OVER: [&str; 2] = ["slurm", "discarded"];

/// The run directories among these folders, or anywhere below them; one that is named twice counts once.
///
/// # Errors
/// A folder without a run.
pub(crate) fn run_directories(paths: &[PathBuf]) -> Result<Vec<PathBuf>, ReportError> {
    let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
    for path in paths {
        let (mut found, mut denied) = (Vec::new(), None);
        search(path, DEPTH, &mut found, &mut denied);
        if found.is_empty() {
            return Err(denied.map_or_else(|| ReportError::NoRun(path.clone()), ReportError::Journal));
        }
        found.retain(|path| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
        all.append(&mut found);
    }
    Ok(all)
}

/// The run directories in a folder, by path. The folders of a run, hidden folders and links to folders that
/// are no run are not searched. `denied` gets the first folder or manifest that is there and cannot be looked into.
fn search(folder: &Path, depth: usize, found: &mut Vec<PathBuf>, denied: &mut Option<JournalError>) {
    let mut cannot = |path: PathBuf, source: std::io::Error| {
        if !matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
            denied.get_or_insert(JournalError::Io { path, action: "cannot search", source });
        }
    };
    match std::fs::metadata(folder.join(journal::MANIFEST)) {
        Ok(manifest) if manifest.is_file() => return found.push(folder.to_owned()),
        Ok(_) => {}
        Err(source) => cannot(folder.to_owned(), source),
    }
    let Some(depth) = depth.checked_sub(1) else { return };
    let entries = std::fs::read_dir(folder).map_err(|source| cannot(folder.to_owned(), source));
    let mut entries: Vec<_> = entries.into_iter().flatten().flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    let is_recipe = entries.iter().any(|entry| entry.file_name() == STAGES);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        let is_searched = entry.file_type().is_ok_and(|kind| kind.is_dir())
            && !name.as_encoded_bytes().starts_with(b".")
            && !(is_recipe && PASSED_OVER.iter().any(|passed| name == *passed));
        if is_searched || is_run(&path) {
            search(&path, depth, found, denied);
        }
    }
}

/// Whether a folder, or one below it, is a run.
pub fn has_run(folder: &Path) -> bool {
    run_directories(&[folder.to_owned()]).is_ok()
}

/// The runs in these folders, or in the folders below them, called by what differs between them ([`name_runs`]).
///
/// # Errors
/// A folder without a run, or a damaged one.
pub fn find_runs(paths: &[PathBuf]) -> Result<Vec<Run>, ReportError> {
    let mut runs: Vec<Run> =
        run_directories(paths)?.into_par_iter().map(Run::read).collect::<Result<_, _>>()?;
    name_runs(runs.iter_mut().map(|run| (run.path.clone(), &mut run.manifest)));
    Ok(runs)
}

/// As [`find_runs`], counted up: no record is kept.
///
/// # Errors
/// A folder without a run, or a damaged one.
pub fn count_runs(paths: &[PathBuf]) -> Result<Vec<RunDigest>, ReportError> {
    let counted = on_all_cores(&run_directories(paths)?, |path| RunDigest::read(path.clone()));
    let mut counted: Vec<RunDigest> = counted.into_iter().collect::<Result<_, _>>()?;
    name_runs(counted.iter_mut().map(|run| (run.path.clone(), &mut run.manifest)));
    Ok(counted)
}

/// As [`find_runs`], without the runs that cannot be read.
///
/// # Errors
/// A folder without a run, or no run that can be read.
pub fn readable_runs(paths: &[PathBuf]) -> Result<(Vec<Run>, Vec<Damaged>), ReportError> {
    let (mut runs, damaged) = readable(paths, Run::read)?;
    name_runs(runs.iter_mut().map(|run| (run.path.clone(), &mut run.manifest)));
    Ok((runs, damaged))
}

/// What `read` makes of each run directory, and those of which it makes nothing; one damaged run hides no other.
///
/// # Errors
/// A folder without a run, or no run that can be read.
pub(crate) fn readable<T: Send>(
    paths: &[PathBuf],
    read: impl Fn(PathBuf) -> Result<T, ReportError> + Sync,
) -> Result<(Vec<T>, Vec<Damaged>), ReportError> {
    let folders = run_directories(paths)?;
    let tried = on_all_cores(&folders, |path| read(path.clone()));
    let (mut found, mut damaged, mut first) = (Vec::new(), Vec::new(), None);
    for (path, result) in folders.iter().zip(tried) {
        match result {
            Ok(run) => found.push(run),
            Err(error) => {
                damaged.push(Damaged { run: name(path), why: error.to_string() });
                first = first.or(Some(error));
            }
        }
    }
    match first {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok((found, damaged)),
    }
}

/// What `work` makes of each item, in their order. By threads of their own: a worker of rayon that waits for polars would
/// take the next run meanwhile, and all runs would be in memory at once.
pub(crate) fn on_all_cores<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let items = numbers.map_while(|number| Some((number, items.get(number)?)));
        items.map(|(number, item)| (number, work(item))).collect::<Vec<_>>()
    };
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let threads = items.len().min(rayon::current_num_threads());
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.flat_map(|done| done.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, done)| done).collect()
}

/// A run that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Damaged {
    /// Its stage and split: a report names no path of a machine.
    pub run: String,
    /// The error, with its path and what to do.
    #[serde(skip)]
    pub why: String,
}

/// The last two parts of a run's path.
fn name(path: &Path) -> String {
    let parts: Vec<_> = path.components().rev().take(2).collect();
    let parts: Vec<_> = parts.iter().rev().map(|part| part.as_os_str().to_string_lossy()).collect();
    printable_line(&parts.join("/")).into_owned()
}

fn is_run(path: &Path) -> bool {
    path.join(journal::MANIFEST).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_at_any_depth_and_a_run_is_not_searched() {
        let dir = tempfile::tempdir().unwrap();
        let run = |name: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join(journal::MANIFEST), "{}").unwrap();
            path
        };
        let nested = [run("nano/stages/no-tool-1/mlvu"), run("nano/stages/with-tool-2/mlvu")];
        run("nano/slurm/shard-1/stages/no-tool-1/mlvu");
        run("nano/discarded/no-tool-1.1/mlvu");
        run("nano/.cache/mlvu");
        let plain = run("plain/mlvu");
        run("plain/mlvu/old");
        let slurm = run("slurm/mlvu");
        for (link, to) in [("nano/loop", dir.path()), ("plain/same", plain.as_path())] {
            std::os::unix::fs::symlink(to, dir.path().join(link)).unwrap();
        }
        let found = |name: &str| run_directories(&[dir.path().join(name)]).unwrap();
        assert_eq!(found("nano"), nested);
        assert_eq!(found("nano/stages"), nested);
        assert_eq!(found("plain"), [plain.as_path()]);
        let all = [nested.to_vec(), vec![plain, slurm]].concat();
        assert_eq!(found(""), all.iter().map(|path| path.as_path()).collect::<Vec<_>>());
        let deep = "1/2/3/4/5/6/7/8/9";
        run(deep);
        assert!(matches!(run_directories(&[dir.path().join("1")]).as_deref(), Ok([_])));
        // A folder that cannot be looked into is not one that is not there. Root may look into the first.
        let [locked, circle] = ["locked", "circle"].map(|name| dir.path().join("closed").join(name));
        std::fs::create_dir_all(&locked).unwrap();
        std::fs::set_permissions(&locked, std::os::unix::fs::PermissionsExt::from_mode(0o0)).unwrap();
        std::os::unix::fs::symlink(&circle, &circle).unwrap();
        for (path, words) in [(&locked, "ermission denied"), (&circle, "symbolic links")] {
            let error = run_directories(std::slice::from_ref(path)).unwrap_err().to_string();
            let is_root = path == &locked && std::fs::read_dir(&locked).is_ok();
            assert!(is_root || (error.contains(words) && error.contains("cannot search")), "{error}");
        }
        assert!(matches!(
            run_directories(&[dir.path().join("nano/slurm/shard-1/none")]),
            Err(ReportError::NoRun(_))
        ));
    }
}
