//! Index and size rules of qwen-vl-utils 0.0.14 (`vision_process.py`), as pure functions.

use serde::{Deserialize, Serialize};

/// `FRAME_FACTOR`: frame counts are multiples of this.
const FRAME_FACTOR: usize = 2;
/// `SPATIAL_MERGE_SIZE`.
const MERGE: u32 = 2;
/// `VIDEO_MIN_TOKEN_NUM`, `VIDEO_MAX_TOKEN_NUM`: default pixels of a frame in units of the squared factor.
const VIDEO_TOKENS: (u64, u64) = (128, 768);
const MODEL_SEQ_LEN: f64 = 128_000.0;
/// `MAX_RATIO` of the sides.
const MAX_RATIO: f64 = 200.0;

/// Which frames.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sampling {
    /// This many, evenly spaced.
    NFrames(usize),
    /// At a rate, within bounds.
    Fps {
        /// Frames per second.
        fps: f64,
        min_frames: usize,
        /// Most frames; `None` is 768 or the video's frames, whichever is fewer.
        max_frames: Option<usize>,
    },
}

/// Which releases of qwen-vl-utils' two readers are imitated. They differ in frame rates, in turned
/// videos and in what follows a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reader {
    /// torchcodec 0.10.0 and torchvision 0.25.0, which ParaVT cf55249 pins. Frame rates pass through
    /// text with six decimals, the display matrix is ignored, and where torchcodec fails,
    /// `torchvision.io.read_video` reads the window a second time by its own rules.
    Pinned,
    /// torchcodec 0.17 and torchvision 0.28: the rate as computed, pictures upright, a failure is
    /// a failure (`read_video` is gone).
    #[default]
    Current,
}

impl Reader {
    /// The frame rate that the reader reports for a file whose frames come to `fps`.
    pub fn rate(self, fps: f64) -> f64 {
        match self {
            // `std::to_string` into JSON, and back: exact decimal rounding in both languages.
            Self::Pinned => format!("{fps:.6}").parse().unwrap_or(fps),
            Self::Current => fps,
        }
    }
}

/// A request for frames of a video: which ones, and in which size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VideoRequest {
    /// Which frames.
    pub sampling: Sampling,
    /// Window start in seconds.
    pub start: Option<f64>,
    /// Window end in seconds.
    pub end: Option<f64>,
    /// Fewest pixels of a frame.
    pub min_pixels: Option<u64>,
    /// Most pixels of a frame.
    pub max_pixels: Option<u64>,
    /// Most pixels of all frames.
    pub total_pixels: Option<f64>,
    /// 14 (Qwen2.5-VL, and what the reference driver leaves it at) or 16 (Qwen3-VL).
    pub image_patch_size: u32,
    /// Most bytes of a frame as it is encoded.
    pub max_bytes: Option<usize>,
    pub reader: Reader,
}

/// Bytes that the frames of one request may have as pixels: six times those of the 768 largest frames
/// of the default bounds.
const MAX_BYTES: u128 = 8 << 30;

impl VideoRequest {
    /// `fetch_video`'s defaults: 2 frames a second, 4 to 768 of them.
    pub fn at_default_rate() -> Self {
        Self {
            sampling: Sampling::Fps { fps: 2.0, min_frames: 4, max_frames: None },
            start: None,
            end: None,
            min_pixels: None,
            max_pixels: None,
            total_pixels: None,
            image_patch_size: 14,
            max_bytes: None,
            reader: Reader::Current,
        }
    }

    /// The same request to other readers.
    #[must_use]
    pub fn with_reader(self, reader: Reader) -> Self {
        Self { reader, ..self }
    }

    /// `get_frames` of the reference driver.
    pub fn overview(nframes: usize) -> Self {
        Self { sampling: Sampling::NFrames(nframes), ..Self::at_default_rate() }
    }

    /// `crop_frames` of the reference driver: one frame a second, small frames.
    pub fn crop(start: f64, end: f64, max_frames: usize) -> Self {
        Self {
            sampling: Sampling::Fps { fps: 1.0, min_frames: 1, max_frames: Some(max_frames) },
            start: Some(start),
            end: Some(end),
            min_pixels: Some(784),
            max_pixels: Some(50_176),
            ..Self::at_default_rate()
        }
    }

