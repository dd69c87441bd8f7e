//! Video frames as qwen-vl-utils 0.0.14 samples them (`fetch_video` with its torchcodec reader and,
//! under [`Reader::Pinned`], the second one behind it), through FFmpeg: same indices, same sizes,
//! the same pixels but for rounding.
//!
//! Only the groups of pictures that hold a wanted frame are decoded, unwanted pictures that no other one refers
//! to are skipped, and independent groups run on all cores.
//!
//! ```
//! use paravt_media::{VideoRequest, frame_indices};
//!
//! // 4 of the 90 frames of a video of 3 seconds.
//! let indices = frame_indices(&VideoRequest::overview(4), 90, 30.0)?;
//! assert_eq!(indices, [0, 30, 59, 89]);
//! # Ok::<(), String>(())
//! ```

#![expect(
    unsafe_code,
    reason = "calls into FFmpeg, and fields of its structures, that ffmpeg-next does not wrap"
)]

mod boxes;
mod cache;
mod convert;
mod deadline;
mod decode;
mod demux;
mod error;
mod ffmpeg;
mod index;
mod integrity;
pub mod resample;
mod resize;
mod rules;
mod sample_table;
mod second;
mod sequential;
#[cfg(test)]
mod testing;
mod timeline;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use cache::FrameCache;
pub use convert::{encode_jpeg, encode_png};
pub use deadline::TIME_LIMIT;
pub use error::MediaError;
pub use ffmpeg::load as load_ffmpeg;
pub use integrity::{Depth, check, header_seconds, inspect};
pub use resize::Resizer;
pub use rules::{Reader, Sampling, VideoRequest, frame_indices, linspace, paired_frames, smart_resize};

use deadline::Deadline;
use index::VideoIndex;
use resize::Precision;

/// One sampled frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Zero-based index in presentation order.
    pub index: usize,
    /// Presentation time in microseconds from the first frame.
    pub time_us: i64,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Pixels, (height, width, 3), 8 bits.
    pub rgb: Vec<u8>,
}

impl Frame {
    /// Presentation time in seconds from the first frame.
    pub fn time(&self) -> f64 {
        self.time_us as f64 * 1e-6
    }
}

/// Properties of a video.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VideoInfo {
    /// Width in pixels, as shown (after rotation).
    pub width: u32,
    /// Height in pixels, as shown.
    pub height: u32,
    /// Frames, counted in the file.
    pub frames: usize,
    /// Average frames per second: frames by the time they span.
    pub fps: f64,
    /// Seconds that the frames span.
    pub duration: f64,
    pub codec: String,
    /// Rotation in degrees that was applied, counter-clockwise.
    pub rotation: i32,
}

/// A video as readers with other rules report it (decord, ffprobe).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VideoFacts {
    /// Width in pixels, as shown (after rotation).
    pub width: u32,
    /// Height in pixels, as shown.
    pub height: u32,
    /// Frames, counted in the file.
    pub frames: usize,
    /// Average frames per second as the header has it; computed where it has none.
    pub rate: f64,
    /// Seconds of the video stream as the header has them; computed where it has none.
    pub stream_duration: f64,
    /// Seconds of the whole file, sound included, as its header has them; those of the video stream where it has none.
    pub file_duration: f64,
    /// Presentation time of the first frame in seconds, not moved to 0.
    pub first: f64,
    /// Presentation time of the last frame in seconds.
    pub last: f64,
}

/// What reading took.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReaderStats {
    /// Groups of pictures that hold a wanted frame.
    pub groups: usize,
    /// Packets sent to a decoder.
    pub packets: usize,
    /// Pictures that came out of a decoder.
    pub decoded: usize,
    /// Threads that decoded groups side by side.
    pub workers: usize,
    /// Seconds in all, indexing included.
    pub seconds: f64,
}

/// Sampled frames, mapped to what the caller keeps of them.
#[derive(Debug)]
pub struct Sampled<T = Frame> {
    /// In time order.
    pub frames: Vec<T>,
    pub info: VideoInfo,
    /// Frames per second of the sample (`sample_fps` upstream).
    pub sample_fps: f64,
    pub stats: ReaderStats,
    /// The first reader failed and the second one ([`Reader::Pinned`]) gave these frames.
    pub second_reader: bool,
}

