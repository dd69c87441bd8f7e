//! Decodes the wanted frames: one group of pictures at a time, several groups side by side.

use std::collections::HashMap;
use std::path::Path;

use ff::codec::{decoder, discard::Discard, threading};
use ff::ffi;
use ffmpeg_next as ff;
use rayon::prelude::*;

use crate::convert::{Colours, Converter};
use crate::deadline::Deadline;
use crate::demux::{Packet, decoder, open, read, seek, seek_byte};
use crate::error::MediaError;
use crate::index::VideoIndex;
use crate::resize::Precision;
use crate::{Frame, ReaderStats};

/// Frames of one worker by index, and what they took.
type Part<T> = (Vec<(usize, T)>, ReaderStats);

/// Wanted frames of one group of pictures.
struct Group {
    /// Frame where decoding starts.
    start: usize,
    /// Wanted frames, ascending, each once.
    wanted: Vec<usize>,
}

/// Callback for each decoded picture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// Size (width, height) of the frames, after rotation.
    pub size: (u32, u32),
    /// Degrees to turn, counter-clockwise.
    pub rotation: i32,
    /// Resizing of the pictures.
    pub precision: Precision,
    /// Whatever could make torchcodec 0.10 show another picture is an error: damage, and a seek that does not reach
    /// its key frame. Else a packet that the decoder refuses costs its own picture.
    pub exact: bool,
    /// When the file is given up.
    pub deadline: Deadline,
}

/// Decodes `indices` (ascending, repeats allowed), converts to `target` and maps, in order.
pub(crate) fn frames<T: Clone + Send>(
    path: &Path,
    index: &VideoIndex,
    indices: &[usize],
    target: Target,
    map: &(impl Fn(Frame) -> Result<T, MediaError> + Sync),
) -> Result<(Vec<T>, ReaderStats), MediaError> {
    let groups = groups(index, indices);
    let cores = rayon::current_num_threads();
    let workers = groups.len().min(cores).max(1);
    let threads = (cores / workers).max(1);
    // Neighbouring groups stay together so that a worker reads forward through the file.
    let shares: Vec<&[Group]> = groups.chunks(groups.len().div_ceil(workers).max(1)).collect();
    let parts: Vec<Result<Part<T>, MediaError>> = shares
        .into_par_iter()
        .map(|share| {
            let mut worker = Worker::new(path, index, target, threads)?;
            let mut found = Vec::new();
            for group in share {
                worker.group(group, &mut |frame| {
                    let at = frame.index;
                    found.push((at, map(frame)?));
                    Ok(())
                })?;
            }
            Ok((found, worker.stats))
        })
        .collect();

    let mut stats = ReaderStats { groups: groups.len(), workers, ..ReaderStats::default() };
    let mut by_index = HashMap::new();
    for part in parts {
        let (found, part_stats) = part?;
        stats.packets += part_stats.packets;
        stats.decoded += part_stats.decoded;
        by_index.extend(found);
    }
    let missing = |index| undecoded(index, "the decoder returned no picture");
    let ordered = indices.iter().map(|&wanted| by_index.get(&wanted).cloned().ok_or_else(|| missing(wanted)));
    Ok((ordered.collect::<Result<_, _>>()?, stats))
}

/// Groups of pictures that hold a wanted frame.
fn groups(index: &VideoIndex, indices: &[usize]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for &wanted in indices {
        let start = index.start_of_group(wanted);
        match groups.last_mut() {
            Some(group) if group.start == start => {
                if group.wanted.last() != Some(&wanted) {
                    group.wanted.push(wanted);
                }
            }
            _ => groups.push(Group { start, wanted: vec![wanted] }),
        }
    }
    groups
}

/// Without presentation times a picture is known by the packet that brought it out: it serves the
/// first wanted time that this packet has reached, as in torchcodec.
fn due(picture: &ff::frame::Video, wanted: &HashMap<i64, Vec<usize>>) -> Option<i64> {
    // SAFETY: the picture owns a valid frame; `pkt_dts` is a plain field of it.
    let reached = unsafe { (*picture.as_ptr()).pkt_dts };
    wanted.keys().copied().filter(|time| *time <= reached).min()
}