    /// Size of the `count` frames of a video of the given size, (width, height).
    ///
    /// # Errors
    /// Sides too unequal, bounds that contradict each other, or more pixels than memory could hold.
    pub fn frame_size(&self, count: usize, width: u32, height: u32) -> Result<(u32, u32), String> {
        let factor = self.image_patch_size * MERGE;
        let unit = f64::from(factor) * f64::from(factor);
        let min_pixels = self.min_pixels.map_or(VIDEO_TOKENS.0 as f64 * unit, |pixels| pixels as f64);
        let total = self.total_pixels.unwrap_or(MODEL_SEQ_LEN * unit * 0.9);
        let limit = (VIDEO_TOKENS.1 as f64 * unit).min(total / count as f64 * FRAME_FACTOR as f64);
        let limit = limit.max((min_pixels * 1.05).trunc());
        let max_pixels = self.max_pixels.map_or(limit, |pixels| (pixels as f64).min(limit));
        let (width, height) = smart_resize(width, height, factor, min_pixels, max_pixels)?;
        let bytes = count as u128 * u128::from(width) * u128::from(height) * 3;
        if bytes > MAX_BYTES {
            return Err(format!(
                "{count} frames of {width} by {height} pixels are {bytes} bytes, at most {MAX_BYTES} are made"
            ));
        }
        Ok((width, height))
    }

    /// Frames inside the window (all of them where the window is empty or wrong).
    pub(crate) fn span(&self, frames: usize, fps: f64) -> usize {
        frame_range(self, frames, fps).map_or(frames, |(start, end)| end - start + 1)
    }
}

/// Python's `round(number / factor) * factor` and its relatives.
fn by_factor(number: f64, factor: f64, round: fn(f64) -> f64) -> f64 {
    round(number / factor) * factor
}

/// `smart_resize`: (width, height), both multiples of `factor`, pixels within the bounds.
pub fn smart_resize(
    width: u32,
    height: u32,
    factor: u32,
    min_pixels: f64,
    max_pixels: f64,
) -> Result<(u32, u32), String> {
    if max_pixels < min_pixels {
        return Err(format!("at most {max_pixels} pixels, but at least {min_pixels}: contradictory bounds"));
    }
    let (w, h, factor) = (f64::from(width), f64::from(height), f64::from(factor));
    let ratio = w.max(h) / w.min(h);
    if ratio.is_nan() || ratio > MAX_RATIO {
        return Err(format!("sides of {width} by {height} are too unequal (at most {MAX_RATIO} to 1)"));
    }
    let mut h_bar = by_factor(h, factor, f64::round_ties_even).max(factor);
    let mut w_bar = by_factor(w, factor, f64::round_ties_even).max(factor);
    if h_bar * w_bar > max_pixels {
        let beta = (h * w / max_pixels).sqrt();
        h_bar = by_factor(h / beta, factor, f64::floor);
        w_bar = by_factor(w / beta, factor, f64::floor);
    } else if h_bar * w_bar < min_pixels {
        let beta = (min_pixels / (h * w)).sqrt();
        h_bar = by_factor(h * beta, factor, f64::ceil);
        w_bar = by_factor(w * beta, factor, f64::ceil);
    }
    if h_bar < 1.0 || w_bar < 1.0 {
        return Err(format!("{width} by {height} pixels cannot be reduced to {max_pixels}"));
    }
    Ok((w_bar as u32, h_bar as u32))
}

/// `calculate_video_frame_range`: first and last frame of the window.
fn frame_range(request: &VideoRequest, frames: usize, fps: f64) -> Result<(usize, usize), String> {
    if fps.is_nan() || fps <= 0.0 {
        return Err(format!("the video's frame rate is {fps}"));
    }
    if frames == 0 {
        return Err("the video has no frames".to_owned());
    }
    if request.start.is_none() && request.end.is_none() {
        return Ok((0, frames - 1));
    }
    let duration = frames as f64 / fps;
    // As Python's max(0.0, min(time, duration)), where NaN comes out as 0.
    let clamped = |time: f64| {
        let below = if duration < time { duration } else { time };
        if below > 0.0 { below } else { 0.0 }
    };
    let last = frames as f64 - 1.0;
    let start = request.start.map_or(0.0, |time| (clamped(time) * fps).ceil());
    let end = request.end.map_or(last, |time| (clamped(time) * fps).floor().min(last));
    if start >= end {
        return Err(format!(
            "the window from {:?} to {:?} s holds fewer than two frames (video: {duration:.2} s)",
            request.start.unwrap_or(0.0),
            request.end.unwrap_or(duration)
        ));
    }
    Ok((start as usize, end as usize))
}

/// Indices of the sampled frames (`smart_nframes` and `torch.linspace(…).round()`).
///
/// # Errors
/// As Python raises: fewer than two frames, or more than there are.
pub fn frame_indices(request: &VideoRequest, frames: usize, fps: f64) -> Result<Vec<usize>, String> {
    let (start, end) = frame_range(request, frames, fps)?;
    Ok(linspace(start, end, frame_count(request.sampling, end - start + 1, fps)?))
}

