//! Results of `data check` for one split.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use super::description::{Doubtful, Reported};
use super::{DataRoot, Dataset, Finding, Inspect, Origin, Provider, TaskSpec, UnreadableVideo, intervals};
use crate::data::{DataError, Layout, sha256_file};
use crate::media::VideoInfo;
use crate::sample::Sample;

/// Results of `data check` for one split.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataCheck {
    /// Name of the split.
    pub task: String,
    /// The annotation file, when found.
    pub annotations: Option<PathBuf>,
    /// SHA-256 of the annotation file, lower-case hexadecimal.
    pub sha256: Option<String>,
    /// Every file of rows with its SHA-256, where there are several; the first is `annotations`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<(PathBuf, String)>,
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
    /// Videos of which frames were decoded (all of them, sorted); empty where only headers were read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decoded_videos: Vec<DecodedVideo>,
    /// Of the videos that are there, those that others reported as broken, where frames were decoded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reported_videos: Vec<ReportedVideo>,
    /// Items whose question or gold others doubt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubtful: Vec<Doubtful>,
    /// Rows that these are, of the rows that were found.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub doubtful_rows: usize,
    /// Subtitles found, and published; `None` for splits without.
    pub subtitles: Option<(usize, usize)>,
    /// Rows whose gold interval is odd, by flag: one line for each row. They are asked as they are published.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flagged: BTreeMap<String, Vec<String>>,
    /// Findings; empty for a complete split.
    pub findings: Vec<Finding>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_zero(count: &usize) -> bool {
    *count == 0
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

/// A video of which frames were decoded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecodedVideo {
    pub path: PathBuf,
    #[serde(flatten)]
    pub video: VideoInfo,
}

/// A video that others reported as broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportedVideo {
    pub path: PathBuf,
    pub report: String,
    pub source: String,
    /// Whether its frames could be decoded here.
    pub is_sound: bool,
}

/// Compares what lies below `root` with what is published.
pub(super) fn check(
    spec: &TaskSpec,
    layout: &Layout,
    loaded: Result<Dataset, DataError>,
    root: &DataRoot,
    (reported, doubtful): (&[Reported], &[Doubtful]),
    how: &dyn Inspect,
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
            let archives = layout.archives(root, &spec.hub, check.annotations.as_deref());
            videos_found(&mut check, spec, &dataset, archives, how);
            let decoded = check.decoded_videos.iter();
            let lengths = decoded.map(|found| (found.path.clone(), Some(found.video.duration))).collect();
            check.flagged = intervals::flagged(&dataset, lengths);
            reported_found(&mut check, reported);
            let doubted = |sample: &&Sample| doubtful.iter().any(|one| one.uids.contains(&sample.uid));
            check.doubtful_rows = dataset.samples.iter().filter(doubted).count();
            check.doubtful = doubtful.to_vec();
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
    let hashed = |file: &PathBuf| Ok((file.clone(), sha256_file(file)?));
    match dataset.files.iter().map(hashed).collect::<Result<Vec<_>, DataError>>() {
        Ok(files) => {
            check.sha256 = files.first().map(|(_, hash)| hash.clone());
            check.files = if files.len() > 1 { files } else { Vec::new() };
        }
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
        check.findings.push(Finding::NoRows { reason: dataset.empty.clone().unwrap_or_default() });
    } else if spec.expected_rows == 0 {
        check.expected_rows = check.rows;
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
    how: &dyn Inspect,
) {
    let asked = dataset.samples.iter().filter(|sample| sample.defect.is_none());
    let of_sample = |sample: &Sample| -> Vec<PathBuf> {
        sample.media().iter().map(|file| dataset.videos.resolve(file)).collect()
    };
    let asked: Vec<Vec<PathBuf>> = asked.map(of_sample).collect();
    let videos: BTreeSet<&PathBuf> = asked.iter().flatten().collect();
    check.videos = videos.len();
    let (there, missing): (Vec<&PathBuf>, Vec<&PathBuf>) = videos.iter().partition(|video| video.exists());
    check.missing_videos = missing.into_iter().cloned().collect();
    (check.decoded_videos, check.unreadable_videos) = inspected(&there, how);
    let damaged = check.unreadable_videos.iter().map(|video| &video.path);
    let unusable: BTreeSet<&PathBuf> = check.missing_videos.iter().chain(damaged).collect();
    let is_usable = |files: &&Vec<PathBuf>| !files.iter().any(|file| unusable.contains(file));
    check.usable_rows = asked.iter().filter(is_usable).count();
    let provider = provided_by(spec, &media_files(spec, false));
    if spec.expected_videos == 0 {
        check.expected_videos = check.videos;
    } else if check.videos != spec.expected_videos {
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

/// The videos that were decoded and those that cannot be used, sorted. Reading headers waits for disks more than for
/// cores.
fn inspected(videos: &[&PathBuf], how: &dyn Inspect) -> (Vec<DecodedVideo>, Vec<UnreadableVideo>) {
    let found = Mutex::new((Vec::new(), Vec::new()));
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(videos.len());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(video) = videos.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (path, result) = ((*video).clone(), how.inspect(video));
                    let mut found = found.lock().expect("no thread panics while it holds the lists");
                    match result {
                        Ok(video) => found.0.extend(video.map(|video| DecodedVideo { path, video })),
                        Err(reason) => found.1.push(UnreadableVideo { path, reason }),
                    }
                }
            });
        }
    });
    let (mut decoded, mut unreadable) =
        found.into_inner().expect("no thread panics while it holds the lists");
    decoded.sort_by(|a, b| a.path.cmp(&b.path));
    unreadable.sort_by(|a, b| a.path.cmp(&b.path));
    (decoded, unreadable)
}

/// What became of the files that others could not decode, where this check decoded.
fn reported_found(check: &mut DataCheck, reported: &[Reported]) {
    if check.decoded_videos.is_empty() {
        return;
    }
    let sound = check.decoded_videos.iter().map(|video| (&video.path, true));
    let looked_into: Vec<(&PathBuf, bool)> =
        sound.chain(check.unreadable_videos.iter().map(|video| (&video.path, false))).collect();
    let mut found = Vec::new();
    for Reported { files, report, source } in reported {
        let named =
            |path: &Path| files.iter().any(|file| path.file_name().is_some_and(|name| name == &**file));
        found.extend(looked_into.iter().filter(|(path, _)| named(path)).map(|(path, is_sound)| {
            let (path, report, source) = ((*path).clone(), report.clone(), source.clone());
            ReportedVideo { path, report, source, is_sound: *is_sound }
        }));
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    check.reported_videos = found;
}

fn subtitles_found(check: &mut DataCheck, spec: &TaskSpec, layout: &Layout, root: &DataRoot) {
    let Some(published) = layout.expected_subtitles else { return };
    let folder = layout.folders(root, None).into_iter().next().and_then(|folders| folders.subtitles);
    let entries = folder.as_deref().and_then(|folder| std::fs::read_dir(folder).ok());
    let wanted = layout.subtitle_extension.as_str();
    let is_one = |path: &Path| path.extension().is_some_and(|extension| extension == wanted);
    let found = entries.map_or(0, |all| all.flatten().filter(|entry| is_one(&entry.path())).count());
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
