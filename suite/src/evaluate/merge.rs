//! Shards of one run become one run.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use paravt_files::read_limited;

use super::prepared::summary_of;
use crate::backend::Memory;
use crate::journal::{self, Journal, JournalError, RunDir};
use crate::record::Record;
use crate::run::{Manifest, Selection};
use crate::summary::{Summary, SummaryError};

/// Bytes that the protocol of a run may have.
const MAX_PROTOCOL: u64 = 64 << 20;

/// A merged run.
#[derive(Debug, Clone)]
pub struct Merged {
    pub summary: Summary,
    pub records: usize,
    /// Samples of the whole run.
    pub expected: usize,
    /// Shards that the run was divided into.
    pub shards: usize,
    /// Of these, the ones that were not given, counted from 0.
    pub missing: Vec<usize>,
}

/// Why shards cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// Nothing to merge.
    #[error("no shards given; name the run directories of all shards")]
    NoShards,
    /// A shard cannot be read, or the merged run not be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A run of the whole selection.
    #[error("{dir}: not a shard (was not run with --shard)", dir = .dir.display())]
    NotAShard { dir: PathBuf },
    /// Parts of two divisions of a run.
    #[error("{dir}: shard {number} of {of}, but the others are shards of {shards}; merge shards of one run only", dir = .dir.display())]
    OtherCount {
        dir: PathBuf,
        /// Number of the shard, counted from 1.
        number: usize,
        /// Shards that this run was divided into.
        of: usize,
        /// Shards that the first run was divided into.
        shards: usize,
    },
    /// Two run directories of one shard.
    #[error("{dir}: shard {number}/{shards} is given twice; name each run directory once", dir = .dir.display())]
    Twice {
        /// The second run directory.
        dir: PathBuf,
        /// Number of the shard, counted from 1.
        number: usize,
        /// Shards that the run was divided into.
        shards: usize,
    },
    /// Shards of two runs.
    #[error("cannot merge {first} with {dir}: {differences}", first = .first.display(), dir = .dir.display())]
    Differs { first: PathBuf, dir: PathBuf, differences: String },
    /// One video was two files.
    #[error(
        "cannot merge with {dir}: video {video} had {ours} bytes in one shard and {theirs} in the other",
        dir = .dir.display()
    )]
    VideoDiffers { dir: PathBuf, video: String, ours: u64, theirs: u64 },
    /// A sample that two shards have.
    #[error("sample {uid} is in two shards: merge shards of one run only")]
    SampleTwice { uid: String },
    /// The records do not belong to one run.
    #[error("the records in the journals do not belong together")]
    Summary(#[from] SummaryError),
    /// The directory to write is there and not empty.
    #[error("{out}: not empty; choose another --out", out = .out.display())]
    NotEmpty { out: PathBuf },
    /// The directory to write is the root of the file system.
    #[error("--out: the root folder cannot be a run directory")]
    Root,
    /// Reading or writing failed.
    #[error("cannot {action} {path}", path = .path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

/// Joins shards of one run into a run directory at `out`, whole or not at all. Missing shards make an
/// incomplete run.
///
/// # Errors
/// Directories that are no shards of one run, a sample in two of them, an `out` that holds something,
/// reading and writing.
pub fn merge(shards: &[PathBuf], out: &Path) -> Result<Merged, MergeError> {
    let (mut manifests, mut records) = (Vec::new(), Vec::new());
    for dir in shards {
        let (mut manifest, contents) = journal::read_run(dir)?;
        manifest.inputs.accept_replacements();
        manifests.push(manifest);
        records.extend(contents.records);
    }
    let (mut manifest, missing) = merge_manifests(&manifests, shards)?;
    journal::sort_by_row(&mut records);
    let twice = records.windows(2).find(|pair| pair[0].key() == pair[1].key());
    if let Some(pair) = twice {
        return Err(MergeError::SampleTwice { uid: pair[0].sample.uid.clone() });
    }
    let expected = manifest.expected_records();
    if records.len() == expected {
        manifest.ended_at = manifests.iter().filter_map(|manifest| manifest.ended_at).reduce(f64::max);
    }
    let summary = summary_of(&manifest, &records)?;
    write(out, &shards[0], &manifest, &records, &summary)?;
    let shards = missing.len() + manifests.len();
    Ok(Merged { summary, records: records.len(), expected, shards, missing })
}

/// Makes the run beside `out` and moves it there when it is whole: what a kill or a full disk leaves is
/// not a run.
fn write(
    out: &Path,
    first: &Path,
    manifest: &Manifest,
    records: &[Record],
    summary: &Summary,
) -> Result<(), MergeError> {
    let target = std::path::absolute(out).map_err(failed("find", out))?;
    if std::fs::read_dir(&target).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(MergeError::NotEmpty { out: out.to_owned() });
    }
    let parent = target.parent().ok_or(MergeError::Root)?;
    let protocol = first.join(journal::PROTOCOL);
    let texts = read_limited(&protocol, MAX_PROTOCOL).map_err(failed("read", &protocol))?;
    // Hidden, so that no report takes the part for a run.
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    let part = parent.join(name).with_added_extension("part");
    let made = RunDir::lock(&part)?;
    let written = fill(made, &part, manifest, records, &texts, summary)
        .and_then(|_journal| paravt_files::rename(&part, &target).map_err(failed("write", out)));
    if written.is_err() {
        let _ = paravt_files::remove(&part);
    }
    written
}

