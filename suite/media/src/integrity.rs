//! Whether a video file is whole, without decoding all of it.

use std::path::Path;
use std::time::Duration;

use crate::deadline::{Deadline, TIME_LIMIT};
use crate::demux::open;
use crate::error::MediaError;
use crate::{Reader, VideoFile, VideoInfo, VideoRequest, sample_table};

/// Depth of [`check`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The container's header and, in MP4, that the file is as long as its index says.
    Header,
    /// Also decodes the first, two middle and the last frame, as each [`Reader`] does.
    Frames,
}

/// Checks a video file.
///
/// # Errors
/// It is not a regular file, not a video, cut off, has fewer frames than any request takes, or a frame cannot be
/// decoded by one of the readers.
pub fn check(path: &Path, depth: Depth) -> Result<(), MediaError> {
    whole(path, Deadline::after(TIME_LIMIT))?;
    match depth {
        Depth::Header => Ok(()),
        Depth::Frames => decode_ends(path, TIME_LIMIT).map(drop),
    }
}

/// Seconds that a video has by its header: the stream's, else the file's. `None` where neither says it, or the file
/// cannot be opened.
pub fn header_seconds(path: &Path) -> Option<f64> {
    let (input, stream) = open(path, Deadline::after(TIME_LIMIT)).ok()?;
    let video = input.stream(stream)?;
    let of_stream = (video.duration() > 0).then(|| video.duration() as f64 * f64::from(video.time_base()));
    of_stream.or_else(|| (input.duration() > 0).then(|| input.duration() as f64 / 1e6))
}

/// As [`check`] with [`Depth::Frames`], within a time: the properties of a sound video.
///
/// # Errors
/// As there, or the time is over ([`MediaError::Timeout`]).
pub fn inspect(path: &Path, limit: Duration) -> Result<VideoInfo, MediaError> {
    whole(path, Deadline::after(limit))?;
    decode_ends(path, limit)
}

/// Fails where the file is shorter than its index says.
fn whole(path: &Path, deadline: Deadline) -> Result<(), MediaError> {
    let (mut input, stream) = open(path, deadline)?;
    let wanted = sample_table::indexed_bytes(&mut input, stream);
    let length = std::fs::metadata(path).map_err(|error| MediaError::Open(error.to_string()))?.len();
    if wanted > length {
        return Err(MediaError::Open(format!("cut off: {length} of at least {wanted} bytes")));
    }
    Ok(())
}

/// Samples the first, two middle and the last frame as a run does.
fn decode_ends(path: &Path, limit: Duration) -> Result<VideoInfo, MediaError> {
    let file = VideoFile::open_within(path, limit)?;
    let request = VideoRequest::overview(file.info().frames.clamp(2, 4) & !1);
    let sample = |reader| file.sample(&request.with_reader(reader), |_| Ok(()));
    let pinned = sample(Reader::Pinned);
    // Where the pinned reader takes the same packets, it is the stricter one: what it shows, the other shows too.
    let same = file.pinned.is_none() && file.index.is_plain(&file.plan(&request)?.0);
    if !(same && pinned.as_ref().is_ok_and(|sampled| !sampled.second_reader)) {
        sample(Reader::Current)?;
    }
    pinned.map_err(|error| match error {
        MediaError::Timeout { .. } => error,
        error => MediaError::Request(format!("the readers of the profiles release and paper fail: {error}")),
    })?;
    Ok(file.index.info)
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
    #[ignore = "needs the ffmpeg program: run by ci/test"]
    fn a_file_that_takes_longer_than_its_limit_is_given_up() {
        let folder = tempfile::tempdir().expect("a folder");
        // One key frame alone: the last frame needs all others.
        let long = "-frames:v 500 -s 1920x1080 -c:v libx264 -preset ultrafast -g 100000";
        let path = encode(folder.path(), "long.mp4", long);
        let info = inspect(&path, Duration::from_secs(600)).expect("sound");
        assert_eq!((info.frames, info.codec.as_str()), (500, "h264"));
        for limit in [Duration::ZERO, Duration::from_millis(30)] {
            let started = std::time::Instant::now();
            assert_eq!(inspect(&path, limit), Err(MediaError::Timeout { limit }));
            assert!(started.elapsed() < limit + Duration::from_millis(500), "{:?}", started.elapsed());
        }
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
