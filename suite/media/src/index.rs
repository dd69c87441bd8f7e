//! The structure of a video file: every frame's time and the points where decoding can start.

use std::path::Path;

use ff::ffi;
use ff::packet::Ref as _;
use ffmpeg_next as ff;

use crate::error::MediaError;
use crate::ffmpeg::load;
use crate::{VideoInfo, sample_table};

/// One frame, as its packet says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Presentation time stamp in units of the stream.
    pub pts: i64,
    /// Decoding time stamp, what demuxers seek by.
    pub dts: i64,
    /// Duration in units of the stream.
    pub duration: i64,
    /// Decoding can start here.
    pub key: bool,
}

/// All frames of a file in presentation order.
#[derive(Debug, Clone)]
pub(crate) struct VideoIndex {
    /// Frames by presentation time.
    pub entries: Vec<Entry>,
    /// Seconds of one unit of time, numerator and denominator.
    pub time_base: (i32, i32),
    /// Average frame rate as the header has it; 0 where it has none.
    pub header_rate: f64,
    /// The demuxer reported an error before the end of the file.
    pub damaged: bool,
    /// The video stream's index in the file.
    pub stream: usize,
    /// Packets carry presentation times; in AVI and its like only decoding times.
    pub has_pts: bool,
    /// Properties of the video.
    pub info: VideoInfo,
}

/// Opens a file with all streams but its best video one left aside.
pub(crate) fn open(path: &Path) -> Result<(ff::format::context::Input, usize), MediaError> {
    let error = |error: ff::Error| MediaError::Open { path: path.to_owned(), message: error.to_string() };
    load().map_err(|message| MediaError::Open { path: path.to_owned(), message })?;
    // Opening a pipe would wait for a writer for ever.
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(MediaError::Open { path: path.to_owned(), message: "not a regular file".to_owned() });
    }
    // The scheme keeps a name like `a:b.mp4` from being read as a URL; FFmpeg takes no other bytes than these.
    let plain = path.to_str().filter(|text| !text.contains('\0'));
    let name = plain.ok_or_else(|| MediaError::Open {
        path: path.to_owned(),
        message: "the path is not UTF-8".to_owned(),
    })?;
    let mut input = ff::format::input(&format!("file:{name}")).map_err(error)?;
    let best = input.streams().best(ff::media::Type::Video).map(|stream| stream.index());
    let best = best.ok_or_else(|| MediaError::NoVideo { path: path.to_owned() })?;
    for mut stream in input.streams_mut() {
        if stream.index() != best {
            // SAFETY: the stream belongs to `input`, which is borrowed mutably and alive; `discard`
            // is a plain field that the demuxer reads at the next packet.
            unsafe { (*stream.as_mut_ptr()).discard = ffi::AVDiscard::AVDISCARD_ALL };
        }
    }
    Ok((input, best))
}

/// Damaged packets in a row after which a file is given up.
const DAMAGED_IN_A_ROW: usize = 1000;

/// The next packet of a stream; false at the end, or where nothing more can be read.
pub(crate) fn read(input: &mut ff::format::context::Input, stream: usize, packet: &mut ff::Packet) -> bool {
    read_noting(input, stream, packet, &mut false)
}

/// As [`read`]; `damaged` becomes true where the demuxer reported an error.
fn read_noting(
    input: &mut ff::format::context::Input,
    stream: usize,
    packet: &mut ff::Packet,
    damaged: &mut bool,
) -> bool {
    let mut in_a_row = 0;
    loop {
        // FFmpeg's read overwrites without freeing: an old packet has to go first.
        *packet = ff::Packet::empty();
        match packet.read(input) {
            Ok(()) if packet.stream() == stream => return true,
            Ok(()) => in_a_row = 0,
            Err(ff::Error::Eof) => return false,
            // The demuxer goes on behind a damaged packet; one that never gets anywhere is stopped.
            Err(ff::Error::InvalidData) if in_a_row < DAMAGED_IN_A_ROW => {
                *damaged = true;
                in_a_row += 1;
            }
            Err(_) => {
                *damaged = true;
                return false;
            }
        }
    }
}

