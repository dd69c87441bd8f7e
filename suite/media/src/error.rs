//! Errors of reading a video.

use std::time::Duration;

/// Why there are no frames. No variant names the file: a caller says which one, by the name that its reader knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MediaError {
    /// The file cannot be opened or is not a media file.
    #[error("cannot be opened as a video: {0}")]
    Open(String),
    /// The time limit is over.
    #[error("not decoded within {} s; the file may be damaged, or its disk slow", .limit.as_secs())]
    Timeout { limit: Duration },
    /// The file holds no video.
    #[error("the file has no video stream")]
    NoVideo,
    /// The request asks for what the video cannot give.
    #[error("{0}")]
    Request(String),
    /// The decoder returned no picture for a wanted frame.
    #[error("frame {index} cannot be decoded ({message}); the file may be damaged or cut off")]
    Decode { index: usize, message: String },
    /// A frame could not be resized or encoded.
    #[error("frame {index}: {message}")]
    Convert { index: usize, message: String },
}
