//! Members of zip archives, which are bounded before they are inflated.

use std::io::{Cursor, Read};

use flate2::read::DeflateDecoder;
use zip::{CompressionMethod, ZipArchive};

use super::error::{MAX_FILE, Problem};

/// A zip archive in memory.
pub(super) struct Members(ZipArchive<Cursor<Vec<u8>>>);

impl Members {
    pub(super) fn open(bytes: Vec<u8>) -> Result<Self, Problem> {
        let archive = ZipArchive::new(Cursor::new(bytes));
        archive.map(Self).map_err(|error| Problem::File(format!("not a zip archive: {error}")))
    }

    /// Names of the members that begin and end so, in their order by name.
    pub(super) fn names(&self, start: &str, end: &str) -> Vec<String> {
        let names = self.0.file_names().flatten();
        let mut names: Vec<String> = names.map(|name| name.into_owned()).collect();
        names.retain(|name| name.starts_with(start) && name.ends_with(end));
        names.sort();
        names
    }

    /// The bytes of a member; `None` where it is missing.
    pub(super) fn read(&mut self, name: &str) -> Result<Option<Vec<u8>>, Problem> {
        let Some(index) = self.0.index_for_name(name) else { return Ok(None) };
        let damaged = |error: String| Problem::File(format!("{name}: {error}"));
        let member = self.0.by_index_raw(index).map_err(|error| damaged(error.to_string()))?;
        let (method, size) = (member.compression(), member.size());
        if size > MAX_FILE {
            return Err(damaged(format!("{size} bytes, at most {MAX_FILE} are read")));
        }
        let mut bytes = Vec::new();
        let read = match method {
            CompressionMethod::Stored => member.take(size).read_to_end(&mut bytes),
            CompressionMethod::DEFLATE => DeflateDecoder::new(member).take(size).read_to_end(&mut bytes),
            CompressionMethod::ZSTD => {
                zstd::Decoder::new(member).and_then(|decoder| decoder.take(size).read_to_end(&mut bytes))
            }
            other => {
                return Err(damaged(format!("compressed with {other}, expected stored, deflate or zstd")));
            }
        };
        read.map_err(|error| damaged(error.to_string()))?;
        Ok(Some(bytes))
    }
}
