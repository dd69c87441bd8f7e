//! Where published files lie: the trees that lmms-eval and ParaVT leave, the hub's cache, or a
//! folder that the user names.

use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use super::{DataError, DataRoot, HubSource};
use crate::profile::Profile;

/// Bytes of a file that holds a revision.
const MAX_REVISION: u64 = 256;

/// Paths of one benchmark's files below a root.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// The benchmark's own folder, also the key of a video folder given apart.
    pub benchmark: String,
    /// Annotation files as named in the repository, in the order of preference.
    pub annotations: Vec<String>,
    /// Folders of the videos below a root, in the order of preference.
    pub videos: Vec<String>,
    /// Whether published video paths have the folders that the archives have; else archives are unpacked without folders.
    #[serde(default)]
    pub archive_folders: bool,
    /// Extensions that are tried where the named video does not exist. Not under `release`, which knows the
    /// published place only.
    #[serde(default)]
    pub other_extensions: Vec<String>,
    /// First part of the published video paths that a folder of videos may leave out. Not under `release`.
    #[serde(default)]
    pub optional_prefix: Option<String>,
    /// Folders of the subtitles below a root.
    #[serde(default)]
    pub subtitles: Vec<String>,
    /// Extension of the files of subtitles.
    #[serde(default = "srt")]
    pub subtitle_extension: String,
    /// Published subtitle files, for splits that show them.
    #[serde(default)]
    pub expected_subtitles: Option<usize>,
}

fn srt() -> String {
    "srt".to_owned()
}

/// Folders that a row's files are resolved in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folders {
    /// Videos.
    pub videos: PathBuf,
    /// Subtitles, where the benchmark has any.
    pub subtitles: Option<PathBuf>,
}

/// A located annotation file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The file.
    pub path: PathBuf,
    /// Revision of the hub snapshot it lies in.
    pub revision: Option<String>,
}

impl Layout {
    /// Checks the paths, which may be somebody else's: none goes up, and only a folder of videos or subtitles may be
    /// absolute.
    ///
    /// # Errors
    /// The field, what is expected there and what was found.
    pub(crate) fn check(&self, hub: &HubSource) -> Result<(), String> {
        let refused = |field: &str, expected: &str, found: &str| {
            Err(format!("{field}: expected {expected}, found `{}`", found.escape_debug()))
        };
        if self.annotations.is_empty() {
            return Err("layout.annotations: expected the name of at least one file".to_owned());
        }
        if self.videos.is_empty() {
            return Err("layout.videos: expected at least one folder".to_owned());
        }
        for path in &self.annotations {
            if !is_below(path) || Path::new(path).file_name().is_none() {
                return refused("layout.annotations", "a file by a relative path without `..`", path);
            }
        }
        let relative = [("layout.benchmark", &self.benchmark), ("hub.annotations", &hub.annotations)];
        let media = hub.media.iter().map(|name| ("hub.media", name));
        let revision = hub.revision.iter().map(|name| ("hub.revision", name));
        for (field, path) in relative.into_iter().chain(media).chain(revision) {
            if !is_below(path) {
                return refused(field, "a relative path without `..`", path);
            }
        }
        for (field, folders) in [("layout.videos", &self.videos), ("layout.subtitles", &self.subtitles)] {
            for path in folders {
                let is_root = Path::new(path).components().eq([Component::RootDir]);
                if is_root || !is_below(path.trim_start_matches('/')) {
                    return refused(field, "a folder without `..`, below the data root or absolute", path);
                }
            }
        }
        let others = self.other_extensions.iter().map(|extension| ("layout.other_extensions", extension));
        let mut extensions = others.chain([("layout.subtitle_extension", &self.subtitle_extension)]);
        match extensions.find(|(_, extension)| extension.contains('/')) {
            Some((field, extension)) => refused(field, "an extension such as `mkv`", extension),
            None => Ok(()),
        }
    }

