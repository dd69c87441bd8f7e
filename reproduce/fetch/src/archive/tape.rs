//! Tar archives.

use tar::EntryType;

use super::Stop;
use super::extraction::{Extraction, Member};
use super::headers::{Entry, Headers};
use super::parts::Parts;
use crate::disk;
use crate::names;

/// Unpacks every member that may be.
pub(super) fn unpack(parts: &mut Parts, extraction: &mut Extraction<'_>) -> Result<(), Stop> {
    // The members are not larger than the archive.
    disk::check(extraction.folder(), parts.length().saturating_sub(extraction.bytes_there()))?;
    let mut headers = Headers::new(parts);
    for index in 0.. {
        let entry = match headers.next() {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            Err(error) if index == 0 => return Err(Stop::Archive(format!("not a tar archive: {error}"))),
            Err(error) => {
                let place = format!("everything after member {index}");
                extraction.refuse(place.as_bytes(), format!("damaged: {error}"));
                return Ok(());
            }
        };
        let Entry { name, kind, link, size, refusal, .. } = &entry;
        if let Some(reason) = refusal {
            extraction.refuse(name, *reason);
            continue;
        }
        let kind = *kind;
        if kind == EntryType::Directory {
            if let Err(reason) = names::relative(name, false)
                && !is_the_folder_itself(name)
            {
                extraction.refuse(name, reason);
            }
            continue;
        }
        let place = match extraction.place(name, false) {
            Ok(Some(place)) => place,
            Ok(None) => continue,
            Err(reason) => {
                extraction.refuse(name, reason);
                continue;
            }
        };
        match kind {
            EntryType::Regular | EntryType::Continuous => {
                let member = Member { index, name, place, size: *size, crc: None };
                let mut bytes = headers.bytes(&entry).map_err(|error| Stop::Archive(error.to_string()))?;
                extraction.member(member, &mut bytes)?;
            }
            EntryType::Symlink | EntryType::Link => {
                let text = link.as_deref().unwrap_or_default();
                let target = match kind {
                    EntryType::Symlink => names::link_target(&place.source, text),
                    _ => names::relative(text, false).map_err(|_| "a link out of the archive"),
                };
                match target {
                    Ok(target) => extraction.link(index, name, place, target),
                    Err(reason) => extraction.refuse(name, reason),
                }
            }
            EntryType::Char | EntryType::Block | EntryType::Fifo => {
                extraction.refuse(name, "a device or pipe, not a file");
            }
            EntryType::GNUSparse => extraction.refuse(name, "a sparse file"),
            other => extraction.refuse(name, format!("a member of unknown type {other:?}")),
        }
    }
    Ok(())
}

/// `.` or `./`, which many archives begin with.
fn is_the_folder_itself(name: &[u8]) -> bool {
    !name.is_empty()
        && name.split(|byte| *byte == b'/').all(|part| matches!(part, b"" | b"."))
        && name[0] != b'/'
}
