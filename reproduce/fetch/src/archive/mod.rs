//! Archives, unpacked so that nothing lands outside of the folder and an interruption loses nothing.
//!
//! A member that is unsafe or damaged is refused and named; all others are unpacked.

mod extraction;
mod headers;
mod journal;
mod parts;
mod pictures;
mod tape;
mod zipped;

use std::path::{Path, PathBuf};

use crate::error::FetchError;
use extraction::Extraction;
use journal::Journal;
use parts::Parts;

/// A member that was not unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its name in the archive, bytes that are not UTF-8 replaced.
    pub member: String,
    pub reason: String,
}

/// The state of an unpacked archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unpacked {
    pub members: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Members that were refused.
    pub refused: Vec<Refused>,
}

/// An archive and where its members go.
#[derive(Debug, Clone, Copy)]
pub struct Archive<'a> {
    /// Its file name, without the suffix of a part.
    pub name: &'a str,
    /// What changes when its bytes do, e.g. the hashes of its parts.
    pub id: &'a str,
    /// Folder of the members.
    pub into: &'a Path,
    /// Members go right into the folder, whatever folders they have in the archive.
    pub flatten: bool,
    /// It is a parquet file, whose members are the pictures of this column.
    pub pictures: Option<&'a str>,
}

impl Archive<'_> {
    /// The outcome of an earlier, finished unpacking whose files still have their sizes.
    pub fn unpacked(&self) -> Option<Unpacked> {
        Journal::read_complete(self)
    }
}

/// Unpacks an archive, given as its parts in order.
///
/// Members that an interrupted call left whole are kept. Zip members are verified by size and CRC-32.
///
/// # Errors
/// The parts are not an archive, the disk is full, or another process unpacks it.
pub fn unpack(archive: &Archive<'_>, parts: &[PathBuf]) -> Result<Unpacked, FetchError> {
    let fail = |message: String| FetchError::Archive { archive: archive.name.to_owned(), message };
    let journal = Journal::open(archive)?;
    let mut extraction = Extraction::new(archive, journal);
    if let Some(column) = archive.pictures {
        pictures::unpack(parts, column, &mut extraction).map_err(|error| error.into_fetch(fail))?;
        return extraction.finish();
    }
    let mut reader = Parts::open(parts)?;
    match kind(archive.name) {
        Some(Format::Zip) => {
            zipped::unpack(reader, &mut extraction).map_err(|error| error.into_fetch(fail))?
        }
        Some(Format::Tar) => {
            tape::unpack(&mut reader, &mut extraction).map_err(|error| error.into_fetch(fail))?
        }
        None => {
            return Err(fail("expected a name that ends in .zip or .tar (or parts of a .tar)".to_owned()));
        }
    }
    extraction.finish()
}

/// Why unpacking stops.
enum Stop {
    Archive(String),
    /// A file or the disk of this machine failed.
    Fetch(FetchError),
}

impl Stop {
    fn into_fetch(self, fail: impl FnOnce(String) -> FetchError) -> FetchError {
        match self {
            Stop::Archive(message) => fail(message),
            Stop::Fetch(error) => error,
        }
    }
}

impl From<FetchError> for Stop {
    fn from(error: FetchError) -> Self {
        Stop::Fetch(error)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Zip,
    Tar,
}

fn kind(name: &str) -> Option<Format> {
    let extension = Path::new(name).extension()?.to_str()?.to_ascii_lowercase();
    match extension.as_str() {
        "zip" => Some(Format::Zip),
        "tar" => Some(Format::Tar),
        _ => None,
    }
}

/// The archive that a file is, or is a part of: `x.zip`, `x.tar`, `x.tar.part.aa`, `x.tar.part_ab`,
/// `x.tar.aa`, `x.tar.00`. `None` for anything else.
pub(crate) fn archive_of(file_name: &str) -> Option<&str> {
    if kind(file_name).is_some() {
        return Some(file_name);
    }
    let at = [".tar.", ".zip."].iter().find_map(|infix| file_name.to_ascii_lowercase().rfind(infix))?;
    let suffix = file_name[at + 5..].trim_start_matches("part").trim_start_matches(['.', '_', '-']);
    let digits = suffix.bytes().all(|byte| byte.is_ascii_digit());
    let letters = suffix.bytes().all(|byte| byte.is_ascii_lowercase()) && (2..=3).contains(&suffix.len());
    let is_part =
        !suffix.is_empty() && (digits || letters) && !["gz", "xz", "bz", "zst", "lz"].contains(&suffix);
    is_part.then(|| &file_name[..at + 4])
}

#[cfg(test)]
mod tests;
