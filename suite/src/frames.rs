//! Frames of a conversation: sampled, encoded once, shared.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::media::{
    Frame, FrameCache, MediaError, Sampled, TIME_LIMIT, VideoFacts, VideoRequest, encode_jpeg, encode_png,
    resample,
};
use crate::message::{FrameOrigin, Image};
use crate::protocol::{Encoding, Filter, Stored};

/// JPEG quality of the reference driver (`pil_to_b64`).
pub const JPEG_QUALITY: u8 = 85;

/// A source of frames. Blocking; called off the async threads.
pub trait FrameSource: Send + Sync {
    /// Samples and encodes frames.
    ///
    /// # Errors
    /// Why there are none.
    fn frames(&self, path: &Path, request: &VideoRequest) -> Result<Arc<FrameSet>, MediaError>;

    /// The video as an agent with a loop of its own knows it.
    ///
    /// # Errors
    /// It cannot be read, or the source has only frames of requests.
    fn facts(&self, path: &Path) -> Result<VideoFacts, MediaError> {
        let message = format!("{}: these frames are not chosen one by one", path.display());
        Err(MediaError::Request(message))
    }

    /// Frames that were chosen one by one.
    ///
    /// # Errors
    /// As [`facts`](Self::facts), or one cannot be decoded.
    fn pick(&self, path: &Path, _pick: &Pick) -> Result<FrameSet, MediaError> {
        Err(self.facts(path).err().unwrap_or(MediaError::NoVideo))
    }
}

/// Frames by their indices.
#[derive(Debug, Clone, PartialEq)]
pub struct Pick {
    /// Indices in the video, ascending.
    pub indices: Vec<usize>,
    /// Files in which the frames are kept before that.
    pub stored: Option<Stored>,
    /// Width and height of the frames.
    pub size: (u32, u32),
    /// Filter where that is not the size in the video, or in which they are kept.
    pub filter: Filter,
    /// Form in which they are sent.
    pub encoding: Encoding,
}

/// Encoded frames of one request.
#[derive(Debug)]
pub struct FrameSet {
    /// The images, in time order.
    pub images: Vec<Arc<Image>>,
    /// Duration of the whole video in seconds.
    pub duration: f64,
    /// Seconds that decoding and encoding took when the frames were made.
    pub seconds: f64,
    /// The first reader failed at the video and the second one gave these frames.
    pub second_reader: bool,
}

impl FrameSet {
    /// Positions of the images in the video.
    pub fn origins(&self) -> Vec<FrameOrigin> {
        self.images.iter().filter_map(|image| image.origin).collect()
    }
}

/// Bytes of encoded frames that are kept: about 25 overviews of 64 frames.
const CACHE_BYTES: usize = 512 << 20;

/// Frames through a cache that the questions about one video share. Decoding runs on one pool of
/// threads for all samples, so that many samples at once need no more memory than one.
pub struct CachedFrames {
    cache: FrameCache<FrameSet>,
}

impl Default for CachedFrames {
    fn default() -> Self {
        Self::within(TIME_LIMIT)
    }
}

impl CachedFrames {
    /// Frames of files that are given up when a request takes longer.
    pub fn within(limit: Duration) -> Self {
        Self { cache: FrameCache::new(CACHE_BYTES, limit) }
    }
}

impl FrameSource for CachedFrames {
    fn frames(&self, path: &Path, request: &VideoRequest) -> Result<Arc<FrameSet>, MediaError> {
        let encode = |frame: Frame| {
            let jpeg = encode_jpeg(&frame, JPEG_QUALITY)?;
            let origin = FrameOrigin { index: frame.index, time: frame.time() };
            Ok(Arc::new(Image::new("image/jpeg", jpeg, frame.width, frame.height, Some(origin))))
        };
        let finish = |sampled: Sampled<Arc<Image>>| {
            // Upper bound: JPEG bytes and the base64 URL that a server is sent.
            let bytes = sampled.frames.iter().map(|image| image.bytes.len() * 7 / 3).sum();
            let duration = sampled.info.duration;
            let seconds = sampled.stats.seconds;
            let second_reader = sampled.second_reader;
            (FrameSet { images: sampled.frames, duration, seconds, second_reader }, bytes)
        };
        self.cache.get_or_sample(path, request, encode, finish)
    }

    fn facts(&self, path: &Path) -> Result<VideoFacts, MediaError> {
        Ok(self.cache.file(path)?.facts())
    }

    fn pick(&self, path: &Path, pick: &Pick) -> Result<FrameSet, MediaError> {
        let started = Instant::now();
        let file = self.cache.file(path)?;
        let whole = (file.info().width, file.info().height);
        let images = file.map_frames_at(&pick.indices, whole, |frame| encode_picked(frame, pick))?;
        let seconds = started.elapsed().as_secs_f64();
        Ok(FrameSet { images, duration: file.info().duration, seconds, second_reader: false })
    }
}

fn encode_picked(frame: Frame, pick: &Pick) -> Result<Arc<Image>, MediaError> {
    let origin = FrameOrigin { index: frame.index, time: frame.time() };
    let (mut from, (width, height)) = ((frame.width, frame.height), pick.size);
    let failed = |message| MediaError::Convert { index: origin.index, message };
    let mut rgb = frame.rgb;
    if let Some(Stored { quality, size }) = pick.stored {
        rgb = resample::round_trip(&rgb, from, quality).map_err(failed)?;
        rgb = Filter::PillowBicubic.resize(&rgb, from, size).map_err(failed)?;
        from = size;
    }
    if from != pick.size {
        rgb = pick.filter.resize(&rgb, from, pick.size).map_err(failed)?;
    }
    let frame = Frame { width, height, rgb, ..frame };
    let (mime, bytes) = match pick.encoding {
        Encoding::Jpeg(quality) => ("image/jpeg", encode_jpeg(&frame, quality)?),
        Encoding::Png => ("image/png", encode_png(&frame)?),
    };
    Ok(Arc::new(Image::new(mime, bytes, width, height, Some(origin))))
}
