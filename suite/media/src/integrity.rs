//! Whether a video file is whole, without decoding all of it.

use std::path::Path;

use crate::demux::open;
use crate::error::MediaError;
use crate::{VideoFile, sample_table};

/// Depth of [`check`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The container's header and, in MP4, that the file is as long as its index says.
    Header,
    /// Also decodes the first, a middle and the last frame.
    Frames,
}

/// Side in pixels of the frames that are decoded and thrown away.
const SIDE: u32 = 64;

/// Checks a video file.
///
/// # Errors
/// It is not a regular file, not a video, cut off, or a frame cannot be decoded.
pub fn check(path: &Path, depth: Depth) -> Result<(), MediaError> {
    let (mut input, stream) = open(path)?;
    let wanted = sample_table::indexed_bytes(&mut input, stream);
    let length = std::fs::metadata(path).map_err(|error| MediaError::Open(error.to_string()))?.len();
    if wanted > length {
        return Err(MediaError::Open(format!("cut off: {length} of at least {wanted} bytes")));
    }
    if depth == Depth::Frames {
        let file = VideoFile::open(path)?;
        let last = file.info().frames - 1;
        let mut indices = vec![0, last / 2, last];
        indices.dedup();
        file.frames_at(&indices, (SIDE, SIDE))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::encode;

    #[test]
    #[ignore = "needs the ffmpeg program: run by ci/test"]
    fn truncated_empty_and_foreign_files_are_detected() {
        let folder = tempfile::tempdir().expect("a folder");
        let cut = |name: &str, arguments: &str, keep: fn(usize) -> usize| {
            let whole = encode(folder.path(), name, arguments);
            for depth in [Depth::Header, Depth::Frames] {
                check(&whole, depth).expect(name);
            }
            let bytes = std::fs::read(&whole).expect("reads");
            std::fs::write(&whole, &bytes[..keep(bytes.len())]).expect("writes");
            check(&whole, Depth::Header).expect_err(name).to_string()
        };
        let fast = "-c:v libx264 -movflags faststart";
        for keep in [|_| 0, |_| 3000, |_| 30] {
            cut("header.mp4", fast, keep);
            cut("plain.mp4", "-c:v libx264", keep);
        }
        assert!(cut("half.mp4", fast, |length| length / 2).contains("cut off"));
        assert!(cut("last-byte.mp4", fast, |length| length - 1).contains("cut off"));
        let text = folder.path().join("text.mp4");
        std::fs::write(&text, "<html>404</html>").expect("writes");
        check(&text, Depth::Header).expect_err("text");
    }

    #[test]
    #[ignore = "needs the ffmpeg program: run by ci/test"]
    fn pictures_that_do_not_decode_are_found_when_frames_are_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = encode(folder.path(), "zeroed.mp4", "-c:v libx264 -movflags faststart");
        let mut bytes = std::fs::read(&path).expect("reads");
        let middle = bytes.len() / 4;
        bytes[middle..].fill(0);
        std::fs::write(&path, bytes).expect("writes");
        check(&path, Depth::Header).expect("the header is whole");
        check(&path, Depth::Frames).expect_err("zeros are not pictures");
    }

    #[test]
    fn a_pipe_is_refused_before_it_is_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe.mp4");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
        let error = check(&pipe, Depth::Header).expect_err("a pipe").to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
}
