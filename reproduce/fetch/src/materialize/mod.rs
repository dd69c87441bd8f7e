//! Training rows whose media have absolute paths, as the release's materialize step makes them (ParaVT
//! cf55249 paravt/data/materialize.py), and whether those media are there and open.
//!
//! The release writes `file://` addresses; its own SFT loader puts `file://` in front again and then drops
//! every row with media, so paths are plain unless [`PathForm::Uri`] is asked for.

mod columns;
mod paths;
mod rows;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;

use crate::error::FetchError;
use paths::Paths;

/// Name of the report in the folder of the rows.
const REPORT: &str = "materialize.json";

/// What a row refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Media {
    Video,
    Image,
}

/// How a path is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PathForm {
    /// `ROOT/longvt_source/a.mp4`
    #[default]
    Plain,
    /// `file://ROOT/longvt_source/a.mp4`, as the release does.
    Uri,
}

/// Opens a medium and says what is wrong with it.
pub type Probe<'a> = &'a (dyn Fn(&Path, Media) -> Result<(), String> + Sync);

/// Inputs and output of [`materialize`].
#[derive(Clone, Copy)]
pub struct Materialize<'a> {
    /// Folder with the published `paravt_*.parquet`.
    pub rows: &'a Path,
    /// Folder that the published archives were unpacked into.
    pub media: &'a Path,
    /// Folder of the rows that are written; not `rows`.
    pub out: &'a Path,
    pub form: PathForm,
    /// Opens each medium once.
    pub probe: Probe<'a>,
    /// Called after each medium with the number of media opened so far, and of all; from several threads.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
}

/// What a file of rows refers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RowsReport {
    pub name: String,
    /// Rows, in the order of the published file.
    pub rows: usize,
    /// Paths that were made absolute.
    pub references: usize,
    /// References to media that are not there, by the first folder of their path: the release's own count.
    pub missing_references: BTreeMap<String, usize>,
}

/// A medium that is there and does not open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    pub path: String,
    pub reason: String,
}

/// The outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Materialized {
    /// One for each file of rows, sorted by name.
    pub files: Vec<RowsReport>,
    /// Distinct media that the rows refer to.
    pub media: usize,
    /// Published paths of media that are not there, each once.
    pub missing: Vec<String>,
    /// Media that do not open.
    pub unreadable: Vec<Unreadable>,
}

impl Materialized {
    /// Every medium is there and opens.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.unreadable.is_empty()
    }
}

/// Rewrites every file of rows and reports on all media. The report is written beside the rows.
///
/// # Errors
/// No rows, a damaged file, a row that the release's walk would fail on, or a folder that cannot be written.
pub fn materialize(work: &Materialize<'_>) -> Result<Materialized, FetchError> {
    let absolute = |path: &Path| std::path::absolute(path).map_err(FetchError::io(path));
    let (media, out) = (absolute(work.media)?, absolute(work.out)?);
    if !media.is_dir() {
        return Err(FetchError::invalid(
            media.display().to_string(),
            "expected the folder of the unpacked media",
        ));
    }
    std::fs::create_dir_all(&out).map_err(FetchError::io(&out))?;
    if paths::real(&out) == paths::real(&absolute(work.rows)?) {
        return Err(FetchError::invalid(
            out.display().to_string(),
            "the folder of the published rows; name another",
        ));
    }
    let mut paths = Paths::new(media, work.form);
    let mut done = Materialized::default();
    for name in files_of_rows(work.rows)? {
        done.files.push(rows::rewrite(&work.rows.join(&name), &out.join(&name), &name, &mut paths)?);
    }
    let (there, missing) = paths.into_media();
    done.media = there.len() + missing.len();
    done.missing = missing;
    done.unreadable = unreadable(&there, work);
    let report = out.join(REPORT);
    let text = serde_json::to_vec_pretty(&done).expect("a report of texts and numbers is JSON");
    crate::disk::create(&report)?.write_all(&text).map_err(FetchError::io(&report))?;
    Ok(done)
}

/// Names of `paravt_*.parquet` right in the folder, sorted.
fn files_of_rows(folder: &Path) -> Result<Vec<String>, FetchError> {
    let entries = std::fs::read_dir(folder).map_err(FetchError::io(folder))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with("paravt_") && name.ends_with(".parquet"))
        .collect();
    names.sort();
    if names.is_empty() {
        let message =
            "no paravt_*.parquet in it; `paravt-bench data fetch training --only annotations` gets them";
        return Err(FetchError::invalid(folder.display().to_string(), message));
    }
    Ok(names)
}

/// Media that do not open, sorted. Each is opened once, however many rows refer to it.
fn unreadable(media: &[(String, PathBuf, Media)], work: &Materialize<'_>) -> Vec<Unreadable> {
    let (next, opened, found) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(media.len());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((path, file, kind)) = media.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(reason) = (work.probe)(file, *kind) {
                        let unreadable = Unreadable { path: path.clone(), reason };
                        found.lock().expect("no holder of this lock panics").push(unreadable);
                    }
                    (work.progress)(opened.fetch_add(1, Ordering::Relaxed) + 1, media.len());
                }
            });
        }
    });
    let mut found = found.into_inner().expect("no holder of this lock panics");
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Opens the data of rows.
fn open(path: &Path) -> Result<File, FetchError> {
    File::open(path).map_err(FetchError::io(path))
}
