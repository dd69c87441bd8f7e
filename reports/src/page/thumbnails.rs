//! Frames as small JPEG files beside the page: those of the overview and of each crop, by the rules
//! that chose them for the model.
//!
//! A journal may come from somebody else, and the paths in it are never opened: the caller says where the
//! video of a sample lies in its own copy of the data.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use paravt_media::{Frame, MediaError, VideoFile, VideoRequest, encode_jpeg};
use paravt_suite::record::{Record, ToolOutcome};
use rayon::prelude::*;
use serde::Serialize;

use crate::runs::Run;

/// Pixels of a thumbnail.
const PIXELS: u64 = 168 * 168;
/// Frames kept of an overview, evenly.
const OVERVIEW: usize = 16;
/// Frames of a crop (the reference driver's limit).
const CROP: usize = 16;
const QUALITY: u8 = 75;

/// A thumbnail: time in seconds and path relative to the page. The path is made of numbers only.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Thumbnail(f64, String);

/// Thumbnails by what they show.
#[derive(Debug, Default)]
pub struct Thumbnails {
    found: BTreeMap<Key, Vec<Thumbnail>>,
    /// Videos of which nothing could be read.
    pub unreadable: usize,
    /// Videos that the caller's data does not have.
    pub unknown: usize,
}

/// Where the video of a sample lies on this machine: by split and uid.
pub type Videos = BTreeMap<(String, String), PathBuf>;

/// A video and a window in milliseconds; the whole video without.
type Key = (PathBuf, Option<(i64, i64)>);

fn key(record: &Record, window: Option<(f64, f64)>) -> Key {
    let milliseconds = |(start, end): (f64, f64)| ((1000.0 * start) as i64, (1000.0 * end) as i64);
    (record.sample.video.clone(), window.map(milliseconds))
}

/// Windows of the crops that returned frames.
fn windows(record: &Record) -> impl Iterator<Item = (f64, f64)> {
    record.transcript.tool_calls.iter().filter_map(|call| match call.outcome {
        ToolOutcome::Frames { .. } | ToolOutcome::Summary { .. } => Some((call.start?, call.end?)),
        _ => None,
    })
}

impl Thumbnails {
    /// Decodes and writes the thumbnails of all runs below `dir/frames`. A video that is not in `videos`
    /// or cannot be read has none and is counted.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(runs: &[Run], videos: &Videos, dir: &Path) -> std::io::Result<Self> {
        let mut wanted: BTreeMap<&Path, BTreeMap<Key, VideoRequest>> = BTreeMap::new();
        let mut unknown: BTreeSet<&Path> = BTreeSet::new();
        for run in runs {
            for record in &run.records {
                let sample = (run.manifest.task.name.clone(), record.sample.uid.clone());
                let Some(video) = videos.get(&sample) else {
                    unknown.insert(&record.sample.video);
                    continue;
                };
                let requests = wanted.entry(video).or_default();
                let reader = run.manifest.plan.switches.reader;
                let overview = VideoRequest::overview(run.manifest.plan.nframes).with_reader(reader);
                requests.insert(key(record, None), small(overview));
                for (start, end) in windows(record) {
                    let crop = VideoRequest::crop(start, end, CROP).with_reader(reader);
                    requests.insert(key(record, Some((start, end))), small(crop));
                }
            }
        }
        let videos: Vec<_> = wanted.into_iter().enumerate().collect();
        let written = videos
            .into_par_iter()
            .map(|(number, (video, requests))| of_video(number, video, requests, dir))
            .collect::<std::io::Result<Vec<_>>>()?;
        let unreadable = written.iter().filter(|found| found.is_empty()).count();
        Ok(Self { found: written.into_iter().flatten().collect(), unreadable, unknown: unknown.len() })
    }

    /// Those of a sample's overview.
    pub fn overview(&self, record: &Record) -> &[Thumbnail] {
        self.found.get(&key(record, None)).map_or(&[], Vec::as_slice)
    }

    /// Those of a crop.
    pub fn crop(&self, record: &Record, window: (f64, f64)) -> &[Thumbnail] {
        self.found.get(&key(record, Some(window))).map_or(&[], Vec::as_slice)
    }
}

fn small(request: VideoRequest) -> VideoRequest {
    VideoRequest { min_pixels: Some(784), max_pixels: Some(PIXELS), ..request }
}

fn of_video(
    number: usize,
    video: &Path,
    requests: BTreeMap<Key, VideoRequest>,
    dir: &Path,
) -> std::io::Result<Vec<(Key, Vec<Thumbnail>)>> {
    // Opening a named pipe would wait for a writer for ever.
    if !video.is_file() {
        return Ok(Vec::new());
    }
    let Ok(file) = VideoFile::open(video) else { return Ok(Vec::new()) };
    std::fs::create_dir_all(dir.join(format!("frames/v{number}")))?;
    let mut found = Vec::new();
    for (key, request) in requests {
        let encode = |frame: Frame| -> Result<_, MediaError> {
            Ok((frame.index, frame.time(), encode_jpeg(&frame, QUALITY)?))
        };
        let Ok(sampled) = file.sample(&request, encode) else { continue };
        let step = if key.1.is_none() { sampled.frames.len().div_ceil(OVERVIEW).max(1) } else { 1 };
        let mut thumbnails = Vec::new();
        for (index, time, jpeg) in sampled.frames.into_iter().step_by(step) {
            let name = format!("frames/v{number}/{index}.jpg");
            std::fs::write(dir.join(&name), jpeg)?;
            thumbnails.push(Thumbnail((100.0 * time).round() / 100.0, name));
        }
        found.push((key, thumbnails));
    }
    Ok(found)
}
