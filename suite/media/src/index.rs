//! The structure of a video file: every frame's time and the points where decoding can start.

use std::path::Path;

use ff::ffi;
use ffmpeg_next as ff;

use crate::deadline::Deadline;
use crate::demux::{Entry, Packet, open, read_noting};
use crate::error::MediaError;
use crate::timeline::{self, Clock};
use crate::{VideoInfo, sample_table};

/// All frames of a file in presentation order.
#[derive(Debug, Clone)]
pub(crate) struct VideoIndex {
    /// Frames by presentation time.
    pub entries: Vec<Entry>,
    /// Seconds of one unit of time, numerator and denominator.
    pub time_base: (i32, i32),
    /// Average frame rate as the header has it; 0 where it has none.
    pub header_rate: f64,
    /// Seconds of the stream as the header has them.
    pub header_duration: Option<f64>,
    /// Seconds of the whole file, sound included, as its header has them.
    pub file_duration: Option<f64>,
    /// The demuxer reported an error before the end of the file.
    pub damaged: bool,
    /// The video stream's index in the file.
    pub stream: usize,
    /// Packets carry presentation times; in AVI and its like only decoding times.
    pub has_pts: bool,
    /// All packets in file order, where the times of the entries are not the packets' own; else none.
    pub places: Vec<Place>,
    pub info: VideoInfo,
}

/// A packet of a file, and when its frame is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Presentation time of its entry.
    pub pts: i64,
    /// Byte of the file where it begins; negative where the demuxer does not say.
    pub position: i64,
    /// In bytes.
    pub size: usize,
}

/// A file's index, and that of torchcodec 0.10 where it orders the frames otherwise.
pub(crate) type Indices = (VideoIndex, Option<VideoIndex>);

impl VideoIndex {
    /// Takes the tables of an MP4 file where they can be trusted, or else walks over all packets
    /// without decoding any, as torchcodec's exact mode does. A file that is cut off gives the
    /// frames up to there.
    pub(crate) fn read(path: &Path, deadline: Deadline) -> Result<Indices, MediaError> {
        let (mut input, stream) = open(path, deadline)?;
        let (time_base, header_rate, header_duration, parameters, rotation) = {
            let video = input.stream(stream).ok_or(MediaError::NoVideo)?;
            (
                (video.time_base().numerator(), video.time_base().denominator()),
                rate(video.avg_frame_rate()),
                (video.duration() > 0).then(|| video.duration()),
                video.parameters(),
                rotation(&video),
            )
        };
        let (mut packets, mut damaged) = (Vec::new(), false);
        let tables = sample_table::entries(path, &mut input, stream);
        if tables.is_none() {
            (input, _) = open(path, deadline)?;
            let mut packet = ff::Packet::empty();
            while read_noting(&mut input, stream, &mut packet, &mut damaged) {
                packets.push(Packet::of(&packet));
            }
        }
        deadline.check()?;
        let file_duration = input.duration();
        let context = ff::codec::context::Context::from_parameters(parameters)
            .map_err(|e| MediaError::Open(e.to_string()))?;
        let codec = context.id();
        let decoder = context.decoder().video().map_err(|e| MediaError::Open(format!("no decoder: {e}")))?;
        let (mut width, mut height) = (decoder.width(), decoder.height());
        if rotation.rem_euclid(180) == 90 {
            std::mem::swap(&mut width, &mut height);
        }
        let codec = codec.name().to_owned();
        let (frames, fps, duration) = (0, 0.0, 0.0);
        let info = VideoInfo { width, height, frames, fps, duration, codec, rotation };
        let header_duration = header_duration.map(|duration| seconds(duration, time_base));
        // In microseconds.
        let file_duration = (file_duration > 0).then(|| file_duration as f64 / 1e6);
        let empty = Self {
            entries: Vec::new(),
            time_base,
            header_rate,
            header_duration,
            file_duration,
            damaged,
            stream,
            has_pts: packets.iter().all(|packet| packet.pts.is_some()),
            places: Vec::new(),
            info,
        };
        if let Some((entries, end)) = tables {
            return Ok((empty.with_frames(entries, end)?, None));
        }
        let clock = empty.clock(&input);
        let times = timeline::times(&packets, &clock, |at| timeline::counters_break(path, at));
        let corrected = times.map(|times| empty.clone().with_times(&packets, &times)).transpose()?;
        let end = packets.iter().filter_map(Packet::end).max().unwrap_or(0);
        let own = empty.with_frames(packets.iter().filter_map(Packet::entry).collect(), end)?;
        Ok(match corrected {
            Some(corrected) => (corrected, Some(own)),
            None => (own, None),
        })
    }

    /// What the container says of the stream's times.
    fn clock(&self, input: &ff::format::context::Input) -> Clock {
        // SAFETY: the context is open; an open one has a format, and both are plain fields.
        let (flags, wrap_bits) = unsafe {
            let format = (*input.as_ptr()).iformat;
            let stream = input.stream(self.stream).map_or(0, |stream| (*stream.as_ptr()).pts_wrap_bits);
            ((*format).flags, stream)
        };
        Clock {
            per_second: f64::from(self.time_base.1) / f64::from(self.time_base.0),
            wrap_bits,
            restarts: flags & ffi::AVFMT_TS_DISCONT != 0,
            delays: matches!(self.info.codec.as_str(), "mpeg1video" | "mpeg2video"),
        }
    }