/// An indexed video file; cheap to sample from again and again.
#[derive(Debug)]
pub struct VideoFile {
    path: PathBuf,
    index: VideoIndex,
    /// Where torchcodec 0.10 puts the frames in another order or at other times.
    pinned: Option<VideoIndex>,
    /// Time that opening it and each request may take.
    limit: Duration,
}

impl VideoFile {
    /// Reads the file's structure without decoding it.
    ///
    /// # Errors
    /// No such file, no video in it, or nothing readable.
    pub fn open(path: &Path) -> Result<Self, MediaError> {
        Self::open_within(path, TIME_LIMIT)
    }

    /// As [`open`](Self::open), with another limit to the time that this and each request take.
    ///
    /// # Errors
    /// As there, or the time is over ([`MediaError::Timeout`]).
    pub fn open_within(path: &Path, limit: Duration) -> Result<Self, MediaError> {
        let (index, pinned) = VideoIndex::read(path, Deadline::after(limit))?;
        Ok(Self { path: path.to_owned(), index, pinned, limit })
    }

    /// Properties of the video.
    pub fn info(&self) -> &VideoInfo {
        &self.index.info
    }

    fn index_of(&self, reader: Reader) -> &VideoIndex {
        self.pinned.as_ref().filter(|_| reader == Reader::Pinned).unwrap_or(&self.index)
    }

    /// The properties that a reader of the reference reports: its own frame rate, and the stored sides where it ignores
    /// the rotation.
    pub(crate) fn info_of(&self, reader: Reader) -> VideoInfo {
        let mut info = self.index_of(reader).info.clone();
        info.fps = reader.rate(info.fps);
        if reader == Reader::Pinned {
            if info.rotation.rem_euclid(180) == 90 {
                std::mem::swap(&mut info.width, &mut info.height);
            }
            info.rotation = 0;
        }
        info
    }

    /// Indices and size that a request comes to, where the first reader serves it.
    ///
    /// # Errors
    /// Where that reader raises: too few frames, an empty window, an extreme aspect ratio.
    pub fn plan(&self, request: &VideoRequest) -> Result<(Vec<usize>, (u32, u32)), MediaError> {
        let info = self.info_of(request.reader);
        let indices = frame_indices(request, info.frames, info.fps).map_err(MediaError::Request)?;
        let size = request.frame_size(indices.len(), info.width, info.height).map_err(MediaError::Request)?;
        Ok((indices, size))
    }

    /// The video as readers with other rules report it.
    pub fn facts(&self) -> VideoFacts {
        let info = self.info();
        let (first, last) = self.index.ends();
        let stream_duration = self.index.header_duration.unwrap_or(info.duration);
        VideoFacts {
            width: info.width,
            height: info.height,
            frames: info.frames,
            rate: if self.index.header_rate > 0.0 { self.index.header_rate } else { info.fps },
            stream_duration,
            file_duration: self.index.file_duration.unwrap_or(stream_duration),
            first,
            last,
        }
    }

    /// The frames of these indices, resized in 8 bits to this size (width, height), for callers with rules of
    /// their own.
    pub fn frames_at(&self, indices: &[usize], size: (u32, u32)) -> Result<Vec<Frame>, MediaError> {
        self.map_frames_at(indices, size, Ok)
    }

    /// The same of ascending indices, each mapped on the decoding threads.
    pub fn map_frames_at<T: Clone + Send>(
        &self,
        indices: &[usize],
        size: (u32, u32),
        map: impl Fn(Frame) -> Result<T, MediaError> + Sync,
    ) -> Result<Vec<T>, MediaError> {
        let (rotation, precision) = (self.info().rotation, Precision::Bytes);
        let deadline = Deadline::after(self.limit);
        let target = decode::Target { size, rotation, precision, exact: false, deadline };
        let found = decode::frames(&self.path, &self.index, indices, target, &map);
        deadline.check()?;
        Ok(found?.0)
    }

