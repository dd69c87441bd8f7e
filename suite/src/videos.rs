//! Names of videos that mean the same on every machine, and the files behind them on this one.

use std::path::{Path, PathBuf};

/// The folder of one benchmark's videos on this machine.
///
/// A [`Sample`](crate::sample::Sample) names its video `BENCHMARK/PATH`, where `PATH` is relative to that folder: the
/// same name whether the folder is the hub's cache, the tree of lmms-eval or one given apart. Only this store leads from
/// a name to a path, for those who open the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VideoStore {
    benchmark: String,
    folder: PathBuf,
    /// Where a video is looked for that is not in the folder.
    others: Vec<PathBuf>,
}

impl VideoStore {
    /// The videos of `benchmark` lie in `folder`. By [`default`](Self::default) a name is the path of a file.
    pub fn new(benchmark: &str, folder: PathBuf) -> Self {
        Self { benchmark: benchmark.to_owned(), folder, others: Vec::new() }
    }

    /// The same where videos may lie in other folders, too: their names stay those of this benchmark.
    #[must_use]
    pub fn and_in(self, others: Vec<PathBuf>) -> Self {
        Self { others, ..self }
    }

    /// The name of the video at a path relative to the folder.
    pub fn name(&self, relative: &Path) -> PathBuf {
        Path::new(&self.benchmark).join(relative)
    }

    /// The file behind a name.
    pub fn resolve(&self, name: &Path) -> PathBuf {
        let relative = name.strip_prefix(&self.benchmark).unwrap_or(name);
        let file = self.folder.join(relative);
        let mut elsewhere = self.others.iter().map(|folder| folder.join(relative));
        if self.others.is_empty() || file.exists() {
            file
        } else {
            elsewhere.find(|path| path.is_file()).unwrap_or(file)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_video_has_one_name_in_every_folder() {
        for folder in ["/srv/hub/datasets--x/snapshots/1/videos", "/home/me/data/mlvu/video"] {
            let store = VideoStore::new("mlvu", folder.into());
            let name = store.name(Path::new("a/3.mp4"));
            assert_eq!(name, Path::new("mlvu/a/3.mp4"));
            assert_eq!(store.resolve(&name), Path::new(folder).join("a/3.mp4"));
        }
        assert_eq!(VideoStore::default().resolve(Path::new("/home/me/3.mp4")), Path::new("/home/me/3.mp4"));
    }

    #[test]
    fn a_video_of_another_benchmark_keeps_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let [own, other] = ["own", "other"].map(|name| dir.path().join(name));
        for (folder, name) in [(&own, "1.mp4"), (&other, "1.mp4"), (&other, "2.mp4")] {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(folder.join(name), "").unwrap();
        }
        let store = VideoStore::new("when", own.clone()).and_in(vec![dir.path().join("none"), other.clone()]);
        for (name, file) in
            [("1.mp4", own.join("1.mp4")), ("2.mp4", other.join("2.mp4")), ("3.mp4", own.join("3.mp4"))]
        {
            assert_eq!(store.resolve(&store.name(Path::new(name))), file);
        }
    }
}