    /// The index of these packets, shown at these times.
    fn with_times(mut self, packets: &[Packet], times: &[i64]) -> Result<Self, MediaError> {
        let shown = || packets.iter().zip(times);
        let place =
            |(packet, &pts): (&Packet, &i64)| Place { pts, position: packet.position, size: packet.size };
        self.places = shown().map(place).collect();
        self.has_pts = true;
        let entry = |(packet, &pts): (&Packet, &i64)| {
            // A seek goes to a byte of the file.
            Some(Entry { pts, key: packet.key && packet.position >= 0, ..packet.entry()? })
        };
        let end = shown().map(|(packet, pts)| pts.saturating_add(packet.duration)).max().unwrap_or(0);
        self.with_frames(shown().filter_map(entry).collect(), end)
    }

    /// The index of these frames, the last of which ends then.
    fn with_frames(mut self, mut entries: Vec<Entry>, end: i64) -> Result<Self, MediaError> {
        entries.sort_by_key(|entry| entry.pts);
        let Some(first) = entries.first().map(|entry| entry.pts) else {
            return Err(MediaError::Open("there is not one frame in it".to_owned()));
        };
        // Each end to seconds by itself, as torchcodec does: the last bit of the rate decides which
        // frame a whole second falls on.
        let duration = seconds(end, self.time_base) - seconds(first, self.time_base);
        // Frames without durations at one instant span no time: the header's rate is all there is.
        let fps = if duration > 0.0 { entries.len() as f64 / duration } else { self.header_rate };
        self.info = VideoInfo { frames: entries.len(), fps, duration, ..self.info };
        self.entries = entries;
        Ok(self)
    }

    /// Presentation times of the first and the last frame in seconds.
    pub(crate) fn ends(&self) -> (f64, f64) {
        let at = |entry: Option<&Entry>| entry.map_or(0.0, |entry| seconds(entry.pts, self.time_base));
        (at(self.entries.first()), at(self.entries.last()))
    }

    /// Microseconds of an entry from the first frame.
    pub(crate) fn time_us(&self, index: usize) -> i64 {
        self.us_from_start(self.entries[index].pts)
    }

    fn us_from_start(&self, pts: i64) -> i64 {
        (seconds(pts.saturating_sub(self.entries[0].pts), self.time_base) * 1e6).round() as i64
    }

    /// The last frame not after a time stamp, and the stamp's microseconds from the first frame.
    pub(crate) fn nearest(&self, pts: i64) -> (usize, i64) {
        let after = self.entries.partition_point(|entry| entry.pts <= pts);
        (after.saturating_sub(1), self.us_from_start(pts))
    }

    /// Whether every reader shows the frame that was asked for, as far as the packets' times say: each of `indices`
    /// has a key frame at or before it, and a time of its own.
    pub(crate) fn is_plain(&self, indices: &[usize]) -> bool {
        let time = |index: usize| self.entries.get(index).map(|entry| entry.pts);
        let alone = |&index: &usize| {
            time(index) != time(index + 1)
                && index.checked_sub(1).is_none_or(|before| time(before) != time(index))
        };
        let keyed = |&first: &usize| self.entries[self.start_of_group(first)].key;
        self.has_pts && indices.first().is_none_or(keyed) && indices.iter().all(alone)
    }

    /// The frame where decoding has to start for `index`: the last key frame not after it.
    pub(crate) fn start_of_group(&self, index: usize) -> usize {
        self.entries[..=index].iter().rposition(|entry| entry.key).unwrap_or(0)
    }
}

/// Time stamp to seconds: multiplied first, then divided, which rounds once.
fn seconds(pts: i64, (numerator, denominator): (i32, i32)) -> f64 {
    pts as f64 * f64::from(numerator) / f64::from(denominator)
}

/// A rational rate as a number; 0 where the header leaves it out (0/0).
fn rate(rate: ff::Rational) -> f64 {
    if rate.denominator() == 0 { 0.0 } else { f64::from(rate) }
}

/// Rotation of the display matrix in degrees, counter-clockwise, a multiple of 90.
fn rotation(stream: &ff::Stream<'_>) -> i32 {
    for data in stream.side_data() {
        let bytes = data.data();
        if data.kind() == ff::packet::side_data::Type::DisplayMatrix && bytes.len() >= 36 {
            let mut matrix = [0i32; 9];
            for (value, chunk) in matrix.iter_mut().zip(bytes.chunks_exact(4)) {
                *value = i32::from_ne_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
            }
            // SAFETY: the function reads nine integers from a pointer to nine integers.
            let degrees = unsafe { ffi::av_display_rotation_get(matrix.as_ptr()) };
            if degrees.is_finite() {
                return ((degrees / 90.0).round() as i32 * 90).rem_euclid(360);
            }
        }
    }
    0
}
