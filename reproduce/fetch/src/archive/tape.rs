//! Tar archives.

use std::io::{Read as _, Seek};

use tar::EntryType;

use super::Stop;
use super::extraction::{Extraction, Member};
use super::parts::Parts;
use crate::disk;
use crate::names;

/// Unpacks every member that may be.
pub(super) fn unpack(parts: &mut Parts, extraction: &mut Extraction<'_>) -> Result<(), Stop> {
    // The members are not larger than the archive.
    disk::check(extraction.folder(), parts.length().saturating_sub(extraction.bytes_there()))?;
    parts.rewind().map_err(|error| Stop::Archive(error.to_string()))?;
    let mut archive = tar::Archive::new(parts);
    let entries = archive.entries_with_seek().map_err(|error| Stop::Archive(error.to_string()))?;
    for (index, entry) in entries.enumerate() {
        let mut entry = match entry {
            Ok(entry) => entry,
            Err(error) if index == 0 => return Err(Stop::Archive(format!("not a tar archive: {error}"))),
            Err(error) => {
                let place = format!("everything after member {index}");
                extraction.refuse(place.as_bytes(), format!("damaged: {error}"));
                return Ok(());
            }
        };
        let name = entry.path_bytes().into_owned();
        let kind = entry.header().entry_type();
        let link = entry.link_name_bytes().map(|name| name.into_owned());
        if matches!(kind, EntryType::Directory | EntryType::XGlobalHeader) {
            if let Err(reason) = names::relative(&name, false)
                && kind == EntryType::Directory
                && !is_the_folder_itself(&name)
            {
                extraction.refuse(&name, reason);
            }
            continue;
        }
        let place = match extraction.place(&name, false) {
            Ok(Some(place)) => place,
            Ok(None) => continue,
            Err(reason) => {
                extraction.refuse(&name, reason);
                continue;
            }
        };
        match kind {
            EntryType::Regular | EntryType::Continuous => {
                let size = entry.size();
                let member = Member { index, name: &name, place, size, crc: None };
                // One byte more would be seen; tar itself ends at the declared size.
                extraction.member(member, &mut (&mut entry).take(size.saturating_add(1)))?;
            }
            EntryType::Symlink | EntryType::Link => {
                let text = link.unwrap_or_default();
                let target = match kind {
                    EntryType::Symlink => names::link_target(&place.source, &text),
                    _ => names::relative(&text, false).map_err(|_| "a link out of the archive"),
                };
                match target {
                    Ok(target) => extraction.link(index, &name, place, target),
                    Err(reason) => extraction.refuse(&name, reason),
                }
            }
            EntryType::Char | EntryType::Block | EntryType::Fifo => {
                extraction.refuse(&name, "a device or pipe, not a file");
            }
            EntryType::GNUSparse => extraction.refuse(&name, "a sparse file"),
            other => extraction.refuse(&name, format!("a member of unknown type {other:?}")),
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
