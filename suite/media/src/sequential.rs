//! torchcodec 0.10.0 step by step, for the files in which its seeks decide which pictures come out.
//!
//! One decoder serves the indices in their order. An index that follows the one before takes the next
//! picture; for another one the reader seeks, unless the picture before has the same key frame, and takes
//! the first picture that is not before it. It seeks by the key frames that are shown and trusts the demuxer:
//! frames before the first of them (a cut by an edit list), or behind where a seek really ended (MPEG-TS),
//! are other frames than those that were asked for. An error of demuxer or decoder ends the request.

use std::path::Path;

use ff::codec::{decoder, threading};
use ffmpeg_next as ff;

use crate::convert::{Colours, Converter};
use crate::deadline::Deadline;
use crate::decode::{Target, is_waiting};
use crate::demux::{decoder, open, seek};
use crate::error::MediaError;
use crate::index::VideoIndex;
use crate::{Frame, ReaderStats};

/// `TORCHCODEC_NUM_THREADS` of qwen-vl-utils: how damage is concealed depends on it.
const THREADS: usize = 8;

/// Decodes `indices` (ascending, repeats allowed), converts to `target` and maps, in order.
pub(crate) fn frames<T: Clone>(
    path: &Path,
    index: &VideoIndex,
    indices: &[usize],
    target: Target,
    map: &impl Fn(Frame) -> Result<T, MediaError>,
) -> Result<(Vec<T>, ReaderStats), MediaError> {
    let fail = |index: usize, error: ff::Error| {
        let message = format!("torchcodec 0.10 raises here: {error}");
        MediaError::Decode { index, message }
    };
    let mut reader = Reader::open(path, index, target.deadline)?;
    let mut converter = Converter::new(target.size, target.rotation, Colours::OfStream, target.precision);
    let mut found: Vec<T> = Vec::with_capacity(indices.len());
    let mut before: Option<usize> = None;
    for &wanted in indices {
        if before == Some(wanted) {
            found.extend(found.last().cloned());
            continue;
        }
        if before.is_none_or(|before| wanted != before + 1) {
            reader.set_cursor(index.entries[wanted].pts).map_err(|error| fail(wanted, error))?;
        }
        before = Some(wanted);
        let picture = reader.next().map_err(|error| fail(wanted, error))?;
        found.push(map(converter.frame(&picture, wanted, index.time_us(wanted))?)?);
    }
    Ok((found, reader.stats))
}

struct Reader {
    input: ff::format::context::Input,
    stream: usize,
    decoder: decoder::Video,
    /// Times of the key frames that are shown, ascending.
    keys: Vec<i64>,
    /// Pictures before this time are passed over.
    cursor: i64,
    /// Time of the picture before; torchcodec begins with 0.
    last: i64,
    stats: ReaderStats,
}

impl Reader {
    fn open(path: &Path, index: &VideoIndex, deadline: Deadline) -> Result<Self, MediaError> {
        let (mut input, stream) = open(path, deadline)?;
        let threads = threading::Config {
            kind: threading::Type::Frame,
            count: THREADS,
            ..threading::Config::default()
        };
        let decoder = decoder(&input, stream, threads)?;
        // Where it stands after its first walk over the packets.
        seek(&mut input, 0, 0).map_err(|error| MediaError::Open(error.to_string()))?;
        let keys = index.entries.iter().filter(|entry| entry.key).map(|entry| entry.pts).collect();
        let stats = ReaderStats { workers: 1, ..ReaderStats::default() };
        Ok(Self { input, stream, decoder, keys, cursor: i64::MIN, last: 0, stats })
    }

    /// Number of key frames up to a time.
    fn keys_until(&self, time: i64) -> usize {
        self.keys.partition_point(|key| *key <= time)
    }

    fn set_cursor(&mut self, time: i64) -> Result<(), ff::Error> {
        self.cursor = time;
        let key = self.keys_until(time);
        if time > self.last && key > 0 && key == self.keys_until(self.last) {
            return Ok(());
        }
        self.stats.groups += 1;
        let target = self.keys.get(key.saturating_sub(1)).copied().unwrap_or(time);
        seek(&mut self.input, self.stream, target)?;
        self.decoder.flush();
        Ok(())
    }

    /// The next picture that is not before the cursor.
    fn next(&mut self) -> Result<ff::frame::Video, ff::Error> {
        let mut picture = ff::frame::Video::empty();
        loop {
            match self.decoder.receive_frame(&mut picture) {
                Ok(()) => {
                    self.stats.decoded += 1;
                    // SAFETY: the picture owns a valid frame; `pkt_dts` is a plain field of it.
                    let time = picture.pts().unwrap_or(unsafe { (*picture.as_ptr()).pkt_dts });
                    if time >= self.cursor {
                        self.last = time;
                        return Ok(picture);
                    }
                }
                Err(error) if is_waiting(error) => self.send()?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives the decoder the next packet, or the end of the file.
    fn send(&mut self) -> Result<(), ff::Error> {
        loop {
            let mut packet = ff::Packet::empty();
            match packet.read(&mut self.input) {
                Ok(()) if packet.stream() != self.stream => {}
                Ok(()) => {
                    self.stats.packets += 1;
                    return self.decoder.send_packet(&packet);
                }
                Err(ff::Error::Eof) => return self.decoder.send_eof(),
                Err(error) => return Err(error),
            }
        }
    }
}
