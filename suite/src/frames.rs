//! Frames of a conversation: sampled, encoded once, shared.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::media::{Frame, FrameCache, MediaError, Sampled, TIME_LIMIT, VideoRequest, encode_jpeg};
use crate::message::{FrameOrigin, Image};

/// JPEG quality of the reference driver (`pil_to_b64`).
pub const JPEG_QUALITY: u8 = 85;

/// A source of frames. Blocking; called off the async threads.
pub trait FrameSource: Send + Sync {
    /// Samples and encodes frames.
    ///
    /// # Errors
    /// Why there are none.
    fn frames(&self, path: &Path, request: &VideoRequest) -> Result<Arc<FrameSet>, MediaError>;
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
}
