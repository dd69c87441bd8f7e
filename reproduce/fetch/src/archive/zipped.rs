//! Zip archives, zip64 too.
//!
//! The `zip` crate reads the directory; members are inflated and checked here, so that each is bounded by
//! what it declares before a byte too many is written.

use std::collections::{HashMap, HashSet};
use std::io::{BufReader, Read, Seek as _, SeekFrom};

use flate2::read::DeflateDecoder;
use zip::read::ZipFile;
use zip::{CompressionMethod, ZipArchive};

use super::Stop;
use super::extraction::{Extraction, Member};
use super::parts::Parts;
use crate::disk;
use crate::names;

/// Bytes of members that grow more than [`MAX_GROWTH`], each or together, from which on they are suspected.
const SUSPECTED: u64 = 64 << 20;
/// Largest growth that is not suspected. Deflate reaches 1,032; annotations reach about 30.
const MAX_GROWTH: u64 = 200;
/// Longest text of a link.
const MAX_LINK: u64 = 4096;
/// Bytes of a local header at least.
const LOCAL_HEADER: u64 = 30;

/// Bytes of a member's record in the directory, before its name.
const RECORD: usize = 46;

const TYPE_MASK: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;

/// Unpacks every member that may be.
pub(super) fn unpack(parts: Parts, extraction: &mut Extraction<'_>) -> Result<(), Stop> {
    let damaged = |error: zip::result::ZipError| Stop::Archive(format!("not a zip archive: {error}"));
    let mut archive = ZipArchive::new(parts).map_err(damaged)?;
    let mut doubled = HashMap::new();
    if archive.has_duplicate_names() {
        let start = archive.central_directory_start();
        let mut parts = archive.into_inner();
        doubled = rename_doubled(&mut parts, start).map_err(|error| Stop::Archive(error.to_string()))?;
        archive = ZipArchive::new(parts).map_err(damaged)?;
    }
    let (overlapping, swollen) = (overlapping(&mut archive), swollen(&mut archive));
    let is_taken = |index: &usize| !overlapping.contains(index) && !swollen.contains(index);
    let declared = (0..archive.len()).filter(is_taken).fold(0, |sum: u64, index| {
        sum.saturating_add(archive.by_index_raw(index).map_or(0, |member| member.size()))
    });
    disk::check(extraction.folder(), declared.saturating_sub(extraction.bytes_there()))?;
    for index in 0..archive.len() {
        let mut member = match archive.by_index_raw(index) {
            Ok(member) => member,
            Err(error) => {
                extraction.refuse(format!("member {index}").as_bytes(), format!("damaged: {error}"));
                continue;
            }
        };
        let name = doubled.remove(member.name_raw()).unwrap_or_else(|| name(&member));
        match plan(&member, overlapping.contains(&index), swollen.contains(&index)) {
            Ok(Content::Folder) => {}
            Ok(content) => one(&mut member, index, &name, content, extraction)?,
            Err(reason) => extraction.refuse(&name, reason),
        }
    }
    Ok(())
}

/// Lets each member of the directory that begins at `start` be read under a name of its own: of several of one name the
/// `zip` crate shows the last only. Returns the names that members have by those under which they are read.
fn rename_doubled(parts: &mut Parts, start: u64) -> std::io::Result<HashMap<Vec<u8>, Vec<u8>>> {
    parts.seek(SeekFrom::Start(start))?;
    let mut directory = BufReader::new(&mut *parts);
    let (mut at, mut names, mut found) = (start, Vec::new(), Vec::new());
    let mut record = [0; RECORD];
    while directory.read_exact(&mut record).is_ok() && record.starts_with(b"PK\x01\x02") {
        let length = |at: usize| usize::from(u16::from_le_bytes([record[at], record[at + 1]]));
        let mut rest = vec![0; length(28) + length(30) + length(32)];
        directory.read_exact(&mut rest)?;
        let next = at + (RECORD + rest.len()) as u64;
        rest.truncate(length(28));
        names.push((at + RECORD as u64, rest));
        at = next;
    }
    let mut taken: HashSet<Vec<u8>> = HashSet::new();
    for (index, (at, name)) in names.into_iter().enumerate() {
        // A folder may be named as often as it is written into.
        if taken.insert(name.clone()) || name.ends_with(b"/") {
            continue;
        }
        // No writer makes such names; one that is taken is left alone.
        let other: Vec<u8> =
            (0..name.len()).map(|place| 0xff - (index >> (8 * place.min(7))) as u8).collect();
        if taken.insert(other.clone()) {
            (at..).zip(&other).for_each(|(at, byte)| parts.patch(at, *byte));
            found.push((other, name));
        }
    }
    Ok(found.into_iter().collect())
}