/// The frame of a packet, unless an edit list takes it away or it has no time at all.
pub(crate) fn entry_of(packet: &ff::Packet) -> Option<Entry> {
    // SAFETY: the packet is valid and `flags` a plain field; the wrapper's own flags leave this one out.
    let discarded = unsafe { (*packet.as_ptr()).flags } & ffi::AV_PKT_FLAG_DISCARD != 0;
    let pts = packet.pts().or(packet.dts()).filter(|_| !discarded)?;
    let dts = packet.dts().unwrap_or(pts);
    Some(Entry { pts, dts, duration: packet.duration(), key: packet.is_key() })
}

/// Moves a demuxer to the last key frame at or before a time in units of the stream.
pub(crate) fn seek(
    input: &mut ff::format::context::Input,
    stream: usize,
    target: i64,
) -> Result<(), ff::Error> {
    // SAFETY: the context is open and ours alone; the stream index is one of its streams.
    let code =
        unsafe { ffi::av_seek_frame(input.as_mut_ptr(), stream as i32, target, ffi::AVSEEK_FLAG_BACKWARD) };
    if code < 0 { Err(ff::Error::from(code)) } else { Ok(()) }
}

impl VideoIndex {
    /// Takes the tables of an MP4 file where they can be trusted, or else walks over all packets
    /// without decoding any, as torchcodec's exact mode does. A file that is cut off gives the
    /// frames up to there.
    pub(crate) fn read(path: &Path) -> Result<Self, MediaError> {
        let (mut input, stream) = open(path)?;
        let error = |message: String| MediaError::Open { path: path.to_owned(), message };
        let (time_base, header_rate, parameters, rotation) = {
            let video = input.stream(stream).ok_or_else(|| MediaError::NoVideo { path: path.to_owned() })?;
            (
                (video.time_base().numerator(), video.time_base().denominator()),
                rate(video.avg_frame_rate()),
                video.parameters(),
                rotation(&video),
            )
        };
        let (mut has_pts, mut damaged) = (true, false);
        let mut entries = match sample_table::entries(path, &mut input, stream) {
            Some(entries) => entries,
            None => {
                (input, _) = open(path)?;
                let mut packet = ff::Packet::empty();
                let mut entries = Vec::new();
                while read_noting(&mut input, stream, &mut packet, &mut damaged) {
                    has_pts &= packet.pts().is_some();
                    entries.extend(entry_of(&packet));
                }
                entries
            }
        };
        entries.sort_by_key(|entry| entry.pts);
        let (Some(first), Some(end)) = (
            entries.first().map(|entry| entry.pts),
            entries.iter().map(|entry| entry.pts + entry.duration).max(),
        ) else {
            return Err(error("there is not one frame in it".to_owned()));
        };
        // Each end to seconds by itself, as torchcodec does: the last bit of the rate decides which
        // frame a whole second falls on.
        let duration = seconds(end, time_base) - seconds(first, time_base);
        let context =
            ff::codec::context::Context::from_parameters(parameters).map_err(|e| error(e.to_string()))?;
        let codec = context.id();
        let decoder = context.decoder().video().map_err(|e| error(format!("no decoder: {e}")))?;
        let (mut width, mut height) = (decoder.width(), decoder.height());
        if rotation.rem_euclid(180) == 90 {
            std::mem::swap(&mut width, &mut height);
        }
        let frames = entries.len();
        // Frames without durations at one instant span no time: the header's rate is all there is.
        let fps = if duration > 0.0 { frames as f64 / duration } else { header_rate };
        let codec = codec.name().to_owned();
        let info = VideoInfo { width, height, frames, fps, duration, codec, rotation };
        Ok(Self { entries, time_base, header_rate, damaged, stream, has_pts, info })
    }

    /// Microseconds of an entry from the first frame.
    pub(crate) fn time_us(&self, index: usize) -> i64 {
        self.us_from_start(self.entries[index].pts)
    }

    fn us_from_start(&self, pts: i64) -> i64 {
        (seconds(pts - self.entries[0].pts, self.time_base) * 1e6).round() as i64
    }

    /// The last frame not after a time stamp, and the stamp's microseconds from the first frame.
    pub(crate) fn nearest(&self, pts: i64) -> (usize, i64) {
        let after = self.entries.partition_point(|entry| entry.pts <= pts);
        (after.saturating_sub(1), self.us_from_start(pts))
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
