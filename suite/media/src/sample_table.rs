//! The index of an MP4 file from its sample tables, without reading the pictures' data.

use std::path::Path;

use ff::ffi;
use ffmpeg_next as ff;

use crate::boxes;
use crate::demux::{Entry, Packet, read, seek};

/// Packets at the start of a file that must agree with the tables.
const COMPARED: usize = 64;

/// All frames in decoding order and the time at which the last one shown ends, or `None` where the tables are not sufficient (fragments, a truncated file, times that
/// FFmpeg computes otherwise): then the packets themselves have to be read.
///
/// FFmpeg's own index gives the order, the decoding times after edit lists, and the key frames; only
/// the composition offsets, which it keeps to itself, come from the file's boxes. Both ends of the
/// result are compared with real packets.
pub(crate) fn entries(
    path: &Path,
    input: &mut ff::format::context::Input,
    stream: usize,
) -> Option<(Vec<Entry>, i64)> {
    if !input.format().name().split(',').any(|name| name == "mp4") {
        return None;
    }
    let length = i64::try_from(std::fs::metadata(path).ok()?.len()).ok()?;
    let track = u32::try_from(input.stream(stream)?.id()).ok()?;
    let table = indexed(input, stream);
    // An edit list that cuts pictures away leaves fewer rows than samples.
    let offsets = boxes::composition_offsets(path, track, table.len())?;
    with_tail(input, stream, predicted(&table, &offsets, length)?)
}

/// The frames of an index, `None` where it names bytes behind the end of the file or times beyond all bounds.
fn predicted(table: &[Row], offsets: &[i64], length: i64) -> Option<Vec<Entry>> {
    // Negative offsets are shifted by FFmpeg so that no picture is shown before it is decoded.
    let shift = offsets.iter().copied().min().unwrap_or(0).min(0);
    let mut entries = Vec::with_capacity(table.len());
    for (row, offset) in table.iter().zip(offsets) {
        if row.position.checked_add(row.size)? > length {
            return None;
        }
        if !row.discarded {
            let pts = row.dts.checked_add(*offset)?.checked_sub(shift)?;
            entries.push(Entry { pts, dts: row.dts, key: row.key });
        }
    }
    Some(entries)
}

/// A row of FFmpeg's index.
#[derive(Debug, Clone)]
struct Row {
    position: i64,
    size: i64,
    dts: i64,
    key: bool,
    discarded: bool,
}

/// Bytes that a file must have for all frames of its index; 0 where the container has no such index.
pub(crate) fn indexed_bytes(input: &mut ff::format::context::Input, stream: usize) -> u64 {
    if !input.format().name().split(',').any(|name| name == "mp4") {
        return 0;
    }
    let ends = indexed(input, stream).into_iter().map(|row| row.position.saturating_add(row.size));
    u64::try_from(ends.max().unwrap_or(0)).unwrap_or(0)
}

fn indexed(input: &mut ff::format::context::Input, stream: usize) -> Vec<Row> {
    let Some(mut stream) = input.stream_mut(stream) else { return Vec::new() };
    // SAFETY: the stream belongs to `input`, which is borrowed mutably and alive; entries are copied
    // before anything else can change the index, and a null pointer is passed over.
    unsafe {
        let stream = stream.as_mut_ptr();
        let count = ffi::avformat_index_get_entries_count(stream);
        (0..count)
            .filter_map(|at| ffi::avformat_index_get_entry(stream, at).as_ref())
            .map(|entry| Row {
                position: entry.pos,
                size: i64::from(entry.size()),
                dts: entry.timestamp,
                key: entry.flags() & ffi::AVINDEX_KEYFRAME != 0,
                discarded: entry.flags() & ffi::AVINDEX_DISCARD_FRAME != 0,
            })
            .collect()
    }
}

/// The entries, and when the last one shown ends by its packet: the tables know differences of decoding times alone,
/// and a picture is decoded long before a pause that it is shown after. `None` where the first packets, or those from
/// the last key frame on, are not the ones predicted.
fn with_tail(
    input: &mut ff::format::context::Input,
    stream: usize,
    entries: Vec<Entry>,
) -> Option<(Vec<Entry>, i64)> {
    let same = |found: &[Packet], predicted: &[Entry]| {
        found.iter().filter_map(Packet::entry).eq(predicted.iter().copied())
    };
    let head = packets(input, stream, COMPARED);
    if !same(&head, entries.get(..head.len())?) {
        return None;
    }
    let last_key = entries.iter().rposition(|entry| entry.key)?;
    seek(input, stream, entries[last_key].dts).ok()?;
    let found = packets(input, stream, usize::MAX);
    let tail = found.get(found.len().checked_sub(entries.len() - last_key)?..)?;
    let last = tail.iter().max_by_key(|packet| packet.pts)?;
    let is_last = entries.iter().all(|entry| Some(entry.pts) <= last.pts);
    let end = last.pts?.checked_add(last.duration)?;
    (is_last && same(tail, &entries[last_key..])).then_some((entries, end))
}