enum Content {
    Folder,
    File,
    Link,
}

/// What a member is, or why it is not unpacked.
fn plan<R: Read>(member: &ZipFile<'_, R>, overlaps: bool, swells: bool) -> Result<Content, String> {
    if member.is_dir() {
        return Ok(Content::Folder);
    }
    if overlaps {
        return Err("its bytes are also another member's".to_owned());
    }
    if member.encrypted() {
        return Err("it is encrypted".to_owned());
    }
    if ![CompressionMethod::Stored, CompressionMethod::DEFLATE].contains(&member.compression()) {
        return Err(format!("it is compressed with {}, expected stored or deflated", member.compression()));
    }
    if swells {
        let (size, compressed) = (member.size(), member.compressed_size());
        return Err(format!("it would grow from {compressed} to {size} bytes, more than {MAX_GROWTH}-fold"));
    }
    if member.is_symlink() {
        return Ok(Content::Link);
    }
    match member.unix_mode().map_or(0, |mode| mode & TYPE_MASK) {
        0 | REGULAR => Ok(Content::File),
        _ => Err("a device or pipe, not a file".to_owned()),
    }
}

/// Members that would grow too much, if they are large, each or together.
fn swollen<R: Read + std::io::Seek>(archive: &mut ZipArchive<R>) -> HashSet<usize> {
    let (mut found, mut bytes) = (HashSet::new(), 0_u64);
    for index in 0..archive.len() {
        let Ok(member) = archive.by_index_raw(index) else { continue };
        if member.size() / member.compressed_size().max(1) > MAX_GROWTH {
            bytes = bytes.saturating_add(member.size());
            found.insert(index);
        }
    }
    if bytes > SUSPECTED { found } else { HashSet::new() }
}

fn one<R: Read>(
    member: &mut ZipFile<'_, R>,
    index: usize,
    name: &[u8],
    content: Content,
    extraction: &mut Extraction<'_>,
) -> Result<(), Stop> {
    let place = match extraction.place(name, true) {
        Ok(Some(place)) => place,
        Ok(None) => return Ok(()),
        Err(reason) => {
            extraction.refuse(name, reason);
            return Ok(());
        }
    };
    let (size, crc) = (member.size(), member.crc32());
    let stored = member.compression() == CompressionMethod::Stored;
    let mut inflated: Box<dyn Read + '_> =
        if stored { Box::new(member) } else { Box::new(DeflateDecoder::new(member)) };
    if matches!(content, Content::File) {
        let member = Member { index, name, place, size, crc: Some(crc) };
        return Ok(extraction.member(member, &mut inflated)?);
    }
    let mut text = Vec::new();
    let read = inflated.take(MAX_LINK).read_to_end(&mut text);
    match read.map_err(|_| "a damaged link").and_then(|_| names::link_target(&place.source, &text)) {
        Ok(target) => extraction.link(index, name, place, target),
        Err(reason) => extraction.refuse(name, reason),
    }
    Ok(())
}

/// The name in UTF-8: many writers do not set the flag for it. Else as code page 437, the format's other
/// encoding.
fn name<R: Read>(member: &ZipFile<'_, R>) -> Vec<u8> {
    let raw = member.name_raw();
    match std::str::from_utf8(raw) {
        Ok(_) => raw.to_vec(),
        Err(_) => member.name().map_or_else(|_| raw.to_vec(), |name| name.into_owned().into_bytes()),
    }
}

/// Members whose bytes begin within those of an earlier one: an archive of real files has none.
fn overlapping<R: Read + std::io::Seek>(archive: &mut ZipArchive<R>) -> HashSet<usize> {
    let mut ranges: Vec<(u64, u64, usize)> = (0..archive.len())
        .filter_map(|index| {
            let member = archive.by_index_raw(index).ok()?;
            let start = member.header_start();
            Some((start, start.saturating_add(LOCAL_HEADER).saturating_add(member.compressed_size()), index))
        })
        .collect();
    ranges.sort_unstable();
    let mut end = 0;
    let mut found = HashSet::new();
    for (start, until, index) in ranges {
        if start < end {
            found.insert(index);
        }
        end = end.max(until);
    }
    found
}
