//! Where published files lie: the trees that lmms-eval and ParaVT leave, the hub's cache, or a
//! folder of one's own.

use std::path::{Path, PathBuf};

use super::DataError;
use crate::task::{DataRoot, TaskSpec};

/// Where the files of one benchmark lie below a root.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The benchmark's own folder, also the key of a video folder given apart.
    pub benchmark: &'static str,
    /// Annotation files as named in the repository, in the order of preference.
    pub annotations: &'static [&'static str],
    /// Folders of the videos below a root, in the order of preference.
    pub videos: &'static [&'static str],
    /// Folders of the subtitles below a root.
    pub subtitles: &'static [&'static str],
    /// Published subtitle files, for splits that use them.
    pub expected_subtitles: Option<usize>,
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
    /// Finds the annotation file.
    ///
    /// # Errors
    /// It is nowhere: the error lists where it was looked for and what provides it.
    pub fn annotations(&self, root: &DataRoot, spec: &TaskSpec) -> Result<Found, DataError> {
        let mut looked = Vec::new();
        for base in root.candidates() {
            for name in self.annotations {
                let file = Path::new(name).file_name().unwrap_or_default();
                for path in [
                    base.join(self.benchmark).join(name),
                    base.join(self.benchmark).join(file),
                    base.join(name),
                ] {
                    if path.is_file() {
                        return Ok(Found { path, revision: None });
                    }
                    looked.push(path);
                }
            }
            for repo in &spec.hub.repos {
                let cache = base.join("hub").join(format!("datasets--{}", repo.replace('/', "--")));
                if let Some(found) = self.snapshot(&cache, spec.hub.revision.as_deref()) {
                    return Ok(found);
                }
                looked.push(cache);
            }
        }
        Err(DataError::Missing {
            task: spec.name.clone(),
            what: format!("annotation file {}", self.annotations.join(" or ")),
            looked,
            remedy: format!(
                "download {} of {} from the Hugging Face hub, or name its folder with --data",
                spec.hub.annotations,
                spec.hub.repos.first().map_or("", String::as_str)
            ),
        })
    }

    /// The pinned snapshot, else the one `refs/main` names, else any.
    fn snapshot(&self, cache: &Path, pinned: Option<&str>) -> Option<Found> {
        let main = std::fs::read_to_string(cache.join("refs/main")).ok();
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

    /// The first folders that exist; else the hub snapshot of the annotations, which may hold the
    /// videos too; where nothing exists, the first folder that would be looked into.
    pub fn folders(&self, root: &DataRoot, annotations: Option<&Found>) -> Folders {
        let snapshot = annotations.filter(|found| found.revision.is_some()).and_then(|found| {
            let depth = self.annotations.iter().find(|name| found.path.ends_with(name))?.split('/').count();
            found.path.ancestors().nth(depth).map(Path::to_owned)
        });
        let videos = match root.videos.get(self.benchmark) {
            Some(folder) => Some(folder.clone()),
            None => first_folder(root, self.videos, snapshot),
        };
        Folders { videos: videos.unwrap_or_default(), subtitles: first_folder(root, self.subtitles, None) }
    }
}

fn first_folder(root: &DataRoot, names: &[&str], otherwise: Option<PathBuf>) -> Option<PathBuf> {
    let all: Vec<PathBuf> =
        root.candidates().flat_map(|base| names.iter().map(move |name| base.join(name))).collect();
    all.iter().find(|folder| folder.is_dir()).cloned().or(otherwise).or(all.first().cloned())
}
