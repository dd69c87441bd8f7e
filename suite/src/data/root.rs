//! Where data is looked for, and where it is published.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Folders to look for data in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataRoot {
    /// `$HF_HOME`, in the layout that lmms-eval and ParaVT leave there.
    pub hf_home: PathBuf,
    /// `--data DIR`: looked into first, accepts the same layout as `hf_home` or the files of one
    /// benchmark directly.
    pub data: Option<PathBuf>,
    /// Video folders given apart, by benchmark (`PARAVT_MLVU_VIDEO_DIR`, `PARAVT_MMVU_VIDEO_DIR`).
    pub videos: BTreeMap<String, PathBuf>,
}

impl DataRoot {
    /// A root in the layout of `$HF_HOME` and nothing else.
    pub fn new(hf_home: impl Into<PathBuf>) -> Self {
        Self { hf_home: hf_home.into(), data: None, videos: BTreeMap::new() }
    }

    /// The roots to look into, first match wins.
    pub fn candidates(&self) -> impl Iterator<Item = &Path> {
        self.data.iter().map(PathBuf::as_path).chain(std::iter::once(self.hf_home.as_path()))
    }
}

/// Repository of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HubSource {
    /// Repository id on the Hugging Face hub; the first is current, others redirect or mirror.
    pub repos: Vec<String>,
    /// Configuration name, if any.
    pub config: Option<String>,
    /// Split name in the published files.
    pub split: String,
    /// Pinned revision, where one is known.
    pub revision: Option<String>,
    /// Annotation file in the repository.
    pub annotations: String,
    /// Files that provide videos (and subtitles), as published.
    pub media: Vec<String>,
    /// License in a few words, with what it forbids.
    pub license: String,
    /// Whether an account has to accept terms first.
    #[serde(default)]
    pub gated: bool,
}