/// Writes the files of a run into a locked folder, in which a killed process may have left some.
fn fill(
    made: RunDir,
    part: &Path,
    manifest: &Manifest,
    records: &[Record],
    texts: &[u8],
    summary: &Summary,
) -> Result<Journal, MergeError> {
    for left in [journal::MANIFEST, journal::JOURNAL, journal::PROTOCOL, journal::SUMMARY] {
        let left = part.join(left);
        paravt_files::remove(&left).map_err(failed("remove", &left))?;
    }
    let mut journal = made.create(manifest)?;
    journal.append(records)?;
    journal::write_file(&part.join(journal::PROTOCOL), texts)?;
    journal::write_summary(part, summary)?;
    Ok(journal)
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> MergeError {
    move |source| MergeError::Io { action, path: path.to_owned(), source }
}

/// One manifest for all shards, and the zero-based shards that are missing. Shards of different runs or
/// selections, and a shard given twice, are refused.
fn merge_manifests(manifests: &[Manifest], dirs: &[PathBuf]) -> Result<(Manifest, Vec<usize>), MergeError> {
    let (Some(first), Some(first_dir)) = (manifests.first(), dirs.first()) else {
        return Err(MergeError::NoShards);
    };
    let not_a_shard = |dir: &Path| MergeError::NotAShard { dir: dir.to_owned() };
    let shard = |manifest: &Manifest, dir: &Path| manifest.selection.shard.ok_or_else(|| not_a_shard(dir));
    let mut merged = first.clone();
    let (_, shards) = shard(first, first_dir)?;
    let whole = first.selection.whole.clone().ok_or_else(|| not_a_shard(first_dir))?;
    let mut indices = BTreeSet::new();
    for (manifest, dir) in manifests.iter().zip(dirs) {
        let (index, of) = shard(manifest, dir)?;
        let (number, dir) = (index + 1, dir.clone());
        if of != shards {
            return Err(MergeError::OtherCount { dir, number, of, shards });
        }
        if !indices.insert(index) {
            return Err(MergeError::Twice { dir, number, shards });
        }
        let differences = merged.differences(&as_shard_of(&merged, manifest));
        if !differences.is_empty() {
            let differences = differences.join("; ");
            return Err(MergeError::Differs { first: first_dir.clone(), dir, differences });
        }
        join_inputs(&mut merged, manifest, &dir)?;
        merged.backend.join_endpoints(&manifest.backend);
    }
    let missing: Vec<usize> = (0..shards).filter(|index| !indices.contains(index)).collect();
    merged.selection = Selection { sizes: *whole, shard: None, whole: None, ..merged.selection };
    merged.started_at = manifests.iter().map(|manifest| manifest.started_at).fold(f64::INFINITY, f64::min);
    merged.ended_at = None;
    merged.memory = manifests.iter().filter_map(|manifest| manifest.memory).reduce(Memory::max);
    Ok((merged, missing))
}

/// `manifest` with what may differ between shards of one selection taken from `other`.
fn as_shard_of(other: &Manifest, manifest: &Manifest) -> Manifest {
    let mut comparable = manifest.clone();
    comparable.selection.shard = other.selection.shard;
    comparable.selection.sizes.clone_from(&other.selection.sizes);
    comparable
}

/// Adds the videos of a shard; one that was another file there is refused.
fn join_inputs(merged: &mut Manifest, manifest: &Manifest, dir: &Path) -> Result<(), MergeError> {
    for (video, &theirs) in &manifest.inputs.videos {
        let ours = *merged.inputs.videos.entry(video.clone()).or_insert(theirs);
        if ours != theirs {
            return Err(MergeError::VideoDiffers { dir: dir.to_owned(), video: video.clone(), ours, theirs });
        }
    }
    Ok(())
}
