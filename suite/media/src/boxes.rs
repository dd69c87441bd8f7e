//! The boxes of an MP4 file that FFmpeg reads and has no interface for (ISO/IEC 14496-12).

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// Maximum bytes of a movie header; those of hours of video are far smaller.
const LARGEST_HEADER: u64 = 1 << 28;

/// Composition offsets of a track's samples in decoding order, in units of the track's time scale;
/// a file without the box shows every sample when it is decoded. `None` where the file is fragmented,
/// damaged, or no MP4.
pub(crate) fn composition_offsets(path: &Path, track: u32) -> Option<Vec<i64>> {
    let movie = movie_header(path)?;
    if child(&movie, *b"mvex").is_some() {
        return None;
    }
    let is_track = |trak: &&[u8]| child(trak, *b"tkhd").and_then(track_id) == Some(track);
    let trak = children(&movie).filter(|(kind, _)| kind == b"trak").map(|(_, body)| body).find(is_track)?;
    let table = [*b"mdia", *b"minf", *b"stbl"].into_iter().try_fold(trak, child)?;
    let samples = word(child(table, *b"stsz")?, 8)? as usize;
    let Some(offsets) = child(table, *b"ctts") else { return Some(vec![0; samples]) };
    let mut expanded = Vec::new();
    for run in offsets.get(8..)?.chunks_exact(8).take(word(offsets, 4)? as usize) {
        // Version 0 says unsigned; writers and FFmpeg agree on signed in both.
        let (count, offset) = (word(run, 0)? as usize, word(run, 4)? as i32);
        if expanded.len() + count > samples {
            return None;
        }
        expanded.resize(expanded.len() + count, i64::from(offset));
    }
    (expanded.len() == samples).then_some(expanded)
}

/// The body of `moov`, or `None` where there is none or the file is fragmented (`moof`).
fn movie_header(path: &Path) -> Option<Vec<u8>> {
    let mut file = File::open(path).ok()?;
    let end = file.metadata().ok()?.len();
    let (mut at, mut movie) = (0, None);
    while at + 8 <= end {
        let mut head = [0; 16];
        file.seek(SeekFrom::Start(at)).ok()?;
        let wide = end - at >= 16;
        file.read_exact(&mut head[..if wide { 16 } else { 8 }]).ok()?;
        let (header, size) = match u64::from(word(&head, 0)?) {
            0 => (8, end - at),
            1 if wide => (16, u64::from_be_bytes(head[8..].try_into().ok()?)),
            size => (8, size),
        };
        let next = at.checked_add(size).filter(|next| size >= header && *next <= end)?;
        match &head[4..8] {
            b"moof" => return None,
            b"moov" if size <= LARGEST_HEADER => {
                let mut body = vec![0; (size - header) as usize];
                file.seek(SeekFrom::Start(at + header)).ok()?;
                file.read_exact(&mut body).ok()?;
                movie = Some(body);
            }
            _ => {}
        }
        at = next;
    }
    movie
}

/// Boxes side by side: kind and body. Ends at the first that does not fit.
fn children(mut bytes: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let size = word(bytes, 0)? as usize;
        let kind = bytes.get(4..8)?.try_into().ok()?;
        let body = bytes.get(8..size)?;
        bytes = &bytes[size..];
        Some((kind, body))
    })
}

fn child(bytes: &[u8], kind: [u8; 4]) -> Option<&[u8]> {
    children(bytes).find(|(found, _)| *found == kind).map(|(_, body)| body)
}

/// The track's number, behind two times of 4 or 8 bytes.
fn track_id(header: &[u8]) -> Option<u32> {
    word(header, if header.first()? == &1 { 20 } else { 12 })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