    /// Finds the annotation file.
    ///
    /// # Errors
    /// File not found; the error lists the paths searched and the download that provides it.
    pub fn annotations(&self, root: &DataRoot, task: &str, hub: &HubSource) -> Result<Found, DataError> {
        let mut looked = Vec::new();
        for base in root.candidates() {
            for name in &self.annotations {
                let Some(file) = Path::new(name).file_name() else { continue };
                let own = base.join(&self.benchmark);
                // A bare file name says little (three benchmarks share one): only in a folder
                // that was named for its files.
                let bare = root.data.as_deref().filter(|data| *data == base).map(|data| data.join(file));
                for path in [own.join(name), own.join(file), base.join(name)].into_iter().chain(bare) {
                    match std::fs::metadata(&path) {
                        Ok(there) if there.is_file() => return Ok(Found { path, revision: None }),
                        Err(source) if source.kind() == std::io::ErrorKind::PermissionDenied => {
                            return Err(DataError::Io { path, source });
                        }
                        _ => {}
                    }
                    // A name without folders makes two of them equal.
                    if !looked.contains(&path) {
                        looked.push(path);
                    }
                }
            }
            for repo in &hub.repos {
                let cache = base.join("hub").join(format!("datasets--{}", repo.replace('/', "--")));
                if let Some(found) = self.snapshot(&cache, hub.revision.as_deref()) {
                    return Ok(found);
                }
                looked.push(cache);
            }
        }
        Err(DataError::Missing {
            task: task.to_owned(),
            what: format!("annotation file {}", self.annotations.join(" or ")),
            looked,
            remedy: match hub.repos.first() {
                Some(repo) => format!(
                    "`paravt-bench data fetch {} --only annotations` downloads {} of {repo}, or name its folder with \
                     --data",
                    task, hub.annotations
                ),
                None => "put it beside the task file, or name its folder with --data".to_owned(),
            },
        })
    }

    /// The pinned snapshot, else the one `refs/main` names, else any.
    fn snapshot(&self, cache: &Path, pinned: Option<&str>) -> Option<Found> {
        let main = paravt_files::read_limited(&cache.join("refs/main"), MAX_REVISION).ok();
        let main = main.and_then(|text| String::from_utf8(text).ok());
        let mut any: Vec<String> = std::fs::read_dir(cache.join("snapshots"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        any.sort();
        let preferred =
            pinned.map(str::to_owned).into_iter().chain(main.map(|text| text.trim().to_owned())).chain(any);
        preferred
            .flat_map(|revision| self.annotations.iter().map(move |name| (revision.clone(), name)))
            .find_map(|(revision, name)| {
                let path = cache.join("snapshots").join(&revision).join(name);
                path.is_file().then_some(Found { path, revision: Some(revision) })
            })
    }

    /// Folders in which the row's files may lie, in the order of preference and never empty: those
    /// that exist, then the hub snapshot of the annotations, which may hold the videos too; where
    /// nothing exists, the first that would be looked into. A video folder given apart stands alone.
    pub fn folders(&self, root: &DataRoot, annotations: Option<&Found>) -> Vec<Folders> {
        let snapshot = annotations.filter(|found| found.revision.is_some()).and_then(|found| {
            let depth = self.annotations.iter().find(|name| found.path.ends_with(name))?.split('/').count();
            found.path.ancestors().nth(depth).map(Path::to_owned)
        });
        let videos = match root.videos.get(&self.benchmark) {
            Some(folder) => vec![folder.clone()],
            None => existing(root, &self.videos, snapshot),
        };
        let subtitles = existing(root, &self.subtitles, None).into_iter().next();
        videos.into_iter().map(|videos| Folders { videos, subtitles: subtitles.clone() }).collect()
    }

    /// The path of a published video relative to a folder: the published one, else an allowed other one that the
    /// folder has, else the published one.
    pub fn video(&self, folder: &Path, published: &Path, profile: Profile) -> PathBuf {
        let lies = |path: &Path| folder.join(path).is_file();
        if profile == Profile::Release || lies(published) {
            return published.to_owned();
        }
        let others = self.other_extensions.iter().map(|extension| published.with_extension(extension));
        let short = self.optional_prefix.iter().filter_map(|prefix| published.strip_prefix(prefix).ok());
        let mut others = others.chain(short.map(Path::to_owned));
        others.find(|path| lies(path)).unwrap_or_else(|| published.to_owned())
    }

    /// Published archives that lie below a root (or beside the annotations in their snapshot) as
    /// they were fetched.
    pub fn archives(&self, root: &DataRoot, hub: &HubSource, annotations: Option<&Found>) -> Vec<PathBuf> {
        let beside = annotations.into_iter().flat_map(|found| found.path.ancestors().skip(1).take(2));
        let bases: Vec<PathBuf> = root
            .candidates()
            .flat_map(|base| [base.join(&self.benchmark), base.to_owned()])
            .chain(beside.map(Path::to_owned))
            .collect();
        let lies = |name: &String| bases.iter().map(|base| base.join(name)).find(|path| path.is_file());
        hub.media.iter().filter_map(lies).collect()
    }
}

/// Whether a path stays below the folder that it is joined to.
fn is_below(path: &str) -> bool {
    Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

fn existing(root: &DataRoot, names: &[String], otherwise: Option<PathBuf>) -> Vec<PathBuf> {
    let all: Vec<PathBuf> =
        root.candidates().flat_map(|base| names.iter().map(move |name| base.join(name))).collect();
    let mut found: Vec<PathBuf> = all.iter().filter(|folder| folder.is_dir()).cloned().collect();
    found.extend(otherwise);
    if found.is_empty() {
        found.extend(all.into_iter().next());
    }
    found
}