    /// Samples frames; `map` runs on the decoding threads, so that whole videos of pixels are never
    /// held. A window about as long as its sample can name a frame twice: its result is cloned.
    pub fn sample<T: Clone + Send>(
        &self,
        request: &VideoRequest,
        map: impl Fn(Frame) -> Result<T, MediaError> + Sync,
    ) -> Result<Sampled<T>, MediaError> {
        let started = Instant::now();
        let deadline = Deadline::after(self.limit);
        let sampled = match (self.first(request, deadline, &map), request.reader) {
            (Err(error), Reader::Pinned) => self.second(request, deadline, &map).map_err(|_| error),
            (sampled, _) => sampled,
        };
        deadline.check()?;
        let mut sampled = sampled?;
        sampled.stats.seconds = started.elapsed().as_secs_f64();
        Ok(sampled)
    }

    /// qwen-vl-utils' torchcodec reader.
    fn first<T: Clone + Send>(
        &self,
        request: &VideoRequest,
        deadline: Deadline,
        map: &(impl Fn(Frame) -> Result<T, MediaError> + Sync),
    ) -> Result<Sampled<T>, MediaError> {
        let pinned = request.reader == Reader::Pinned;
        let index = self.index_of(request.reader);
        if pinned && index.damaged {
            let message = "the demuxer reports damage before the end of the file".to_owned();
            return Err(MediaError::Open(message));
        }
        let (indices, size) = self.plan(request)?;
        let info = self.info_of(request.reader);
        let (rotation, precision) = (info.rotation, Precision::Floats);
        let target = decode::Target { size, rotation, precision, exact: pinned, deadline };
        let plain = !pinned || index.is_plain(&indices);
        let found = plain.then(|| decode::frames(&self.path, index, &indices, target, map));
        let (frames, stats) = match found {
            Some(found) if found.is_ok() || !pinned => found?,
            _ => sequential::frames(&self.path, index, &indices, target, map)?,
        };
        let span = request.span(info.frames, info.fps);
        let sample_fps = indices.len() as f64 / span.max(1) as f64 * info.fps;
        Ok(Sampled { frames, info, sample_fps, stats, second_reader: false })
    }

    /// qwen-vl-utils' torchvision reader, for what the first one fails at.
    fn second<T: Clone + Send>(
        &self,
        request: &VideoRequest,
        deadline: Deadline,
        map: &(impl Fn(Frame) -> Result<T, MediaError> + Sync),
    ) -> Result<Sampled<T>, MediaError> {
        let found = second::sample(&self.path, self.index_of(request.reader), request, deadline, map)?;
        let sample_fps = found.frames.len() as f64 / found.total.max(1) as f64 * found.fps;
        let info = self.info_of(request.reader);
        let stats = ReaderStats { workers: 1, ..ReaderStats::default() };
        Ok(Sampled { frames: found.frames, info, sample_fps, stats, second_reader: true })
    }
}

/// Properties of a video, without decoding it.
pub fn probe(path: &Path) -> Result<VideoInfo, MediaError> {
    Ok(VideoFile::open(path)?.index.info)
}

/// `fetch_video`: samples and resizes frames.
pub fn fetch_video(path: &Path, request: &VideoRequest) -> Result<Sampled, MediaError> {
    let started = Instant::now();
    let mut sampled = VideoFile::open(path)?.sample(request, Ok)?;
    sampled.stats.seconds = started.elapsed().as_secs_f64();
    Ok(sampled)
}

/// Number and size of the frames that a request comes to, without decoding.
pub fn planned_size(path: &Path, request: &VideoRequest) -> Result<(usize, u32, u32), MediaError> {
    let (indices, (width, height)) = VideoFile::open(path)?.plan(request)?;
    Ok((indices.len(), width, height))
}

/// Version of the FFmpeg libraries in use, e.g. `libavcodec 59.37.100`, or why they cannot be loaded.
pub fn ffmpeg_version() -> String {
    if let Err(message) = load_ffmpeg() {
        return message;
    }
    let version = ffmpeg_next::codec::version();
    format!("libavcodec {}.{}.{}", version >> 16, version >> 8 & 0xff, version & 0xff)
}

/// Whether the FFmpeg in use has a decoder of that name, e.g. `h264`.
pub fn can_decode(codec: &str) -> bool {
    load_ffmpeg().is_ok() && ffmpeg_next::decoder::find_by_name(codec).is_some()
}
