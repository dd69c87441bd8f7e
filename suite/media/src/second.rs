//! The reader that qwen-vl-utils falls back to: `torchvision.io.read_video` of torchvision 0.25.0 over
//! PyAV 15.1, which decodes a whole window by its time stamps and samples from what came out.
//!
//! It differs from the first reader in what it takes as the window (the frame before the start is
//! part of it unless a frame lies exactly there), in the rate (the header's), in the colours
//! (BT.601 whatever the stream says) and in damage (what came out before it counts). Where packets carry no
//! presentation times (AVI, program streams) PyAV's FFmpeg makes times up: in MPEG-1, -2 and -4 the decoding time
//! at which a picture comes out, in AVI later by the delay of MPEG-4; other codecs are refused here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ff::codec::{decoder, threading};
use ff::ffi;
use ffmpeg_next as ff;

use crate::convert::{Colours, Converter};
use crate::deadline::Deadline;
use crate::decode::is_waiting;
use crate::demux::{decoder, open, seek};
use crate::error::MediaError;
use crate::index::VideoIndex;
use crate::resize::Precision;
use crate::rules::{frame_count, linspace};
use crate::{Frame, VideoRequest};

/// Frames that are decoded behind the end of a window, for streams whose times are out of order.
const BEHIND: usize = 5;

/// Pictures that an MPEG-4 stream with B-frames is shown later than it is decoded.
const MPEG4_DELAY: i64 = 1;

/// A window in units of the stream's time, ends included.
struct Window {
    start: i64,
    /// `None` is the end of the file.
    end: Option<i64>,
}

/// Frames of the second reader, mapped, and how many there were to choose from.
pub(crate) struct Second<T> {
    /// In time order.
    pub frames: Vec<T>,
    /// Frames in the window.
    pub total: usize,
    /// Frame rate of the header.
    pub fps: f64,
}

/// Samples a request as `_read_video_torchvision` does.
///
/// # Errors
/// Where Python raises: a window that is reversed, not finite or holds fewer than two frames, no
/// frame rate in the header, frames without times or of several sizes.
pub(crate) fn sample<T: Clone>(
    path: &Path,
    index: &VideoIndex,
    request: &VideoRequest,
    deadline: Deadline,
    map: &impl Fn(Frame) -> Result<T, MediaError>,
) -> Result<Second<T>, MediaError> {
    let window = Window::of(request, index).map_err(MediaError::Request)?;
    let mut sizes = BTreeSet::new();
    let mut times = BTreeSet::new();
    decode(path, &window, deadline, &mut |pts, picture| {
        sizes.insert((picture.width(), picture.height()));
        times.insert(pts);
        Ok(())
    })?;
    let times = window.choose(&times);
    let delay = if index.has_pts || index.info.codec != "mpeg4" { 0 } else { MPEG4_DELAY };
    let fps = index.header_rate;
    if fps <= 0.0 {
        return Err(MediaError::Request("the header has no frame rate".to_owned()));
    }
    let (Some(&(width, height)), 1) = (sizes.first(), sizes.len()) else {
        return Err(MediaError::Request(format!("the frames have {} different sizes", sizes.len())));
    };
    let count = frame_count(request.sampling, times.len(), fps).map_err(MediaError::Request)?;
    let size = request.frame_size(count, width, height).map_err(MediaError::Request)?;
    let chosen: Vec<i64> = linspace(0, times.len() - 1, count).into_iter().map(|at| times[at]).collect();
    let mut converter = Converter::new(size, 0, Colours::Bt601, Precision::Floats);
    let mut found = BTreeMap::new();
    decode(path, &window, deadline, &mut |pts, picture| {
        if chosen.contains(&pts) {
            let (at, time_us) = index.nearest(pts - delay);
            found.insert(pts, map(converter.frame(picture, at, time_us)?)?);
        }
        Ok(())
    })?;
    let missing = || MediaError::Request("the file decodes differently each time".to_owned());
    let frames = chosen.iter().map(|pts| found.get(pts).cloned().ok_or_else(missing));
    Ok(Second { frames: frames.collect::<Result<_, _>>()?, total: times.len(), fps })
}

