//! Frames as a probe shows them.

use std::path::Path;
use std::sync::Arc;

use super::Probe;
use crate::frames::{FrameSet, FrameSource, Pick};
use crate::media::{MediaError, VideoFacts, VideoRequest};
use crate::message::{FrameOrigin, Image};

/// A source of frames behind a probe. A frame's `origin` has the index of the picture that is shown and the time that
/// the model is given for it.
pub struct ProbedFrames {
    /// Where the frames come from.
    pub source: Arc<dyn FrameSource>,
    pub probe: Probe,
    /// Frames of the overview, of which `freeze` shows the middle one and `reverse` takes the length.
    pub nframes: usize,
}

impl FrameSource for ProbedFrames {
    fn frames(&self, path: &Path, request: &VideoRequest) -> Result<Arc<FrameSet>, MediaError> {
        match self.probe {
            Probe::Blind => Err(no_frames()),
            Probe::Freeze => self.frozen(path, request),
            Probe::Reverse => self.reversed(path, request),
            Probe::HalfFrames => self.source.frames(path, &self.probe.request(*request)),
            Probe::Shuffle(_) | Probe::NoneRight => self.source.frames(path, request),
        }
    }

    fn facts(&self, path: &Path) -> Result<VideoFacts, MediaError> {
        self.source.facts(path)
    }

    fn image(&self, path: &Path, max_bytes: Option<usize>) -> Result<Arc<Image>, MediaError> {
        self.source.image(path, max_bytes)
    }

    /// Under the probes that an agent's own loop can be run with; see [`Probe::changes_frames`].
    fn pick(&self, path: &Path, pick: &Pick, max_bytes: Option<usize>) -> Result<FrameSet, MediaError> {
        match self.probe {
            Probe::Blind => Err(no_frames()),
            _ => self.source.pick(path, pick, max_bytes),
        }
    }
}

fn no_frames() -> MediaError {
    MediaError::Request("no frames are shown under --probe blind".to_owned())
}

impl ProbedFrames {
    /// The overview, which the cache of the source has after its first request.
    fn overview(&self, path: &Path, request: &VideoRequest) -> Result<Arc<FrameSet>, MediaError> {
        self.source.frames(path, &VideoRequest::overview(self.nframes).with_reader(request.reader))
    }

    /// Number and times of the request, pictures of the overview's middle frame (of an even number the later one).
    fn frozen(&self, path: &Path, request: &VideoRequest) -> Result<Arc<FrameSet>, MediaError> {
        let (overview, wanted) = (self.overview(path, request)?, self.source.frames(path, request)?);
        let Some(middle) = overview.images.get(overview.images.len() / 2) else { return Ok(wanted) };
        let index = middle.origin.map(|origin| origin.index);
        let frozen = wanted.images.iter().map(|image| {
            let origin = image.origin.zip(index).map(|(origin, index)| FrameOrigin { index, ..origin });
            move_to(middle, origin)
        });
        Ok(with_images(&wanted, frozen.collect()))
    }

    /// The video from its last overview frame to its first: what is at `t` seconds is shown at `last - t`.
    fn reversed(&self, path: &Path, request: &VideoRequest) -> Result<Arc<FrameSet>, MediaError> {
        let overview = self.overview(path, request)?;
        let times = overview.images.iter().filter_map(|image| image.origin);
        let last = times.map(|origin| origin.time).fold(0.0, f64::max);
        let mirrored = |time: f64| (last - time).max(0.0);
        let request =
            VideoRequest { start: request.end.map(mirrored), end: request.start.map(mirrored), ..*request };
        let wanted = self.source.frames(path, &request)?;
        let backwards = wanted.images.iter().rev().map(|image| {
            let origin = image.origin.map(|origin| FrameOrigin { time: mirrored(origin.time), ..origin });
            move_to(image, origin)
        });
        Ok(with_images(&wanted, backwards.collect()))
    }
}

/// The picture at another place.
fn move_to(image: &Image, origin: Option<FrameOrigin>) -> Arc<Image> {
    Arc::new(Image::new(&image.mime, image.bytes.clone(), image.width, image.height, origin))
}

fn with_images(set: &FrameSet, images: Vec<Arc<Image>>) -> Arc<FrameSet> {
    Arc::new(FrameSet { images, ..*set })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten frames, one a second; each picture is its index. A crop has the frames of its window.
    struct Numbered;

    impl FrameSource for Numbered {
        fn frames(&self, _: &Path, request: &VideoRequest) -> Result<Arc<FrameSet>, MediaError> {
            let window = request.start.unwrap_or(0.0)..=request.end.unwrap_or(9.0);
            let inside = (0..10usize).filter(|index| window.contains(&(*index as f64)));
            let image = |index: usize| {
                let origin = FrameOrigin { index, time: index as f64 };
                Arc::new(Image::new("image/jpeg", vec![index as u8], 28, 28, Some(origin)))
            };
            let images = inside.map(image).collect();
            Ok(Arc::new(FrameSet { images, duration: 10.0, seconds: 0.0, second_reader: false }))
        }
    }

    /// Pictures and the times they are shown at.
    fn shown_under(probe: Probe, request: VideoRequest) -> Vec<(u8, f64)> {
        let source = ProbedFrames { source: Arc::new(Numbered), probe, nframes: 10 };
        let set = source.frames(Path::new("v"), &request).unwrap();
        let frames = set.images.iter().map(|image| {
            let origin = image.origin.unwrap();
            assert_eq!(origin.index, usize::from(image.bytes[0]), "the origin names the picture");
            (image.bytes[0], origin.time)
        });
        frames.collect()
    }

    #[test]
    fn a_frozen_video_is_its_middle_frame_also_in_crops() {
        let overview = shown_under(Probe::Freeze, VideoRequest::overview(10));
        assert_eq!(overview, (0..10).map(|time| (5, f64::from(time))).collect::<Vec<_>>());
        assert_eq!(shown_under(Probe::Freeze, VideoRequest::crop(1.0, 2.0, 16)), [(5, 1.0), (5, 2.0)]);
    }

    #[test]
    fn a_reversed_video_runs_backwards_under_ascending_times() {
        let overview = shown_under(Probe::Reverse, VideoRequest::overview(10));
        assert_eq!(overview, (0..10).map(|time| (9 - time, f64::from(time))).collect::<Vec<_>>());
        let crop = shown_under(Probe::Reverse, VideoRequest::crop(1.0, 3.0, 16));
        assert_eq!(crop, [(8, 1.0), (7, 2.0), (6, 3.0)], "the mirrored window");
    }

    #[test]
    fn a_blind_run_has_no_crops() {
        let source = ProbedFrames { source: Arc::new(Numbered), probe: Probe::Blind, nframes: 10 };
        let error = source.frames(Path::new("v"), &VideoRequest::crop(1.0, 2.0, 16)).unwrap_err();
        assert!(error.to_string().contains("--probe blind"), "{error}");
    }
}
