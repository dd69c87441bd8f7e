//! Presentation times of streams whose own do not say in which order their pictures are shown.
//!
//! Recordings put behind each other (`cat a.ts b.ts`): the clock starts again with each part, and here goes on where
//! the part before ended. MPEG-1 and MPEG-2 in program streams, which give few pictures a presentation time: the
//! demuxer knows when each is decoded, a B picture is shown at once, and any other when the next of them is decoded.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::Path;

use crate::demux::Packet;

/// Seconds that decoding times may go back without a new part.
const BACK: f64 = 0.1;
/// Seconds ahead that can be the start of a new part, as in the `ffmpeg` program (`-dts_delta_threshold`).
const AHEAD: f64 = 10.0;

/// What the container says of a stream's times.
pub(crate) struct Clock {
    /// Units in a second.
    pub per_second: f64,
    /// Bits of a time stamp, after which it begins at 0 again.
    pub wrap_bits: i32,
    /// Parts of a file may have clocks of their own.
    pub restarts: bool,
    /// Pictures are B pictures, shown when they are decoded, or shown when the next that is not one is decoded.
    pub delays: bool,
}

/// When each packet's picture is shown, in file order; `None` where every packet's own time says it, or nothing does.
/// `breaks` says whether the packets' counters break around a byte of the file.
pub(crate) fn times(packets: &[Packet], clock: &Clock, breaks: impl Fn(i64) -> bool) -> Option<Vec<i64>> {
    let dts: Vec<i64> =
        packets.iter().map(|packet| packet.dts.filter(|_| !packet.discarded)).collect::<Option<_>>()?;
    let parts = if clock.restarts {
        clock.parts(packets, &dts, breaks)
    } else {
        std::iter::once(0..packets.len()).collect()
    };
    let whole = packets.iter().all(|packet| packet.pts.is_some());
    if (whole && parts.len() < 2) || !(whole || clock.delays) {
        return None;
    }
    let (mut times, mut end) = (Vec::with_capacity(packets.len()), None);
    for part in parts {
        let own = presentation_times(&packets[part.clone()], &dts[part.clone()], clock.delays);
        let first = own.iter().copied().min()?;
        let shift = end.map_or(0, |end: i64| end.saturating_sub(first));
        let until =
            own.iter().zip(&packets[part]).map(|(pts, packet)| pts.saturating_add(packet.duration)).max()?;
        end = Some(until.saturating_add(shift));
        times.extend(own.into_iter().map(|pts| pts.saturating_add(shift)));
    }
    Some(times)
}

/// Presentation times of one part. Where pictures are delayed, one without a time, or with one that is not behind the
/// B pictures that follow it in the file, is shown at the next decoding time of a picture that is no B picture.
fn presentation_times(packets: &[Packet], dts: &[i64], delays: bool) -> Vec<i64> {
    let last = packets.last().zip(dts.last());
    let mut next = last.map_or(0, |(packet, dts)| dts.saturating_add(packet.duration));
    let mut between = i64::MIN;
    let mut times = Vec::with_capacity(packets.len());
    for (packet, &dts) in packets.iter().zip(dts).rev() {
        let own = packet.pts.filter(|&pts| !delays || pts <= dts || pts > between);
        let pts = own.unwrap_or(next);
        if pts > dts {
            (next, between) = (dts, i64::MIN);
        } else {
            between = between.max(pts);
        }
        times.push(pts);
    }
    times.reverse();
    times
}

impl Clock {
    /// Packets of each part. One odd time stamp among regular ones begins none.
    fn parts(&self, packets: &[Packet], dts: &[i64], breaks: impl Fn(i64) -> bool) -> Vec<Range<usize>> {
        let leaps = |from: Option<usize>, to: usize| {
            let step = |(from, to): (&i64, &i64)| self.seconds(*from, *to);
            let step = from.and_then(|from| dts.get(from)).zip(dts.get(to)).map(step);
            step.is_none_or(|step| !(-BACK..=AHEAD).contains(&step))
        };
        let begins = |&at: &usize| {
            let step = self.seconds(dts[at - 1], dts[at]);
            let new = step < -BACK || (step > AHEAD && packets[at].key && breaks(packets[at].position));
            new && leaps(Some(at - 1), at + 1) && leaps(at.checked_sub(2), at)
        };
        let starts: Vec<usize> = (1..packets.len()).filter(begins).collect();
        let ends = starts.iter().copied().chain([packets.len()]);
        [0].into_iter().chain(starts.iter().copied()).zip(ends).map(|(start, end)| start..end).collect()
    }

    /// Seconds from one time stamp to another, the shorter way round the clock.
    fn seconds(&self, from: i64, to: i64) -> f64 {
        let step = to.saturating_sub(from);
        let step = match self.wrap_bits {
            bits @ 1..=62 => (step.saturating_add(1 << (bits - 1))).rem_euclid(1 << bits) - (1 << (bits - 1)),
            _ => step,
        };
        step as f64 / self.per_second
    }
}

/// Bytes before and behind a place in which the counters of a transport stream are compared.
const AROUND: u64 = 1 << 16;

/// Whether the counters of a transport stream's packets break around a byte of the file: another recording begins
/// there, or packets are missing. False where no packets are found.
pub(crate) fn counters_break(path: &Path, at: i64) -> bool {
    let window = || {
        let start = u64::try_from(at).ok()?.saturating_sub(AROUND);
        let mut file = File::open(path).ok()?;
        file.seek(SeekFrom::Start(start)).ok()?;
        let mut bytes = Vec::new();
        file.take(2 * AROUND).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    };
    window().is_some_and(|bytes| packets_break(&bytes))
}

