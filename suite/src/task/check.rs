//! Results of `data check` for one split.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use super::{DataRoot, Dataset, Finding, Origin, Provider, TaskSpec, UnreadableVideo};
use crate::data::{DataError, Found, Layout, sha256_file};
use crate::media::{self, Depth, MediaError};

/// Results of `data check` for one split.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataCheck {
    /// Name of the split.
    pub task: String,
    /// The annotation file, when found.
    pub annotations: Option<PathBuf>,
    /// SHA-256 of the annotation file, lower-case hexadecimal.
    pub sha256: Option<String>,
    /// Revision of the hub snapshot that the annotation file lies in, where its path shows one.
    pub revision: Option<String>,
    /// The rows are the published ones: their samples have the published SHA-256 under every profile.
    #[serde(default)]
    pub verified: bool,
    /// Rows found.
    pub rows: usize,
    /// Rows published.
    pub expected_rows: usize,
    /// Rows that can be asked and whose video can be used.
    #[serde(default)]
    pub usable_rows: usize,
    /// Distinct videos that the rows name.
    pub videos: usize,
    /// Distinct videos published.
    pub expected_videos: usize,
    /// Videos that are not there (all of them, sorted).
    pub missing_videos: Vec<PathBuf>,
    /// Videos that are there and cannot be used (all of them, sorted).
    pub unreadable_videos: Vec<UnreadableVideo>,
    /// Subtitles found, and published; `None` for splits without.
    pub subtitles: Option<(usize, usize)>,
    /// Findings; empty for a complete split.
    pub findings: Vec<Finding>,
}

impl DataCheck {
    /// True when nothing is missing and all counts are as published.
    pub fn is_complete(&self) -> bool {
        self.findings.is_empty()
    }

    /// Videos that are there and can be used.
    pub fn usable_videos(&self) -> usize {
        self.videos - self.missing_videos.len() - self.unreadable_videos.len()
    }
}

/// Compares what lies below `root` with what is published.
pub(super) fn check(
    spec: &TaskSpec,
    layout: &Layout,
    loaded: Result<Dataset, DataError>,
    root: &DataRoot,
    depth: Depth,
) -> DataCheck {
    let mut check = DataCheck {
        task: spec.name.clone(),
        expected_rows: spec.expected_rows,
        expected_videos: spec.expected_videos,
        ..DataCheck::default()
    };
    let provider = provided_by(spec, &[&spec.hub.annotations]);
    match loaded {
        Ok(dataset) => {
            rows_found(&mut check, spec, &dataset, provider);
            let found =
                check.annotations.clone().map(|path| Found { path, revision: check.revision.clone() });
            let archives = layout.archives(root, &spec.hub, found.as_ref());
            videos_found(&mut check, spec, &dataset, archives, depth);
            subtitles_found(&mut check, spec, layout, root);
        }
        Err(DataError::Missing { looked, .. }) => {
            check.findings.push(Finding::AnnotationsMissing { provider, looked });
        }
        Err(error) => {
            check.findings.push(Finding::AnnotationsUnusable { message: error.to_string(), provider });
        }
    }
    check
}

fn provided_by(spec: &TaskSpec, files: &[&String]) -> Provider {
    let files = match files {
        [first, .., last] if files.len() > 2 => format!("{first} … {last}"),
        few => few.iter().map(|file| file.as_str()).collect::<Vec<_>>().join(", "),
    };
    let repository = spec.hub.repos.first().cloned();
    let revision = spec.hub.revision.as_deref().unwrap_or("main");
    Provider { files, revision: repository.is_some().then(|| revision.to_owned()), repository }
}

/// Published files that hold subtitles, or those that do not.
fn media_files(spec: &TaskSpec, subtitles: bool) -> Vec<&String> {
    spec.hub.media.iter().filter(|name| name.contains("subtitle") == subtitles).collect()
}

