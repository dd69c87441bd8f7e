//! Where published files lie: the trees that lmms-eval and ParaVT leave, the hub's cache, or a
//! folder that the user names.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use super::shards::{self, Lying};
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
    /// The files of rows as named in the repository: one table, all of whose files are read in this order. A name may be
    /// a pattern, `data/train-*.parquet`.
    pub annotations: Vec<String>,
    /// Other names of a file with the same rows, one of which is read where `annotations` are not there, in the order
    /// of preference.
    #[serde(default)]
    pub other_annotations: Vec<String>,
    /// Folders of the videos below a root, in the order of preference.
    pub videos: Vec<String>,
    /// Whether published video paths have the folders that the archives have; else archives are unpacked without folders.
    #[serde(default)]
    pub archive_folders: bool,
    /// Other folders below a root in which a video may lie, e.g. those of the benchmarks that the videos come from.
    #[serde(default)]
    pub other_folders: Vec<String>,
    /// Extensions that are tried where the named video does not exist. Not under `release`, which knows the
    /// published place only.
    #[serde(default)]
    pub other_extensions: Vec<String>,
    /// First part of the published video paths that a folder of videos may leave out. Not under `release`.
    #[serde(default)]
    pub optional_prefix: Option<String>,
    /// A column of the parquet files of rows with pictures in base64. `data fetch` writes each into the first folder of
    /// `videos`, and the row has the file's name in that column.
    #[serde(default)]
    pub pictures: Option<String>,
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
    pub videos: PathBuf,
    /// Subtitles, where the benchmark has any.
    pub subtitles: Option<PathBuf>,
}

