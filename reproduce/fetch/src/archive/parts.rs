//! Several files read as one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use crate::error::FetchError;

/// The parts of a split archive, one after another.
pub(super) struct Parts {
    files: Vec<(File, u64)>,
    /// Bytes of all parts.
    length: u64,
    position: u64,
    /// Bytes that are read as others, by position.
    patches: BTreeMap<u64, u8>,
}

impl Parts {
    /// Opens all parts in the order given.
    pub(super) fn open(paths: &[PathBuf]) -> Result<Self, FetchError> {
        let mut files = Vec::new();
        let mut length = 0;
        for path in paths {
            let file = File::open(path).map_err(FetchError::io(path))?;
            let bytes = file.metadata().map_err(FetchError::io(path))?.len();
            length += bytes;
            files.push((file, bytes));
        }
        Ok(Self { files, length, position: 0, patches: BTreeMap::new() })
    }

    /// From here on a byte is read as another one.
    pub(super) fn patch(&mut self, position: u64, byte: u8) {
        self.patches.insert(position, byte);
    }

    /// Bytes of all parts.
    pub(super) fn length(&self) -> u64 {
        self.length
    }
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut start = 0;
        for (file, bytes) in &mut self.files {
            if self.position < start + *bytes {
                let within = self.position - start;
                let wanted = buffer.len().min(usize::try_from(*bytes - within).unwrap_or(usize::MAX));
                let length = std::os::unix::fs::FileExt::read_at(file, &mut buffer[..wanted], within)?;
                for (at, byte) in self.patches.range(self.position..self.position + length as u64) {
                    buffer[(at - self.position) as usize] = *byte;
                }
                self.position += length as u64;
                return Ok(length);
            }
            start += *bytes;
        }
        Ok(0)
    }
}

impl Seek for Parts {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = target.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.position)
    }
}
