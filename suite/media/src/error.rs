//! Errors of reading a video.

use std::path::PathBuf;

/// Why there are no frames.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MediaError {
    /// The file cannot be opened or is not a media file.
    #[error("{path}: cannot be opened as a video: {message}", path = .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// FFmpeg's word.
        message: String,
    },
    /// The file holds no video.
    #[error("{path}: there is no video in this file", path = .path.display())]
    NoVideo {
        /// The file.
        path: PathBuf,
    },
    /// The request asks for what the video cannot give.
    #[error("{path}: {message}", path = .path.display())]
    Request {
        /// The file.
        path: PathBuf,
        /// Why.
        message: String,
    },
    /// The decoder returned no picture for a wanted frame.
    #[error("{path}: frame {index} cannot be decoded ({message}); the file may be damaged or cut off", path = .path.display())]
    Decode {
        /// The file.
        path: PathBuf,
        /// Zero-based index.
        index: usize,
        /// FFmpeg's word.
        message: String,
    },
    /// A frame could not be resized or encoded.
    #[error("frame {index}: {message}")]
    Convert {
        /// Zero-based index.
        index: usize,
        /// Why.
        message: String,
    },
}