fn rows_found(check: &mut DataCheck, spec: &TaskSpec, dataset: &Dataset, provider: Provider) {
    check.annotations = dataset.files.first().cloned();
    check.revision = dataset.revision.clone();
    check.rows = dataset.samples.len();
    match check.annotations.as_deref().map(sha256_file).transpose() {
        Ok(hash) => check.sha256 = hash,
        Err(error) => check
            .findings
            .push(Finding::AnnotationsUnusable { message: error.to_string(), provider: provider.clone() }),
    }
    if let (Some(found), Some(pinned)) = (&check.revision, &spec.hub.revision)
        && found != pinned
    {
        check.findings.push(Finding::Revision { found: found.clone(), pinned: pinned.clone() });
    }
    if check.rows == 0 {
        check.findings.push(Finding::NoRows);
    } else if check.rows != spec.expected_rows {
        let (found, published) = (check.rows, spec.expected_rows);
        check.findings.push(Finding::Rows { found, published, provider });
    }
    check.verified = dataset.origin == Origin::Published;
    if let Origin::Other(difference) = &dataset.origin {
        let (difference, provider) = (difference.clone(), provided_by(spec, &[&spec.hub.annotations]));
        check.findings.push(Finding::OtherRows { difference, provider });
    }
    let defects: Vec<String> = dataset.samples.iter().filter_map(|sample| sample.defect.clone()).collect();
    if !defects.is_empty() {
        check.findings.push(Finding::DefectiveRows { defects });
    }
}

fn videos_found(
    check: &mut DataCheck,
    spec: &TaskSpec,
    dataset: &Dataset,
    archives: Vec<PathBuf>,
    depth: Depth,
) {
    let asked = dataset.samples.iter().filter(|sample| sample.defect.is_none());
    let asked: Vec<PathBuf> = asked.map(|sample| dataset.videos.resolve(&sample.video)).collect();
    let videos: BTreeSet<&PathBuf> = asked.iter().collect();
    check.videos = videos.len();
    let (there, missing): (Vec<&PathBuf>, Vec<&PathBuf>) = videos.iter().partition(|video| video.exists());
    check.missing_videos = missing.into_iter().cloned().collect();
    check.unreadable_videos = unreadable(&there, depth);
    let damaged = check.unreadable_videos.iter().map(|video| &video.path);
    let unusable: BTreeSet<&PathBuf> = check.missing_videos.iter().chain(damaged).collect();
    check.usable_rows = asked.iter().filter(|video| !unusable.contains(video)).count();
    let provider = provided_by(spec, &media_files(spec, false));
    if check.videos != spec.expected_videos {
        let (named, published) = (check.videos, spec.expected_videos);
        check.findings.push(Finding::VideosNamed { named, published });
    }
    if let Some(first) = check.missing_videos.first() {
        let into = first.parent().unwrap_or(Path::new("")).to_owned();
        let count = check.missing_videos.len();
        check.findings.push(Finding::VideosMissing { count, provider: provider.clone() });
        if !archives.is_empty() {
            check.findings.push(Finding::ArchivesPacked { archives, into });
        }
    }
    if !check.unreadable_videos.is_empty() {
        let count = check.unreadable_videos.len();
        check.findings.push(Finding::VideosUnreadable { count, provider });
    }
}

/// The videos that cannot be used, sorted. Reading headers waits for disks more than for cores.
fn unreadable(videos: &[&PathBuf], depth: Depth) -> Vec<UnreadableVideo> {
    let found = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(videos.len());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(video) = videos.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = media::check(video, depth) {
                        let unreadable =
                            UnreadableVideo { path: (*video).clone(), reason: reason(video, &error) };
                        found.lock().expect("no thread panics while it holds the list").push(unreadable);
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().expect("no thread panics while it holds the list");
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The error in a few words.
fn reason(video: &Path, error: &MediaError) -> String {
    match error {
        MediaError::Open(message) => match std::fs::metadata(video) {
            Ok(file) if file.is_file() && file.len() == 0 => "empty".to_owned(),
            _ => message.clone(),
        },
        MediaError::NoVideo => "no video stream".to_owned(),
        MediaError::Decode { index, message } => format!("frame {index} cannot be decoded ({message})"),
        other => other.to_string(),
    }
}

fn subtitles_found(check: &mut DataCheck, spec: &TaskSpec, layout: &Layout, root: &DataRoot) {
    let Some(published) = layout.expected_subtitles else { return };
    let folder = layout.folders(root, None).into_iter().next().and_then(|folders| folders.subtitles);
    let entries = folder.as_deref().and_then(|folder| std::fs::read_dir(folder).ok());
    let is_srt = |path: &Path| path.extension().is_some_and(|extension| extension == "srt");
    let found = entries.map_or(0, |all| all.flatten().filter(|entry| is_srt(&entry.path())).count());
    check.subtitles = Some((found, published));
    if found != published {
        check.findings.push(Finding::Subtitles {
            found,
            published,
            folder: folder.unwrap_or_default(),
            provider: provided_by(spec, &media_files(spec, true)),
        });
    }
}