/// The presentation time of a picture, as far as its packet or its neighbours' say.
fn shown_at(picture: &ff::frame::Video) -> Option<i64> {
    picture.pts().or(picture.timestamp())
}

/// Whether a decoder has nothing to give before the next packet.
pub(crate) fn is_waiting(error: ff::Error) -> bool {
    matches!(error, ff::Error::Other { errno } if errno == ff::util::error::EAGAIN)
}

/// Whether the decoder found damage in a picture.
fn is_damaged(picture: &ff::frame::Video) -> bool {
    // SAFETY: the picture owns a valid frame; both are plain fields of it.
    let (flags, errors) = unsafe { ((*picture.as_ptr()).flags, (*picture.as_ptr()).decode_error_flags) };
    flags & ffi::AV_FRAME_FLAG_CORRUPT != 0 || errors != 0
}

fn undecoded(index: usize, message: impl ToString) -> MediaError {
    MediaError::Decode { index, message: message.to_string() }
}

/// One demuxer and one decoder.
struct Worker<'a> {
    path: &'a Path,
    index: &'a VideoIndex,
    input: ff::format::context::Input,
    decoder: decoder::Video,
    converter: Converter,
    exact: bool,
    deadline: Deadline,
    /// Number of the next packet among the index's places.
    next: usize,
    /// A picture for frames that never come out: the last one where packets have no presentation times, else the first
    /// one since the seek.
    stand_in: Option<ff::frame::Video>,
    /// The decoder reported an error since the seek.
    refused: bool,
    /// Pictures since the seek that are shown after all wanted ones.
    behind: usize,
    stats: ReaderStats,
}

/// Pictures behind the wanted ones after which these do not come any more: no codec holds more back.
const BEHIND: usize = 16;

/// Packets after a seek to a byte within which the wanted one has to come.
const NEAR: usize = 64;

impl<'a> Worker<'a> {
    fn new(
        path: &'a Path,
        index: &'a VideoIndex,
        target: Target,
        threads: usize,
    ) -> Result<Self, MediaError> {
        let (input, stream) = open(path, target.deadline)?;
        let threads = threading::Config {
            kind: threading::Type::Frame,
            count: threads,
            ..threading::Config::default()
        };
        let decoder = decoder(&input, stream, threads)?;
        let converter = Converter::new(target.size, target.rotation, Colours::OfStream, target.precision);
        let stats = ReaderStats::default();
        Ok(Self {
            path,
            index,
            input,
            decoder,
            converter,
            exact: target.exact,
            deadline: target.deadline,
            next: 0,
            stand_in: None,
            refused: false,
            behind: 0,
            stats,
        })
    }

    /// Decodes one group up to its last wanted frame.
    fn group(
        &mut self,
        group: &Group,
        deliver: &mut dyn FnMut(Frame) -> Result<(), MediaError>,
    ) -> Result<(), MediaError> {
        // Damaged files give several frames the same time: one picture then serves them all.
        let mut wanted: HashMap<i64, Vec<usize>> = HashMap::new();
        for &index in &group.wanted {
            wanted.entry(self.index.entries[index].pts).or_default().push(index);
        }
        // Without presentation times nobody knows which packet is wanted: none is skipped. The H.264
        // decoder keeps its last pictures to itself where the file's very last packet was skipped:
        // what is still wanted then is decoded in full.
        let attempts: &[bool] = if self.index.has_pts { &[true, false] } else { &[false] };
        let (mut start, mut back) = (group.start, 1);
        loop {
            for &skip in attempts {
                self.seek(start)?;
                self.decode(&mut wanted, (start, group.start), skip, deliver)?;
                if wanted.is_empty() {
                    return Ok(());
                }
            }
            if !self.is_late(start, group.start) {
                break;
            }
            let mut keys = (0..start).rev().filter(|at| self.index.entries[*at].key);
            start = keys.nth(back - 1).unwrap_or(0);
            back *= 2;
        }
        // A file without presentation times may hold packets that give no picture: the last stands in. A recording
        // that begins between key frames has none for its first packets: the first one does.
        let before = |picture: &ff::frame::Video| shown_at(picture).as_ref() > wanted.keys().max();
        let lead = !self.exact && !self.refused;
        if let Some(picture) = self.stand_in.take()
            && (!self.index.has_pts || (lead && before(&picture)))
        {
            for index in wanted.drain().flat_map(|(_, indices)| indices) {
                deliver(self.converter.frame(&picture, index, self.index.time_us(index))?)?;
            }
            return Ok(());
        }
        let lost = wanted.values().flatten().min().copied().unwrap_or(group.start);
        Err(undecoded(lost, "the file ends before it"))
    }