/// Packets of frames that are shown, `most` at most.
fn packets(input: &mut ff::format::context::Input, stream: usize, most: usize) -> Vec<Packet> {
    let mut packet = ff::Packet::empty();
    let mut found = Vec::new();
    while found.len() < most && read(input, stream, &mut packet) {
        found.extend(Some(Packet::of(&packet)).filter(|packet| packet.entry().is_some()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadline::{Deadline, TIME_LIMIT};
    use crate::demux::open;
    use crate::testing::encode;
    use proptest::prelude::*;
    use std::process::Command;

    fn from_tables(path: &Path) -> Option<(Vec<Entry>, i64)> {
        let (mut input, stream) = open(path, Deadline::after(TIME_LIMIT)).expect("opens");
        entries(path, &mut input, stream)
    }

    fn from_packets(path: &Path) -> Vec<Packet> {
        let (mut input, stream) = open(path, Deadline::after(TIME_LIMIT)).expect("opens");
        packets(&mut input, stream, usize::MAX)
    }

    #[test]
    #[ignore = "needs the ffmpeg program: run by ci/test"]
    fn sample_tables_equal_the_packets() {
        let folder = tempfile::tempdir().expect("a folder");
        let paused = "-vsync vfr -c:v libx264 -sc_threshold 0 -g 50 -vf setpts='PTS+";
        let pauses = [
            ("key", format!("{paused}gte(N,450)*60/TB' -bf 3")),
            ("other", format!("{paused}gte(N,430)*60/TB' -bf 3")),
            ("several", format!("{paused}gte(N,100)*30/TB+gte(N,450)*20/TB+gte(N,490)*9/TB' -bf 8")),
            ("plain", format!("{paused}gte(N,450)*60/TB' -bf 0")),
            ("last", format!("{paused}eq(N,499)*30/TB' -bf 3")),
        ];
        for (name, arguments) in &pauses {
            let path = encode(folder.path(), &format!("{name}.mp4"), arguments);
            let ((predicted, end), found) = (from_tables(&path).expect(name), from_packets(&path));
            // FFmpeg up to 7.0 gives packets with offsets one duration; since then it is that to the next packet.
            let last = found.iter().max_by_key(|packet| packet.pts).expect(name);
            assert_eq!(Some(end), last.pts.map(|pts| pts + last.duration), "{name}");
            assert!(predicted.iter().copied().eq(found.iter().filter_map(Packet::entry)), "{name}");
        }
        for (name, arguments) in [
            ("b-frames.mp4", "-c:v libx264 -bf 3 -g 60"),
            ("one-key.mp4", "-c:v libx264 -bf 3 -g 9999 -sc_threshold 0"),
            ("open-gop.mp4", "-c:v libx264 -bf 3 -g 50 -x264-params open-gop=1"),
            ("negative-offsets.mp4", "-c:v libx264 -bf 3 -movflags negative_cts_offsets"),
            ("no-edit-list.mp4", "-c:v libx264 -bf 3 -use_editlist 0"),
            ("vfr.mp4", "-vf select='not(mod(n,3)*mod(n,7))' -vsync vfr -c:v libx264"),
            ("hevc.mp4", "-c:v libx265 -x265-params log-level=none"),
            ("short.mp4", "-frames:v 1 -c:v libx264"),
        ] {
            let path = encode(folder.path(), name, arguments);
            let ((predicted, end), found) = (from_tables(&path).expect(name), from_packets(&path));
            assert_eq!(Some(end), found.iter().filter_map(Packet::end).max(), "{name}");
            assert!(predicted.iter().copied().eq(found.iter().filter_map(Packet::entry)), "{name}");
        }
    }

    #[test]
    #[ignore = "needs the ffmpeg program: run by ci/test"]
    fn a_cut_by_edit_list_gives_the_frames_that_are_shown() {
        let folder = tempfile::tempdir().expect("a folder");
        let whole = encode(folder.path(), "whole.mp4", "-c:v libx264 -bf 2 -g 100");
        let cut = folder.path().join("cut.mp4");
        let mut copy = Command::new("ffmpeg");
        copy.args(["-loglevel", "error", "-ss", "5.5", "-i"]).arg(&whole).args(["-c", "copy"]).arg(&cut);
        assert!(copy.status().expect("ffmpeg runs").success());
        let shown = from_packets(&cut);
        if let Some((predicted, _)) = from_tables(&cut) {
            assert!(predicted.iter().copied().eq(shown.iter().filter_map(Packet::entry)));
        }
        assert!(shown.len() < from_packets(&whole).len());
    }

    #[test]
    #[ignore = "needs the ffmpeg program: run by ci/test"]
    fn sample_tables_larger_than_the_file_are_rejected() {
        let folder = tempfile::tempdir().expect("a folder");
        let whole = encode(folder.path(), "whole.mp4", "-c:v libx264 -movflags faststart");
        let bytes = std::fs::read(&whole).expect("reads");
        let cut = folder.path().join("cut.mp4");
        std::fs::write(&cut, &bytes[..bytes.len() / 2]).expect("writes");
        assert_eq!(from_tables(&cut), None);
        let fragmented = encode(folder.path(), "f.mp4", "-c:v libx264 -movflags frag_keyframe+empty_moov");
        assert_eq!(from_tables(&fragmented), None);
        let matroska = encode(folder.path(), "m.mkv", "-c:v libx264");
        assert_eq!(from_tables(&matroska), None);
    }

    proptest! {
        #[test]
        fn any_table_gives_the_rows_that_are_shown_or_nothing(
            rows in prop::collection::vec((any::<i64>(), any::<i32>(), any::<i64>(), any::<i64>(), any::<bool>()), 0..40),
            length in 0i64..,
        ) {
            let row = |&(position, size, dts, _, discarded): &(i64, i32, i64, i64, bool)| {
                Row { position, size: i64::from(size), dts, key: true, discarded }
            };
            let table: Vec<Row> = rows.iter().map(row).collect();
            let offsets: Vec<i64> = rows.iter().map(|row| row.3).collect();
            let shown = table.iter().filter(|row| !row.discarded).count();
            prop_assert!(predicted(&table, &offsets, length).is_none_or(|entries| entries.len() == shown));
        }
    }
}
