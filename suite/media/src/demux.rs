//! Packets of a file's video stream, in the order of the file: opened, read, sought.

use std::ffi::{CStr, CString};
use std::path::Path;
use std::ptr;

use ff::codec::{decoder, threading};
use ff::ffi;
use ff::packet::Ref as _;
use ffmpeg_next as ff;

use crate::deadline::Deadline;
use crate::error::MediaError;
use crate::ffmpeg::load;

/// One frame, as its packet says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Presentation time stamp in units of the stream.
    pub pts: i64,
    /// Decoding time stamp, what demuxers seek by.
    pub dts: i64,
    /// Decoding can start here.
    pub key: bool,
}

/// What a packet says of itself; times in units of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packet {
    pub pts: Option<i64>,
    pub dts: Option<i64>,
    pub duration: i64,
    pub key: bool,
    /// An edit list takes its frame away.
    pub discarded: bool,
    /// Byte of the file where it begins; negative where the demuxer does not say.
    pub position: i64,
    /// In bytes.
    pub size: usize,
}

impl Packet {
    pub(crate) fn of(packet: &ff::Packet) -> Self {
        // SAFETY: the packet is valid and `flags` a plain field; the wrapper's own flags leave this one out.
        let discarded = unsafe { (*packet.as_ptr()).flags } & ffi::AV_PKT_FLAG_DISCARD != 0;
        Self {
            pts: packet.pts(),
            dts: packet.dts(),
            duration: packet.duration(),
            key: packet.is_key(),
            discarded,
            position: packet.position() as i64,
            size: packet.size(),
        }
    }

    /// Its frame, unless an edit list takes it away or it has no time at all.
    pub(crate) fn entry(&self) -> Option<Entry> {
        let pts = self.pts.or(self.dts).filter(|_| !self.discarded)?;
        Some(Entry { pts, dts: self.dts.unwrap_or(pts), key: self.key })
    }

    /// When that frame ends.
    pub(crate) fn end(&self) -> Option<i64> {
        self.entry().map(|entry| entry.pts.saturating_add(self.duration))
    }
}

/// Opens a file with all streams but its best video one left aside.
pub(crate) fn open(
    path: &Path,
    deadline: Deadline,
) -> Result<(ff::format::context::Input, usize), MediaError> {
    let error = |error: ff::Error| MediaError::Open(error.to_string());
    load().map_err(MediaError::Open)?;
    // Opening a pipe would wait for a writer for ever; of a file that is not there, FFmpeg reads others.
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(MediaError::Open("not a regular file".to_owned())),
        Err(failed) => {
            return Err(error(ff::Error::Other { errno: failed.raw_os_error().unwrap_or_default() }));
        }
    }
    // The scheme keeps a name like `a:b.mp4` from being read as a URL; FFmpeg takes no other bytes than these.
    let plain = path.to_str().filter(|text| !text.contains('\0'));
    let name = plain.ok_or_else(|| MediaError::Open("the path is not UTF-8".to_owned()))?;
    // A picture whose name is a pattern (`a%03d.png`) is that picture, not the ones that the pattern names.
    let options = ff::Dictionary::from_iter([("pattern_type", "none")]);
    let url = CString::new(format!("file:{name}")).map_err(|error| MediaError::Open(error.to_string()))?;
    let opened = open_until(&url, options, deadline);
    deadline.check()?;
    let mut input = opened.map_err(error)?;
    let best = input.streams().best(ff::media::Type::Video).map(|stream| stream.index());
    let best = best.ok_or(MediaError::NoVideo)?;
    for mut stream in input.streams_mut() {
        if stream.index() != best {
            // SAFETY: the stream belongs to `input`, which is borrowed mutably and alive; `discard`
            // is a plain field that the demuxer reads at the next packet.
            unsafe { (*stream.as_mut_ptr()).discard = ffi::AVDiscard::AVDISCARD_ALL };
        }
    }
    Ok((input, best))
}

/// As `ff::format::input_with_dictionary`, given up when the time is over.
fn open_until(
    url: &CStr,
    options: ff::Dictionary<'_>,
    deadline: Deadline,
) -> Result<ff::format::context::Input, ff::Error> {
    // SAFETY: the context is ours until it is wrapped. `avformat_open_input` frees it where it fails and leaves the
    // options to their owner; the interrupt callback holds no pointer.
    unsafe {
        let mut context = ffi::avformat_alloc_context();
        if context.is_null() {
            return Err(ff::Error::Other { errno: ff::util::error::ENOMEM });
        }
        (*context).interrupt_callback = deadline.interrupt();
        let mut options = options.disown();
        let code = ffi::avformat_open_input(&mut context, url.as_ptr(), ptr::null_mut(), &mut options);
        drop(ff::Dictionary::own(options));
        if code < 0 {
            return Err(ff::Error::from(code));
        }
        let code = ffi::avformat_find_stream_info(context, ptr::null_mut());
        if code < 0 {
            ffi::avformat_close_input(&mut context);
            return Err(ff::Error::from(code));
        }
        Ok(ff::format::context::Input::wrap(context))
    }
}

/// A decoder of a file's stream.
pub(crate) fn decoder(
    input: &ff::format::context::Input,
    stream: usize,
    threads: threading::Config,
) -> Result<decoder::Video, MediaError> {
    let error = |error: ff::Error| MediaError::Open(error.to_string());
    let video = input.stream(stream).ok_or(MediaError::NoVideo)?;
    let mut context = ff::codec::context::Context::from_parameters(video.parameters()).map_err(error)?;
    context.set_threading(threads);
    let mut decoder = context.decoder();
    decoder.set_packet_time_base(video.time_base());
    decoder.video().map_err(error)
}

/// Damaged packets in a row after which a file is given up.
const DAMAGED_IN_A_ROW: usize = 1000;

/// The next packet of a stream; false at the end, or where nothing more can be read.
pub(crate) fn read(input: &mut ff::format::context::Input, stream: usize, packet: &mut ff::Packet) -> bool {
    read_noting(input, stream, packet, &mut false)
}

/// As [`read`]; `damaged` becomes true where the demuxer reported an error.
pub(crate) fn read_noting(
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
            // The demuxer continues behind a damaged packet; after too many in a row reading stops.
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

/// Moves a demuxer to the last key frame at or before a time in units of the stream.
pub(crate) fn seek(
    input: &mut ff::format::context::Input,
    stream: usize,
    target: i64,
) -> Result<(), ff::Error> {
    seek_by(input, stream, target, ffi::AVSEEK_FLAG_BACKWARD)
}

/// Moves a demuxer to a byte of the file.
pub(crate) fn seek_byte(
    input: &mut ff::format::context::Input,
    stream: usize,
    position: i64,
) -> Result<(), ff::Error> {
    seek_by(input, stream, position, ffi::AVSEEK_FLAG_BYTE)
}

fn seek_by(
    input: &mut ff::format::context::Input,
    stream: usize,
    target: i64,
    flags: i32,
) -> Result<(), ff::Error> {
    // SAFETY: the context is open and ours alone; the stream index is one of its streams.
    let code = unsafe { ffi::av_seek_frame(input.as_mut_ptr(), stream as i32, target, flags) };
    if code < 0 { Err(ff::Error::from(code)) } else { Ok(()) }
}