/// Frames that a request for `nframes` gets of a video that has them: an even number, since frames stand in pairs.
pub fn paired_frames(nframes: usize) -> usize {
    by_factor(nframes as f64, FRAME_FACTOR as f64, f64::round_ties_even) as usize
}

/// `smart_nframes`: how many of `total` frames.
pub(crate) fn frame_count(sampling: Sampling, total: usize, fps: f64) -> Result<usize, String> {
    let factor = FRAME_FACTOR as f64;
    let count = match sampling {
        Sampling::NFrames(nframes) => paired_frames(nframes) as f64,
        Sampling::Fps { fps: rate, min_frames, max_frames } => {
            let min = by_factor(min_frames as f64, factor, f64::ceil);
            let max = by_factor(max_frames.unwrap_or(total.min(768)) as f64, factor, f64::floor);
            let wanted = total as f64 / fps * rate;
            by_factor(wanted.max(min).min(max).min(total as f64), factor, f64::floor)
        }
    };
    if !(factor <= count && count <= total as f64) {
        return Err(format!("{count} frames asked for, {total} there (at least {FRAME_FACTOR} are needed)"));
    }
    Ok(count as usize)
}

/// `torch.linspace(start, end, count).round()`: single precision with fused multiply-add (as torch
/// has it on any processor of the last ten years), computed from the nearer end, ties to even.
pub fn linspace(start: usize, end: usize, count: usize) -> Vec<usize> {
    let (first, last) = (start as f32, end as f32);
    let step = (last - first) / (count - 1) as f32;
    (0..count)
        .map(|index| {
            let value = if index < count / 2 {
                step.mul_add(index as f32, first)
            } else {
                (-step).mul_add((count - index - 1) as f32, last)
            };
            value.round_ties_even() as usize
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn overviews_are_evenly_spaced_and_need_their_frames() {
        let indices = frame_indices(&VideoRequest::overview(64), 1000, 25.0).unwrap();
        assert_eq!((indices.len(), indices[0], indices[63]), (64, 0, 999));
        assert!(
            frame_indices(&VideoRequest::overview(64), 63, 25.0).unwrap_err().contains("64 frames asked for")
        );
        assert_eq!(VideoRequest::overview(64).frame_size(64, 1280, 720), Ok((1008, 560)));
    }

    #[test]
    fn crops_are_even_counts_within_bounds() {
        let crop = |start, end| {
            frame_indices(&VideoRequest::crop(start, end, 16), 1000, 25.0).map(|found| found.len())
        };
        assert_eq!(crop(10.0, 20.0), Ok(10));
        assert_eq!(crop(10.0, 20.9), Ok(10));
        assert_eq!(crop(0.0, 1e9), Ok(16));
        assert_eq!(crop(1.0, 1.5), Ok(2), "two at least");
        assert!(crop(20.0, 10.0).is_err() && crop(50.0, 60.0).is_err());
        assert_eq!(crop(f64::NAN, f64::INFINITY), Ok(16), "no start, no end: the whole video");
        assert!(crop(f64::NAN, f64::NAN).is_err());
    }

    #[test]
    fn source_points_use_fused_multiply_add_as_in_torch() {
        assert_eq!(linspace(0, 187_353, 62)[43], 132_069);
    }

    proptest! {
        #[test]
        fn indices_are_ordered_and_inside(frames in 1usize..200_000, count in 1usize..800, fps in 0.5f64..120.0) {
            if let Ok(indices) = frame_indices(&VideoRequest::overview(count), frames, fps) {
                prop_assert!(indices.is_sorted() && indices.iter().all(|index| *index < frames));
                prop_assert!(indices.len().is_multiple_of(2));
            }
        }

        #[test]
        fn windows_never_leave_the_video(frames in 1usize..10_000, start in -100f64..1e4, end in -100f64..1e4) {
            if let Ok(indices) = frame_indices(&VideoRequest::crop(start, end, 16), frames, 30.0) {
                prop_assert!(indices.iter().all(|index| *index < frames) && indices.len() <= 16);
            }
        }

        #[test]
        fn sizes_are_multiples_within_bounds(width in 16u32..5000, height in 16u32..5000) {
            if let Ok((w, h)) = VideoRequest::overview(64).frame_size(64, width, height) {
                prop_assert!(w.is_multiple_of(28) && h.is_multiple_of(28));
                prop_assert!(u64::from(w) * u64::from(h) <= 602_112);
            }
        }
    }
}
