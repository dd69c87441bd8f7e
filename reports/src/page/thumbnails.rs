//! Frames as small JPEG files beside the page: the very frames that the record says the model saw.
//!
//! A journal may come from somebody else, and the paths in it are never opened: the caller says where the
//! video of a sample lies in its own copy of the data.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use paravt_files::{make_dir, write_atomic};
use paravt_suite::message::FrameOrigin;
use paravt_suite::record::{Record, ToolCall};
use rayon::prelude::*;
use serde::Serialize;

use crate::rows;
use crate::runs::Run;

/// Frames shown of an overview, evenly.
const OVERVIEW: usize = 16;

/// A thumbnail: time in seconds and path relative to the page. The path is made of numbers only.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Thumbnail(f64, String);

/// Thumbnails by video and frame.
#[derive(Debug, Default)]
pub struct Thumbnails {
    found: BTreeMap<PathBuf, BTreeMap<usize, String>>,
    /// Videos of which nothing could be read.
    pub unreadable: usize,
    /// Videos that the caller's data does not have.
    pub unknown: usize,
}

/// Where the video of a sample lies on this machine: by split and uid.
pub type Videos = BTreeMap<(String, String), PathBuf>;

/// JPEG files of frames of a video, each with its index; none of a video that cannot be read.
pub type Jpegs<'a> = &'a (dyn Fn(&Path, &[usize]) -> Vec<(usize, Vec<u8>)> + Sync);

/// The frames of the overview that are shown; of a question about images the first one.
fn overview(record: &Record) -> Vec<FrameOrigin> {
    if record.sample.is_about_images() {
        return vec![FrameOrigin { index: 0, time: 0.0 }];
    }
    let frames: Vec<FrameOrigin> = rows::overview(record).flatten().collect();
    let step = frames.len().div_ceil(OVERVIEW).max(1);
    frames.into_iter().step_by(step).collect()
}

impl Thumbnails {
    /// Writes the recorded frames of all runs, as `jpegs` decodes them, below `dir/frames`. A video that is not in
    /// `videos` or cannot be read has none and is counted.
    pub fn write(runs: &[Run], videos: &Videos, dir: &Path, jpegs: Jpegs<'_>) -> std::io::Result<Self> {
        let mut wanted: BTreeMap<&Path, (&Path, BTreeSet<usize>)> = BTreeMap::new();
        let mut unknown: BTreeSet<&Path> = BTreeSet::new();
        for (run, record) in runs.iter().flat_map(|run| run.records.iter().map(move |record| (run, record))) {
            let sample = (run.manifest.task.name.clone(), record.sample.uid.clone());
            let Some(video) = videos.get(&sample) else {
                unknown.insert(&record.sample.video);
                continue;
            };
            let calls = record.transcript.tool_calls.iter().flat_map(rows::frames_of).copied();
            let indices = overview(record).into_iter().chain(calls).map(|frame| frame.index);
            wanted.entry(&record.sample.video).or_insert((video, BTreeSet::new())).1.extend(indices);
        }
        wanted.retain(|_, (_, indices)| !indices.is_empty());
        let videos: Vec<_> = wanted.into_iter().enumerate().collect();
        let written = videos
            .into_par_iter()
            .map(|(number, (name, (video, indices)))| {
                let indices: Vec<usize> = indices.into_iter().collect();
                // Opening a named pipe would block until there is a writer.
                let frames = if video.is_file() { jpegs(video, &indices) } else { Vec::new() };
                Ok((name.to_owned(), of_video(number, frames, dir)?))
            })
            .collect::<std::io::Result<BTreeMap<_, _>>>()?;
        let unreadable = written.values().filter(|frames| frames.is_empty()).count();
        Ok(Self { found: written, unreadable, unknown: unknown.len() })
    }

    /// Path of the thumbnail of a frame, below the folder that they were written into.
    pub fn path(&self, record: &Record, index: usize) -> Option<&str> {
        self.found.get(&record.sample.video)?.get(&index).map(String::as_str)
    }

    /// Those of a sample's overview.
    pub fn overview(&self, record: &Record) -> Vec<Thumbnail> {
        self.of(record, &overview(record))
    }

    /// Those of a tool call's frames.
    pub fn crop(&self, record: &Record, call: &ToolCall) -> Vec<Thumbnail> {
        self.of(record, rows::frames_of(call))
    }

    fn of(&self, record: &Record, frames: &[FrameOrigin]) -> Vec<Thumbnail> {
        let Some(found) = self.found.get(&record.sample.video) else { return Vec::new() };
        let thumbnail = |frame: &FrameOrigin| {
            Some(Thumbnail((100.0 * frame.time).round() / 100.0, found.get(&frame.index)?.clone()))
        };
        frames.iter().filter_map(thumbnail).collect()
    }
}

/// Writes the frames of a video; their paths by index.
fn of_video(
    number: usize,
    frames: Vec<(usize, Vec<u8>)>,
    dir: &Path,
) -> std::io::Result<BTreeMap<usize, String>> {
    let mut written = BTreeMap::new();
    for (index, jpeg) in frames {
        make_dir(&dir.join("frames"))?;
        make_dir(&dir.join(format!("frames/v{number}")))?;
        let name = format!("frames/v{number}/{index}.jpg");
        write_atomic(&dir.join(&name), &jpeg)?;
        written.insert(index, name);
    }
    Ok(written)
}