/// Located files of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnotationFiles {
    /// The files of the table in their order, at least one.
    pub files: Vec<PathBuf>,
    /// The hub snapshot that they lie in, and its revision.
    pub snapshot: Option<(PathBuf, String)>,
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
        let files = self.annotations.iter().map(|path| ("layout.annotations", path));
        for (field, path) in
            files.chain(self.other_annotations.iter().map(|p| ("layout.other_annotations", p)))
        {
            if !is_below(path) || Path::new(path).file_name().is_none() {
                return refused(field, "a file by a relative path without `..`", path);
            }
            shards::check(path)
                .map_err(|message| format!("{field}: `{}`: {message}", path.escape_debug()))?;
        }
        let relative = [("layout.benchmark", &self.benchmark), ("hub.annotations", &hub.annotations)];
        let media = hub.media.iter().map(|name| ("hub.media", name));
        let revision = hub.revision.iter().map(|name| ("hub.revision", name));
        let others = self.other_folders.iter().map(|folder| ("layout.other_folders", folder));
        for (field, path) in relative.into_iter().chain(media).chain(revision).chain(others) {
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

    /// Names of the files of rows, in the order of preference.
    fn names(&self) -> impl Iterator<Item = &[String]> {
        std::iter::once(&*self.annotations).chain(self.other_annotations.iter().map(std::slice::from_ref))
    }

    /// Finds the files of rows.
    ///
    /// # Errors
    /// A file not found; the error lists the paths searched and the download that provides it.
    pub fn annotations(
        &self,
        root: &DataRoot,
        task: &str,
        hub: &HubSource,
    ) -> Result<AnnotationFiles, DataError> {
        let mut search = Search::default();
        for base in root.candidates() {
            let own = &base.join(&self.benchmark);
            // A bare file name says little (three benchmarks share one): only in a folder
            // that was named for its files.
            let bare = root.data.as_deref().filter(|data| *data == base);
            for names in self.names() {
                let short = without_folders(names);
                let places: [(Option<&Path>, &[String]); 4] =
                    [(Some(own), names), (Some(own), &short), (Some(base), names), (bare, &short)];
                for (folder, names) in places {
                    if let Some(files) = folder.map(|folder| search.at(folder, names)).transpose()?.flatten()
                    {
                        return Ok(AnnotationFiles { files, snapshot: None });
                    }
                }
            }
            for repo in &hub.repos {
                let cache = base.join("hub").join(format!("datasets--{}", repo.replace('/', "--")));
                search.looked.push(cache.clone());
                for revision in revisions(&cache, hub.revision.as_deref()) {
                    let folder = cache.join("snapshots").join(&revision);
                    for names in self.names() {
                        if let Some(files) = search.at(&folder, names)? {
                            return Ok(AnnotationFiles { files, snapshot: Some((folder, revision)) });
                        }
                    }
                }
            }
        }
        Err(self.missing(task, hub, search))
    }

    fn missing(&self, task: &str, hub: &HubSource, search: Search) -> DataError {
        let what = match search.lacks.as_deref().and_then(Path::file_name) {
            Some(name) => format!("annotation file {}, one of several,", name.to_string_lossy()),
            None => {
                let names: Vec<String> = self.names().map(|names| names.join(", ")).collect();
                format!("annotation file {}", names.join(" or "))
            }
        };
        DataError::Missing {
            task: task.to_owned(),
            what,
            looked: search.looked,
            remedy: match hub.repos.first() {
                Some(repo) => format!(
                    "`paravt-bench data fetch {} --only annotations` downloads {} of {repo}, or name its folder with \
                     --data",
                    task, hub.annotations
                ),
                None => "put it beside the task file, or name its folder with --data".to_owned(),
            },
        }
    }

    /// Folders in which the row's files may lie, in the order of preference and never empty: those
    /// that exist, then the hub snapshot of the annotations, which may hold the videos too; where
    /// nothing exists, the first that would be looked into. A video folder given apart stands alone.
    pub fn folders(&self, root: &DataRoot, annotations: Option<&AnnotationFiles>) -> Vec<Folders> {
        let snapshot = annotations.and_then(|found| Some(found.snapshot.as_ref()?.0.clone()));
        let videos = match root.videos.get(&self.benchmark) {
            Some(folder) => vec![folder.clone()],
            None => existing(root, &self.videos, snapshot),
        };
        let subtitles = existing(root, &self.subtitles, None).into_iter().next();
        videos.into_iter().map(|videos| Folders { videos, subtitles: subtitles.clone() }).collect()
    }

    /// Folders beside that of the videos in which one may lie, those that exist.
    pub(crate) fn other_folders(&self, root: &DataRoot) -> Vec<PathBuf> {
        let all =
            root.candidates().flat_map(|base| self.other_folders.iter().map(move |name| base.join(name)));
        all.filter(|folder| folder.is_dir()).collect()
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
    pub fn archives(&self, root: &DataRoot, hub: &HubSource, annotations: Option<&Path>) -> Vec<PathBuf> {
        let beside = annotations.into_iter().flat_map(|file| file.ancestors().skip(1).take(2));
        let bases: Vec<PathBuf> = root
            .candidates()
            .flat_map(|base| [base.join(&self.benchmark), base.to_owned()])
            .chain(beside.map(Path::to_owned))
            .collect();
        let lies = |name: &String| bases.iter().map(|base| base.join(name)).find(|path| path.is_file());
        hub.media.iter().filter_map(lies).collect()
    }
}

/// Places that do not have all files of a table.
#[derive(Default)]
struct Search {
    looked: Vec<PathBuf>,
    /// The first file that was missing beside others.
    lacks: Option<PathBuf>,
}

impl Search {
    /// All files by their names below a folder; `None` where one is missing.
    fn at(&mut self, folder: &Path, names: &[String]) -> Result<Option<Vec<PathBuf>>, DataError> {
        let Lying { files, missing } = Lying::of(folder, names)?;
        let Some(first) = missing.first() else { return Ok(Some(files).filter(|files| !files.is_empty())) };
        if !files.is_empty() {
            self.lacks.get_or_insert_with(|| first.clone());
        }
        for path in missing {
            // A name without folders makes two of them equal.
            if !self.looked.contains(&path) {
                self.looked.push(path);
            }
        }
        Ok(None)
    }
}

/// The names of the files alone; none where two are equal.
fn without_folders(names: &[String]) -> Vec<String> {
    let name = |path: &String| Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    let short: Vec<String> = names.iter().filter_map(name).collect();
    let distinct = short.iter().collect::<BTreeSet<_>>().len() == names.len();
    if distinct { short } else { Vec::new() }
}

/// The revisions of a cache: the pinned one, the one that `refs/main` names, then all by name.
fn revisions(cache: &Path, pinned: Option<&str>) -> Vec<String> {
    let main = paravt_files::read_limited(&cache.join("refs/main"), MAX_REVISION).ok();
    let main = main.and_then(|text| String::from_utf8(text).ok()).map(|text| text.trim().to_owned());
    let entries = std::fs::read_dir(cache.join("snapshots")).into_iter().flatten().flatten();
    let mut any: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    any.sort();
    pinned.map(str::to_owned).into_iter().chain(main).chain(any).collect()
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
