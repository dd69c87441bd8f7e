//! Frames for messages, as small JPEG images.

use std::path::{Path, PathBuf};

use paravt_files::read_limited;
use paravt_reports::page::Thumbnails;
use paravt_suite::record::Record;

use super::ExportError;

/// Largest thumbnail that is read, in bytes; one of 168 x 168 pixels has about 10,000.
const LIMIT: u64 = 1 << 20;

/// Thumbnails that were written below a folder: up to 16 of a sample's overview, and all of its crops.
#[derive(Debug)]
pub struct FrameImages {
    thumbnails: Thumbnails,
    dir: PathBuf,
}

impl FrameImages {
    /// Those of `thumbnails`, which were written into `dir`.
    pub fn new(thumbnails: Thumbnails, dir: &Path) -> Self {
        Self { thumbnails, dir: dir.to_owned() }
    }

    /// Whether there is a frame of this index.
    pub(super) fn has(&self, record: &Record, index: usize) -> bool {
        self.thumbnails.path(record, index).is_some()
    }

    /// The JPEG of a frame; `None` where there is none.
    pub(super) fn jpeg(&self, record: &Record, index: usize) -> Result<Option<Vec<u8>>, ExportError> {
        let Some(name) = self.thumbnails.path(record, index) else { return Ok(None) };
        let path = self.dir.join(name);
        let jpeg = read_limited(&path, LIMIT).map_err(|source| ExportError::Frame { path, source })?;
        Ok(Some(jpeg))
    }
}