fn packets_break(bytes: &[u8]) -> bool {
    const SYNC: u8 = 0x47;
    // Plain, with a time before each packet, with a checksum behind it.
    let aligned = [188, 192, 204].into_iter().find_map(|length| {
        let synced = |start: &usize| (0..8).all(|packet| bytes.get(start + packet * length) == Some(&SYNC));
        (0..length).find(synced).map(|start| (start, length))
    });
    let Some((start, length)) = aligned else { return false };
    let mut counters: HashMap<u16, u8> = HashMap::new();
    bytes[start..].chunks_exact(length).any(|packet| {
        let stream = u16::from_be_bytes([packet[1] & 0x1f, packet[2]]);
        let has_data = packet[3] & 0x10 != 0;
        // Packets without data and those that only fill the rate are not counted; one may be sent twice.
        if packet[0] != SYNC || !has_data || stream == 0x1fff {
            return false;
        }
        let counter = packet[3] & 0x0f;
        let before = counters.insert(stream, counter);
        before.is_some_and(|before| counter != before && counter != (before + 1) % 16)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: Clock = Clock { per_second: 90_000.0, wrap_bits: 33, restarts: true, delays: true };

    /// Packets of 25 frames a second, `(pts, dts)` in frames; a negative `pts` is missing.
    fn packets(times: &[(i64, i64)]) -> Vec<Packet> {
        let packet = |(at, &(pts, dts)): (usize, &(i64, i64))| Packet {
            pts: (pts >= 0).then_some(pts * 3600),
            dts: Some(dts * 3600),
            duration: 3600,
            key: pts % 100 == 0,
            discarded: false,
            position: at as i64 * 188,
            size: 188,
        };
        times.iter().enumerate().map(packet).collect()
    }

    fn frames(times: &[(i64, i64)], breaks: bool) -> Option<Vec<i64>> {
        let found = super::times(&packets(times), &CLOCK, |_| breaks)?;
        Some(found.into_iter().map(|pts| pts / 3600).collect())
    }

    #[test]
    fn pictures_without_a_time_are_shown_when_the_next_that_is_not_b_is_decoded() {
        let times = [(1, 0), (4, 1), (2, 2), (3, 3), (-1, 4), (5, 5), (6, 6), (-1, 7), (8, 8), (9, 9)];
        assert_eq!(frames(&times, false), Some(vec![1, 4, 2, 3, 7, 5, 6, 10, 8, 9]));
        let misplaced = [(1, 0), (4, 1), (2, 2), (3, 3), (5, 4), (5, 5), (6, 6), (-1, 7)];
        assert_eq!(
            frames(&misplaced, false),
            Some(vec![1, 4, 2, 3, 7, 5, 6, 8]),
            "a time of the next picture"
        );
        let clock = Clock { delays: false, ..CLOCK };
        assert_eq!(super::times(&packets(&times), &clock, |_| false), None, "unknown in other codecs");
        assert_eq!(frames(&[(1, 0), (4, 1), (2, 2), (3, 3)], false), None, "nothing is missing");
    }

    #[test]
    fn a_part_begins_where_its_clock_does_and_goes_on_where_the_one_before_ended() {
        let part = |start: i64| [(start, start - 2), (start + 2, start - 1), (start + 1, start)];
        let joined = |starts: &[i64]| starts.iter().flat_map(|start| part(*start)).collect::<Vec<_>>();
        assert_eq!(frames(&joined(&[100, 0]), false), Some(vec![100, 102, 101, 103, 105, 104]));
        assert_eq!(frames(&joined(&[500, 100, 300]), false).map(|found| found[3]), Some(503), "smaller");
        // Ahead: a pause, unless the packets' counters break as well.
        assert_eq!(frames(&joined(&[100, 900]), false), None);
        assert_eq!(frames(&joined(&[100, 900]), true), Some(vec![100, 102, 101, 103, 105, 104]));
        assert_eq!(frames(&joined(&[100, 103]), true), None, "one recording in two files");
        let wrap = (1i64 << 33) / 3600;
        assert_eq!(
            frames(&[(wrap - 1, wrap - 1), (0, 0), (1, 1)], true),
            None,
            "the clock itself begins again"
        );
        assert_eq!(frames(&[(1, 1), (2, 2), (900, 900), (4, 4), (5, 5)], true), None, "one odd time stamp");
        assert_eq!(frames(&[(100, 100), (101, 101), (2, 2), (103, 103), (104, 104)], true), None);
    }

    #[test]
    fn counters_of_transport_packets_break_where_one_is_missing() {
        let packet = |counter: u8| {
            let mut bytes = [0xff; 188];
            bytes[..4].copy_from_slice(&[0x47, 1, 0, 0x10 | (counter % 16)]);
            bytes
        };
        let stream: Vec<[u8; 188]> = (0..40).map(packet).collect();
        let whole = [&[7; 50][..], &stream.concat()].concat();
        assert!(!packets_break(&whole));
        assert!(packets_break(&[&stream[..20], &stream[22..]].concat().concat()));
        assert!(!packets_break(&[&stream[..20], &stream[19..]].concat().concat()), "sent twice");
        assert!(!packets_break(&[1; 4000]));
    }
}
