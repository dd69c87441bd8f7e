//! The files that a sample's calls name: its video, and the frames and clips that calls make of it, without any being
//! written (`sage/src/functions/utils/extract.py`).
//!
//! A clip begins with the frame that its start lies in. The release copies the stream, which begins with the key frame
//! before it: the same where every frame is one.

use std::collections::BTreeMap;

use super::times::{Fields, timestamp};

/// Frames that one call saves.
const FRAMES: usize = 10;

/// A part of the sample's video, in its frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clip {
    /// Index of the first frame.
    pub(super) first: usize,
    /// Number of frames.
    pub(super) frames: usize,
}

/// What lies at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum File {
    /// The video or a part of it.
    Video(Clip),
    /// A saved frame, by its index in the video.
    Frame(usize),
}

/// All files of a sample.
pub(super) struct Files {
    folder: String,
    rate: f64,
    by_path: BTreeMap<String, File>,
}

impl Files {
    /// The video alone.
    pub(super) fn new(path: &str, frames: usize, rate: f64) -> Self {
        let video = File::Video(Clip { first: 0, frames });
        Self { folder: parent(path).to_owned(), rate, by_path: BTreeMap::from([(normal(path), video)]) }
    }

    /// What lies at a path.
    pub(super) fn get(&self, path: &str) -> Option<File> {
        self.by_path.get(&normal(path)).copied()
    }

    /// Whether a file or a folder lies there.
    pub(super) fn exists(&self, path: &str) -> bool {
        let path = normal(path);
        let below = |file: &String| file.strip_prefix(&path).is_some_and(|rest| rest.starts_with('/'));
        self.by_path.contains_key(&path) || (!path.is_empty() && self.by_path.keys().any(below))
    }

    /// A path below the folder of the video, where a file lies there.
    pub(super) fn below(&self, names: &[&str]) -> Option<String> {
        let path = format!("{}/{}", self.folder, names.join("/"));
        self.exists(&path).then_some(path)
    }

    /// `get_video_duration`: whole seconds.
    pub(super) fn duration(&self, clip: Clip) -> u32 {
        (clip.frames as f64 / self.rate) as u32
    }

    /// `extract_frames`: the paths of ten frames from start to end, those that are the same once, but where all were there
    /// before.
    pub(super) fn save_frames(
        &mut self,
        path: &str,
        clip: Clip,
        start: f64,
        end: f64,
    ) -> Result<Vec<String>, String> {
        let folder = format!(
            "{}/{}_frames_{}_{}",
            parent(path),
            stem(path),
            timestamp(start, Fields::Minutes)?,
            timestamp(end, Fields::Minutes)?
        );
        let (first, last) = ((start * self.rate) as i64, (end * self.rate) as i64);
        let name = |frame: i64| {
            let time = timestamp(frame as f64 / self.rate, Fields::Minutes)?;
            Ok(format!("{folder}/{}_frame_{frame}_{time}.jpg", stem(path)))
        };
        let at = |place: usize| first + (place as f64 * (last - first) as f64 / (FRAMES - 1) as f64) as i64;
        let wanted: Vec<i64> = (0..FRAMES).map(at).collect();
        let expected = wanted.iter().map(|frame| name(*frame)).collect::<Result<Vec<_>, String>>()?;
        if expected.iter().all(|path| self.exists(path)) {
            return Ok(expected);
        }
        let mut saved = Vec::new();
        for frame in first..=last.min(clip.frames as i64 - 1) {
            if wanted.contains(&frame) {
                let path = name(frame)?;
                self.by_path.insert(normal(&path), File::Frame(clip.first + frame as usize));
                saved.push(path);
            }
        }
        Ok(saved)
    }

    /// `extract_subclip`: the path of a part.
    pub(super) fn cut(&mut self, path: &str, clip: Clip, start: f64, end: f64) -> Result<String, String> {
        let file = path.rsplit('/').next().unwrap_or_default();
        let base = file.rfind('.').filter(|at| *at > 0).map_or(file, |at| &file[..at]);
        let (from, to) = (timestamp(start, Fields::Seconds)?, timestamp(end, Fields::Seconds)?);
        let made = format!("{}/{base}_subclip_{from}_{to}.mp4", parent(path));
        if self.exists(&made) {
            return Ok(made);
        }
        if end <= start {
            return Ok(path.to_owned());
        }
        let first = (start * self.rate) as usize;
        let behind = ((end * self.rate).ceil() as usize).min(clip.frames);
        let part = Clip { first: clip.first + first, frames: behind.saturating_sub(first) };
        self.by_path.insert(normal(&made), File::Video(part));
        Ok(made)
    }
}

/// `os.path.dirname`.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The name up to its first dot.
fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.split('.').next().unwrap_or_default()
}

/// A path without `.`, `..` and doubled strokes.
fn normal(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." if names.last().is_some_and(|last| *last != "..") => drop(names.pop()),
            name => names.push(name),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths and frames of the authors' `extract_frames` on a video of 300 frames at 10 a second.
    #[test]
    fn frames_are_saved_once() {
        let mut files = Files::new("data/videos/x.y.mp4", 300, 10.0);
        let Some(File::Video(video)) = files.get("./data//videos/x.y.mp4") else { panic!() };
        assert_eq!(files.duration(video), 30);
        let saved = files.save_frames("data/videos/x.y.mp4", video, 2.0, 20.0).unwrap();
        assert_eq!(saved.len(), 10);
        assert_eq!(saved[1], "data/videos/x_frames_00:02_00:20/x_frame_40_00:04.jpg");
        assert_eq!(files.get(&saved[1]), Some(File::Frame(40)));
        // The last frame of the file is not there.
        let saved = files.save_frames("data/videos/x.y.mp4", video, 29.0, 30.0).unwrap();
        assert_eq!((saved.len(), &*saved[0]), (9, "data/videos/x_frames_00:29_00:30/x_frame_290_00:29.jpg"));
        let once = files.save_frames("data/videos/x.y.mp4", video, 5.0, 5.0).unwrap();
        let again = files.save_frames("data/videos/x.y.mp4", video, 5.0, 5.0).unwrap();
        assert_eq!((once.len(), again.len()), (1, 10));
    }

    #[test]
    fn a_clip_is_a_video_of_its_own() {
        let mut files = Files::new("data/videos/x.mp4", 300, 10.0);
        let Some(File::Video(video)) = files.get("data/videos/x.mp4") else { panic!() };
        let path = files.cut("data/videos/x.mp4", video, 5.0, 20.0).unwrap();
        assert_eq!(path, "data/videos/x_subclip_05_20.mp4");
        let Some(File::Video(clip)) = files.get(&path) else { panic!() };
        assert_eq!((clip, files.duration(clip)), (Clip { first: 50, frames: 150 }, 15));
        let saved = files.save_frames(&path, clip, 1.0, 2.0).unwrap();
        assert_eq!(files.get(&saved[0]), Some(File::Frame(60)));
        assert!(files.below(&["x_frames_00:01_00:02", "nothing.jpg"]).is_none());
        assert!(files.exists("data/videos"));
    }
}
