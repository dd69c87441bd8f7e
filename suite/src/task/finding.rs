//! Findings of `data check`, as values; printed in one place.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A video that is there and cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnreadableVideo {
    /// The file.
    pub path: PathBuf,
    /// The fault, without the path.
    pub reason: String,
}

/// One thing that keeps a split from being complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Finding {
    /// The annotation file is at none of the places.
    AnnotationsMissing {
        /// `FILE of REPOSITORY@REVISION` that provides it.
        remedy: String,
        /// Places looked at.
        looked: Vec<PathBuf>,
    },
    /// The annotation file cannot be used.
    AnnotationsUnusable {
        /// The error.
        message: String,
        /// `FILE of REPOSITORY@REVISION` that provides a sound one.
        remedy: String,
    },
    /// The annotation file is of another revision than the pinned one.
    Revision {
        /// Revision of the hub snapshot that it lies in.
        found: String,
        /// Pinned revision.
        pinned: String,
    },
    /// As many rows as published, and other ones.
    OtherRows {
        /// The first fact that differs.
        #[serde(default)]
        difference: String,
        /// `FILE of REPOSITORY@REVISION` that provides the published ones.
        remedy: String,
    },
    /// The file has no rows, or none that the task file selects.
    NoRows,
    /// Rows that cannot be asked.
    DefectiveRows {
        /// The fault of each, in row order.
        defects: Vec<String>,
    },
    /// Another number of rows than published.
    Rows {
        /// Rows found.
        found: usize,
        /// Rows published.
        published: usize,
        /// `FILE of REPOSITORY@REVISION` that provides them.
        remedy: String,
    },
    /// The rows name another number of videos than published.
    VideosNamed {
        /// Distinct videos that the rows name.
        named: usize,
        /// Distinct videos published.
        published: usize,
    },
    /// Videos that are not there; `DataCheck::missing_videos` lists them.
    VideosMissing {
        /// Number of them.
        count: usize,
        /// `FILES of REPOSITORY@REVISION` that provide them.
        remedy: String,
    },
    /// Published archives that lie there and may only need unpacking.
    ArchivesPacked {
        /// The archives.
        archives: Vec<PathBuf>,
        /// Folder that the videos belong into.
        into: PathBuf,
    },
    /// Videos that are there and cannot be used; `DataCheck::unreadable_videos` lists them.
    VideosUnreadable {
        /// Number of them.
        count: usize,
        /// `FILES of REPOSITORY@REVISION` that provide sound ones.
        remedy: String,
    },
    /// Another number of subtitle files than published.
    Subtitles {
        /// Files found.
        found: usize,
        /// Files published.
        published: usize,
        /// Folder that was looked into.
        folder: PathBuf,
        /// `FILE of REPOSITORY@REVISION` that provides them.
        remedy: String,
    },
}
