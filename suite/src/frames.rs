//! Frames of a conversation: sampled, encoded once, shared.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::media::{
    Frame, FrameCache, MediaError, Sampled, TIME_LIMIT, VideoFacts, VideoRequest, encode_jpeg, encode_png,
    resample,
};
use crate::message::{FrameOrigin, Image, read_image};
use crate::protocol::{Encoding, Filter, Stored};

/// JPEG quality of the reference driver (`pil_to_b64`).
pub const JPEG_QUALITY: u8 = 85;

/// A source of frames. Blocking; called off the async threads.
pub trait FrameSource: Send + Sync {
    /// Samples and encodes frames.
    fn frames(&self, path: &Path, request: &VideoRequest) -> Result<Arc<FrameSet>, MediaError>;

    /// The video as an agent with a loop of its own knows it.
    ///
    /// # Errors
    /// It cannot be read, or the source has only frames of requests.
    fn facts(&self, path: &Path) -> Result<VideoFacts, MediaError> {
        let message = format!("{}: these frames are not chosen one by one", path.display());
        Err(MediaError::Request(message))
    }

    /// An image as it lies in its file; JPEG where it has more than `max_bytes`.
    ///
    /// # Errors
    /// The file cannot be read or has a format that servers do not take; its JPEG exceeds the limit at the lowest quality,
    /// too; or the source has only frames of videos.
    fn image(&self, path: &Path, _max_bytes: Option<usize>) -> Result<Arc<Image>, MediaError> {
        Err(self.facts(path).err().unwrap_or(MediaError::NoVideo))
    }

    /// Frames that were chosen one by one, each of at most `max_bytes` in the form in which it is sent.
    fn pick(&self, path: &Path, _pick: &Pick, _max_bytes: Option<usize>) -> Result<FrameSet, MediaError> {
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
            let jpeg = jpeg_within(&frame, JPEG_QUALITY, request.max_bytes)?;
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

    fn image(&self, path: &Path, max_bytes: Option<usize>) -> Result<Arc<Image>, MediaError> {
        let (mime, bytes) = read_image(path).map_err(MediaError::Open)?;
        let file = self.cache.file(path)?;
        let (width, height) = (file.info().width, file.info().height);
        let (mime, bytes) = match max_bytes {
            Some(limit) if bytes.len() > limit => {
                let frame = file.frames_at(&[0], (width, height))?.into_iter().next();
                let jpeg = jpeg_within(&frame.ok_or(MediaError::NoVideo)?, LOWER_QUALITIES[0], max_bytes)?;
                ("image/jpeg", jpeg)
            }
            _ => (mime, bytes),
        };
        Ok(Arc::new(Image::new(mime, bytes, width, height, None)))
    }

    fn pick(&self, path: &Path, pick: &Pick, max_bytes: Option<usize>) -> Result<FrameSet, MediaError> {
        let started = Instant::now();
        let file = self.cache.file(path)?;
        let whole = (file.info().width, file.info().height);
        let images =
            file.map_frames_at(&pick.indices, whole, |frame| encode_picked(frame, pick, max_bytes))?;
        let seconds = started.elapsed().as_secs_f64();
        Ok(FrameSet { images, duration: file.info().duration, seconds, second_reader: false })
    }
}

/// JPEG qualities of frames that have too many bytes otherwise.
const LOWER_QUALITIES: [u8; 7] = [95, 75, 65, 55, 45, 35, 25];

/// JPEG of this quality, or of the highest lower one at which it has at most `limit` bytes.
fn jpeg_within(frame: &Frame, quality: u8, limit: Option<usize>) -> Result<Vec<u8>, MediaError> {
    let mut jpeg = encode_jpeg(frame, quality)?;
    let fits = |jpeg: &[u8]| limit.is_none_or(|limit| jpeg.len() <= limit);
    for lower in LOWER_QUALITIES.into_iter().filter(|lower| *lower < quality) {
        if fits(&jpeg) {
            break;
        }
        jpeg = encode_jpeg(frame, lower)?;
    }
    if fits(&jpeg) {
        return Ok(jpeg);
    }
    let message = format!("{} bytes at the lowest JPEG quality, more than --max-image-kb allows", jpeg.len());
    Err(MediaError::Convert { index: frame.index, message })
}

fn encode_picked(frame: Frame, pick: &Pick, max_bytes: Option<usize>) -> Result<Arc<Image>, MediaError> {
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
        Encoding::Jpeg(quality) => ("image/jpeg", jpeg_within(&frame, quality, max_bytes)?),
        Encoding::Png => match encode_png(&frame)? {
            png if max_bytes.is_none_or(|limit| png.len() <= limit) => ("image/png", png),
            _ => ("image/jpeg", jpeg_within(&frame, LOWER_QUALITIES[0], max_bytes)?),
        },
    };
    Ok(Arc::new(Image::new(mime, bytes, width, height, Some(origin))))
}