impl Window {
    /// Seconds to units as Python does: floor of the start, ceiling of the end.
    fn of(request: &VideoRequest, index: &VideoIndex) -> Result<Self, String> {
        let (start, end) = (request.start.unwrap_or(0.0), request.end.unwrap_or(f64::INFINITY));
        if end < start {
            return Err(format!("the window ends at {end} s, before it starts at {start} s"));
        }
        let per_second = f64::from(index.time_base.1) / f64::from(index.time_base.0);
        let units = |ticks: f64| {
            // Beyond this PyAV raises: the time stamp does not fit FFmpeg's integer.
            let fits = ticks.abs() < i64::MAX as f64;
            fits.then_some(ticks as i64).ok_or_else(|| format!("a window from {start} to {end} s"))
        };
        let end = if end == f64::INFINITY { None } else { Some(units((end * per_second).ceil())?) };
        Ok(Self { start: units((start * per_second).floor())?, end })
    }

    fn is_behind(&self, pts: i64) -> bool {
        self.end.is_some_and(|end| pts >= end)
    }

    /// The window's frames of those that came out.
    fn choose(&self, times: &BTreeSet<i64>) -> Vec<i64> {
        let inside = |pts: &&i64| **pts >= self.start && self.end.is_none_or(|end| **pts <= end);
        let before = times.range(..self.start).next_back();
        let before = before.filter(|_| self.start > 0 && !times.contains(&self.start));
        before.into_iter().chain(times.iter().filter(inside)).copied().collect()
    }
}

/// Hands out the pictures of a window, from a key frame before it up to a few behind it, until the
/// file ends or the first error.
fn decode(
    path: &Path,
    window: &Window,
    deadline: Deadline,
    deliver: &mut dyn FnMut(i64, &ff::frame::Video) -> Result<(), MediaError>,
) -> Result<(), MediaError> {
    let (mut input, stream) = open(path, deadline)?;
    // Threads over frames would hold pictures back that an error then loses.
    let threads = threading::Config { kind: threading::Type::Slice, ..threading::Config::default() };
    let mut decoder = decoder(&input, stream, threads)?;
    let target = window.start.saturating_sub(1).max(0).saturating_sub(BEHIND as i64).max(0);
    if seek(&mut input, stream, target).is_err() {
        return Ok(());
    }
    let mut behind = 0;
    let made_up =
        matches!(decoder.id(), ff::codec::Id::MPEG1VIDEO | ff::codec::Id::MPEG2VIDEO | ff::codec::Id::MPEG4);
    let mut last = None;
    loop {
        let mut packet = ff::Packet::empty();
        let (sent, at_end) = match packet.read(&mut input) {
            Ok(()) if packet.stream() != stream => continue,
            Ok(()) => (decoder.send_packet(&packet), false),
            Err(ff::Error::Eof) => (decoder.send_eof(), true),
            Err(_) => return Ok(()),
        };
        if sent.is_err() {
            return Ok(());
        }
        // The pictures of one packet count together: an error among them loses all.
        let Some(pictures) = pictures(&mut decoder) else { return Ok(()) };
        for picture in pictures {
            let without = || MediaError::Request("the file's frames have no times".to_owned());
            // SAFETY: the picture owns a valid frame; `pkt_dts` is a plain field of it.
            let decoded =
                Some(unsafe { (*picture.as_ptr()).pkt_dts }).filter(|time| *time != ffi::AV_NOPTS_VALUE);
            let made = decoded.or(last.map(|last: i64| last + 1)).filter(|_| made_up);
            let pts = picture.pts().or(made).ok_or_else(without)?;
            last = Some(pts);
            deliver(pts, &picture)?;
            if window.is_behind(pts) {
                if behind == BEHIND {
                    return Ok(());
                }
                behind += 1;
            }
        }
        if at_end {
            return Ok(());
        }
    }
}

/// What the decoder has after one packet; `None` where it reports an error.
fn pictures(decoder: &mut decoder::Video) -> Option<Vec<ff::frame::Video>> {
    let mut found = Vec::new();
    loop {
        let mut picture = ff::frame::Video::empty();
        match decoder.receive_frame(&mut picture) {
            Ok(()) => found.push(picture),
            Err(ff::Error::Eof) => return Some(found),
            Err(error) if is_waiting(error) => return Some(found),
            Err(_) => return None,
        }
    }
}