    /// Whether the first picture since the seek to `start` is shown after the key frame of the group. With intra
    /// refresh pictures are whole only some time after the packet that counts as the key frame, and not all that come
    /// out then are: decoding has to start one key frame earlier, or more.
    fn is_late(&self, start: usize, group: usize) -> bool {
        let first = self.stand_in.as_ref().map(shown_at);
        let late = first.is_none_or(|first| first > Some(self.index.entries[group].pts));
        late && start > 0 && self.index.has_pts && !self.exact && !self.refused
    }

    /// Decodes from `start` until nothing of the group is wanted, the wanted pictures are over, or the file ends.
    fn decode(
        &mut self,
        wanted: &mut HashMap<i64, Vec<usize>>,
        (start, group): (usize, usize),
        skip: bool,
        deliver: &mut dyn FnMut(Frame) -> Result<(), MediaError>,
    ) -> Result<(), MediaError> {
        (self.stand_in, self.behind, self.refused) = (None, 0, false);
        let mut packet = ff::Packet::empty();
        let mut at_end = false;
        // Some decoders show what they make of pictures before the first key frame.
        let mut begun = self.exact || !self.index.entries.iter().any(|entry| entry.key);
        while !wanted.is_empty() && !at_end && self.behind < BEHIND {
            self.deadline.check()?;
            if read(&mut self.input, self.index.stream, &mut packet) {
                if let Some(place) = self.index.places.get(self.next) {
                    packet.set_pts(Some(place.pts));
                    self.next += 1;
                }
                begun |= packet.is_key();
                if !begun {
                    continue;
                }
                let needed = !skip || packet.pts().is_none_or(|pts| wanted.contains_key(&pts));
                self.decoder.skip_frame(if needed { Discard::Default } else { Discard::NonReference });
                self.stats.packets += 1;
                // A damaged packet costs its own picture; a wanted one is missed by the caller, by name.
                if let Err(error) = self.decoder.send_packet(&packet) {
                    if self.exact {
                        return Err(undecoded(start, error));
                    }
                    self.refused = true;
                }
            } else {
                at_end = true;
                let _ = self.decoder.send_eof();
            }
            self.receive(wanted, (start, group), deliver)?;
            if self.stand_in.is_some() && self.is_late(start, group) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes what the decoder has and delivers the wanted pictures.
    fn receive(
        &mut self,
        wanted: &mut HashMap<i64, Vec<usize>>,
        (start, group): (usize, usize),
        deliver: &mut dyn FnMut(Frame) -> Result<(), MediaError>,
    ) -> Result<(), MediaError> {
        let mut picture = ff::frame::Video::empty();
        let until = wanted.keys().max().copied();
        loop {
            match self.decoder.receive_frame(&mut picture) {
                Ok(()) => {}
                Err(error) if error == ff::Error::Eof || is_waiting(error) => return Ok(()),
                Err(error) if self.exact => return Err(undecoded(start, error)),
                Err(_) => {
                    self.refused = true;
                    return Ok(());
                }
            }
            self.stats.decoded += 1;
            // Pictures before the key frame may lack what they refer to in every reader.
            if self.exact && is_damaged(&picture) && picture.pts() >= Some(self.index.entries[start].pts) {
                return Err(undecoded(start, "the decoder reports damage"));
            }
            let pts = if self.index.has_pts { shown_at(&picture) } else { due(&picture, wanted) };
            self.behind += usize::from(self.index.has_pts && pts > until);
            let kept = self.stand_in.is_none() || !self.index.has_pts;
            if kept {
                self.stand_in = Some(std::mem::replace(&mut picture, ff::frame::Video::empty()));
                if self.is_late(start, group) {
                    return Ok(());
                }
            }
            let picture = self.stand_in.as_ref().filter(|_| kept).unwrap_or(&picture);
            for index in pts.and_then(|pts| wanted.remove(&pts)).into_iter().flatten() {
                let time_us = self.index.time_us(index);
                deliver(self.converter.frame(picture, index, time_us)?)?;
            }
        }
    }

    /// Moves to the packet of a key frame. Demuxers seek by decoding or presentation time as they
    /// please; where the first try lands behind the key frame, an earlier one is made.
    fn seek(&mut self, start: usize) -> Result<(), MediaError> {
        self.decoder.flush();
        if !self.index.places.is_empty() {
            return self.seek_to_place(start);
        }
        let entry = self.index.entries[start];
        let earlier = self.index.entries[..start].iter().rev().find(|entry| entry.key).map(|entry| entry.dts);
        // MP4 takes presentation times: asked for the decoding time it goes a whole group further back.
        for target in [Some(entry.pts), Some(entry.dts), earlier, Some(i64::MIN)].into_iter().flatten() {
            if self.seek_to(target).is_ok() && self.is_at_or_before(entry.pts, entry.dts) {
                return self.seek_to(target).map_err(|error| undecoded(start, error));
            }
            if self.exact {
                return Err(undecoded(start, "a seek to it ends behind it"));
            }
        }
        // No seek reaches it.
        self.rewind()
    }

    /// Goes on from the start of the file.
    fn rewind(&mut self) -> Result<(), MediaError> {
        (self.input, _) = open(self.path, self.deadline)?;
        self.next = 0;
        Ok(())
    }

    /// Moves to the packet of a key frame by its place in the file: its time is not the packet's own.
    fn seek_to_place(&mut self, start: usize) -> Result<(), MediaError> {
        let entry = self.index.entries[start];
        let number = self.index.places.iter().position(|place| place.pts == entry.pts);
        let Some(number) = number.filter(|_| entry.key) else { return self.rewind() };
        let place = self.index.places[number];
        let mut packet = ff::Packet::empty();
        // A byte within a stream can give parts of packets first; they are passed over the second time.
        let mut passed = None;
        if seek_byte(&mut self.input, self.index.stream, place.position).is_ok() {
            passed = (0..NEAR).find(|_| {
                let there = read(&mut self.input, self.index.stream, &mut packet);
                let found = Packet::of(&packet);
                there && (found.position, found.size) == (place.position, place.size)
            });
        }
        let again = |passed: &usize| {
            let found = seek_byte(&mut self.input, self.index.stream, place.position).is_ok();
            found && (0..*passed).all(|_| read(&mut self.input, self.index.stream, &mut packet))
        };
        if passed.as_ref().is_some_and(again) {
            self.next = number;
            return Ok(());
        }
        self.rewind()
    }

    fn seek_to(&mut self, target: i64) -> Result<(), ff::Error> {
        seek(&mut self.input, self.index.stream, target)
    }

    /// Whether the next packet of the video is not behind the wanted one.
    fn is_at_or_before(&mut self, pts: i64, dts: i64) -> bool {
        let mut packet = ff::Packet::empty();
        read(&mut self.input, self.index.stream, &mut packet)
            && packet.dts().map_or(packet.pts() <= Some(pts), |found| found <= dts)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::encode;
    use crate::{Sampling, VideoRequest, fetch_video};

    #[test]
    #[ignore = "needs the ffmpeg program: run by ci/test"]
    fn the_last_frame_comes_out_whatever_kind_of_picture_the_file_ends_with() {
        let folder = tempfile::tempdir().expect("a folder");
        for frames in 4..20 {
            let arguments = format!("-frames:v {frames} -c:v libx264 -bf 3 -g 250");
            let path = encode(folder.path(), &format!("{frames}.mp4"), &arguments);
            let mut request = VideoRequest::overview(4);
            request.sampling = Sampling::NFrames(4);
            let sampled = fetch_video(&path, &request).expect("all frames");
            assert_eq!(sampled.frames.last().map(|frame| frame.index), Some(frames - 1));
        }
    }
}
