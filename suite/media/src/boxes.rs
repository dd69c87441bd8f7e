//! The boxes of an MP4 file that FFmpeg reads and has no interface for (ISO/IEC 14496-12).

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Maximum bytes of a movie header; those of hours of video are far smaller.
const LARGEST_HEADER: u64 = 1 << 28;

/// Maximum boxes side by side in a file; a whole MP4 has a handful.
const MOST_BOXES: usize = 1 << 12;

/// Composition offsets of a track's `samples` in decoding order, in units of the track's time scale;
/// a file without the box shows every sample when it is decoded. `None` where the file is fragmented,
/// damaged, no MP4, or has another number of samples.
pub(crate) fn composition_offsets(path: &Path, track: u32, samples: usize) -> Option<Vec<i64>> {
    offsets_of(&movie_header(File::open(path).ok()?)?, track, samples)
}

/// The same of the body of `moov`.
fn offsets_of(movie: &[u8], track: u32, samples: usize) -> Option<Vec<i64>> {
    if child(movie, *b"mvex").is_some() {
        return None;
    }
    let is_track = |trak: &&[u8]| child(trak, *b"tkhd").and_then(track_id) == Some(track);
    let trak = children(movie).filter(|(kind, _)| kind == b"trak").map(|(_, body)| body).find(is_track)?;
    let table = [*b"mdia", *b"minf", *b"stbl"].into_iter().try_fold(trak, child)?;
    // The caller's number is that of an index which exists: a size out of the file alone could ask for any memory.
    if word(child(table, *b"stsz")?, 8)? as usize != samples {
        return None;
    }
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
fn movie_header(mut file: impl Read + Seek) -> Option<Vec<u8>> {
    let end = file.seek(SeekFrom::End(0)).ok()?;
    let (mut at, mut movie) = (0, None);
    for _ in 0..MOST_BOXES {
        if end - at < 8 {
            return movie;
        }
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
            b"moov" if movie.is_some() => return None,
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
    None
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    fn boxed(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
        [&(body.len() as u32 + 8).to_be_bytes()[..], kind, body].concat()
    }

    /// A movie of one track, number 1, with these runs of offsets.
    fn movie(samples: u32, runs: &[(u32, i32)]) -> Vec<u8> {
        let sizes = [&[0; 8][..], &samples.to_be_bytes()].concat();
        let entries =
            runs.iter().flat_map(|(count, offset)| [count.to_be_bytes(), offset.to_be_bytes()].concat());
        let offsets =
            [&[0; 4][..], &(runs.len() as u32).to_be_bytes(), &entries.collect::<Vec<_>>()].concat();
        let table = boxed(b"stbl", &[boxed(b"stsz", &sizes), boxed(b"ctts", &offsets)].concat());
        let header = boxed(b"tkhd", &[&[0; 12][..], &1u32.to_be_bytes()].concat());
        let media = boxed(b"mdia", &boxed(b"minf", &table));
        boxed(b"moov", &boxed(b"trak", &[header, media].concat()))
    }

    #[test]
    fn offsets_are_those_of_the_runs_and_a_foreign_number_of_samples_is_refused() {
        let file = movie(5, &[(2, 7), (3, -1)]);
        let body = movie_header(Cursor::new(&file)).expect("a movie");
        assert_eq!(offsets_of(&body, 1, 5), Some(vec![7, 7, -1, -1, -1]));
        assert_eq!((offsets_of(&body, 1, 4), offsets_of(&body, 2, 5)), (None, None));
        // A few bytes that name four thousand million samples.
        let huge = movie(u32::MAX, &[(u32::MAX, 0)]);
        assert_eq!(offsets_of(&huge[8..], 1, 5), None);
        let twice = [file.clone(), file].concat();
        assert_eq!(movie_header(Cursor::new(twice)), None);
        assert_eq!(movie_header(Cursor::new(boxed(b"free", &[]).repeat(MOST_BOXES + 1))), None);
    }

    proptest! {
        #[test]
        fn changed_boxes_give_as_many_offsets_as_there_are_samples_or_none(
            samples in 0u32..50,
            runs in prop::collection::vec((0u32..20, any::<i32>()), 0..20),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut file = movie(samples, &runs);
            for (at, byte) in changes {
                let at = at.index(file.len());
                file[at] = byte;
            }
            file.truncate(cut.index(file.len()) + 1);
            for bytes in [&file[..], file.get(8..).unwrap_or_default()] {
                let body = movie_header(Cursor::new(bytes)).unwrap_or_else(|| bytes.to_vec());
                let found = offsets_of(&body, 1, samples as usize);
                prop_assert!(found.is_none_or(|found| found.len() == samples as usize));
            }
        }

        #[test]
        fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..300), samples in 0usize..9) {
            let _ = movie_header(Cursor::new(&bytes));
            let _ = offsets_of(&bytes, 1, samples);
        }
    }
}
