//! Names of videos that mean the same on every machine, and the files behind them on this one.

use std::path::{Path, PathBuf};

use crate::record::{Record, ToolOutcome};

/// The folders of one benchmark's videos on this machine.
///
/// A record names a video `BENCHMARK/PATH`, where `PATH` is relative to the folder of the videos:
/// the same name whether that folder is the hub's cache, the tree of lmms-eval or one given apart.
#[derive(Debug, Clone, Default)]
pub struct VideoStore {
    benchmark: String,
    folders: Vec<PathBuf>,
}

impl VideoStore {
    /// The videos of `benchmark` lie in one of `folders`, in the order of preference.
    pub fn new(benchmark: &str, folders: Vec<PathBuf>) -> Self {
        Self { benchmark: benchmark.to_owned(), folders }
    }

    /// The name of a video file; one outside all folders is named by its file name alone.
    pub fn name(&self, video: &Path) -> PathBuf {
        let below = self.folders.iter().filter_map(|folder| video.strip_prefix(folder).ok());
        let rest = below
            .min_by_key(|rest| rest.as_os_str().len())
            .map(Path::to_owned)
            .or_else(|| video.file_name().map(PathBuf::from));
        Path::new(&self.benchmark).join(rest.unwrap_or_default())
    }

    /// The file behind a name, in the first folder that has it; a path that does not begin with the
    /// benchmark (records of format 1 hold those) stays as it is.
    pub fn resolve(&self, name: &Path) -> PathBuf {
        let Ok(rest) = name.strip_prefix(&self.benchmark) else { return name.to_owned() };
        let mut places = self.folders.iter().map(|folder| folder.join(rest));
        let first = places.next().unwrap_or_else(|| name.to_owned());
        if first.is_file() { first } else { places.find(|place| place.is_file()).unwrap_or(first) }
    }

    /// A record in which no path of this machine is left: the video by its name, also in messages.
    pub fn portable(&self, mut record: Record) -> Record {
        if record.sample.video.is_absolute() || !record.sample.video.starts_with(&self.benchmark) {
            record.sample.video = self.name(&record.sample.video);
        }
        let transcript = &mut record.transcript;
        let reasons = transcript.tool_calls.iter_mut().filter_map(|call| match &mut call.outcome {
            ToolOutcome::CropFailed { reason } | ToolOutcome::Malformed { reason } => Some(reason),
            ToolOutcome::Frames { .. } | ToolOutcome::Summary { .. } => None,
        });
        let failures = transcript.calls.iter_mut().filter_map(|call| call.error.as_mut());
        let texts = reasons
            .chain(transcript.frame_loss.as_mut())
            .chain(failures.map(|error| &mut error.message))
            .chain(record.error.as_mut().map(|error| &mut error.message));
        for text in texts {
            *text = crate::redact::urls(&self.portable_text(text));
        }
        record
    }

    /// A text with the benchmark's name in the place of each folder.
    fn portable_text(&self, text: &str) -> String {
        let absolute = self.folders.iter().filter_map(|folder| std::path::absolute(folder).ok());
        let mut paths: Vec<String> = self
            .folders
            .iter()
            .cloned()
            .chain(absolute)
            .map(|folder| folder.display().to_string())
            .filter(|folder| folder.len() > 1)
            .collect();
        paths.sort_by_key(|path| std::cmp::Reverse(path.len()));
        paths.iter().fold(text.to_owned(), |text, path| text.replace(path.as_str(), &self.benchmark))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{failed, record};
    use crate::record::SampleErrorClass;

    #[test]
    fn a_video_has_one_name_in_every_layout() {
        for folder in ["/srv/hub/datasets--x/snapshots/1/videos", "/home/me/data/mlvu/video"] {
            let store = VideoStore::new("mlvu", vec!["/elsewhere".into(), folder.into()]);
            assert_eq!(store.name(&Path::new(folder).join("a/3.mp4")), Path::new("mlvu/a/3.mp4"));
        }
        let store = VideoStore::new("mlvu", vec!["/data".into(), "/data/mlvu".into()]);
        assert_eq!(store.name(Path::new("/data/mlvu/3.mp4")), Path::new("mlvu/3.mp4"), "nearest folder");
        assert_eq!(store.name(Path::new("/other/machine/3.mp4")), Path::new("mlvu/3.mp4"));
    }

    #[test]
    fn a_name_is_found_in_the_folder_that_holds_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let (empty, full) = (dir.path().join("empty"), dir.path().join("full"));
        std::fs::create_dir_all(full.join("a")).unwrap();
        let file = full.join("a/3.mp4");
        std::fs::write(&file, "x").unwrap();
        let store = VideoStore::new("mlvu", vec![empty.clone(), full]);
        assert_eq!(store.resolve(Path::new("mlvu/a/3.mp4")), file);
        assert_eq!(store.resolve(&store.name(&file)), file);
        assert_eq!(store.resolve(Path::new("mlvu/none.mp4")), empty.join("none.mp4"));
        assert_eq!(store.resolve(Path::new("/old/record.mp4")), Path::new("/old/record.mp4"));
    }

    #[test]
    fn a_portable_record_names_no_folder_and_no_credential() {
        let store = VideoStore::new("mlvu", vec!["/home/me/videos".into()]);
        let mut made = failed(record("a", 0.0), SampleErrorClass::VideoMissing);
        made.sample.video = "/home/me/videos/3.mp4".into();
        made.transcript.frame_loss = Some("/home/me/videos/3.mp4: video has 3 frames".into());
        if let Some(error) = &mut made.error {
            error.message = "http://me:key@host/v1: cannot open file:///home/me/videos/3.mp4".into();
        }
        let text = serde_json::to_string(&store.portable(made)).unwrap();
        assert!(!text.contains("/home/me") && !text.contains("key"), "{text}");
        assert!(text.contains("mlvu/3.mp4: video has 3 frames"), "{text}");
    }
}
