//! Findings of `data check`, as values; printed in one place.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A video that is there and cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnreadableVideo {
    pub path: PathBuf,
    /// The fault, without the path.
    pub reason: String,
}

/// Where published files are to be had. Shown as `FILES of REPOSITORY`, or as where a task file of one's own looks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// Names of the files, several separated by commas; empty where the repository has none, or a task file names none.
    pub files: String,
    /// Repository on the hub; `None` for a task file that names none.
    pub repository: Option<String>,
    /// Revision of the repository; `None` without a repository.
    pub revision: Option<String>,
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.files.as_str(), &self.repository) {
            ("", Some(repository)) => {
                write!(f, "{repository} has none: its license in `paravt-bench tasks -v` says where they are")
            }
            (files, Some(repository)) => write!(f, "{files} of {repository}"),
            ("", None) => f.write_str("put them beside the task file, or name their folder with --data"),
            (files, None) => write!(f, "{files} beside the task file, or in the folder that --data names"),
        }
    }
}

/// One thing that keeps a split from being complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Finding {
    /// The annotation file is at none of the places.
    AnnotationsMissing { provider: Provider, looked: Vec<PathBuf> },
    /// The annotation file cannot be used.
    AnnotationsUnusable { message: String, provider: Provider },
    /// The annotation file is of another revision than the pinned one.
    Revision {
        /// Revision of the hub snapshot that it lies in.
        found: String,
        pinned: String,
    },
    /// As many rows as published, and other ones.
    OtherRows {
        /// The first fact that differs.
        #[serde(default)]
        difference: String,
        provider: Provider,
    },
    /// The file has no rows, or none that the task file selects.
    NoRows {
        /// Which of the two, with the number of rows.
        #[serde(default)]
        reason: String,
    },
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
        provider: Provider,
    },
    /// The rows name another number of videos than published.
    VideosNamed {
        /// Distinct videos that the rows name.
        named: usize,
        /// Distinct videos published.
        published: usize,
    },
    /// Videos that are not there; `DataCheck::missing_videos` lists them.
    VideosMissing { count: usize, provider: Provider },
    /// Published archives that lie there and may only need unpacking.
    ArchivesPacked {
        archives: Vec<PathBuf>,
        /// Folder that the videos belong into.
        into: PathBuf,
    },
    /// Videos that are there and cannot be used; `DataCheck::unreadable_videos` lists them.
    VideosUnreadable { count: usize, provider: Provider },
    /// Another number of subtitle files than published.
    Subtitles {
        found: usize,
        published: usize,
        /// Folder that was looked into.
        folder: PathBuf,
        provider: Provider,
    },
}
