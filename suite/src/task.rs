//! `Task`: the interface of a benchmark, where its files are, how rows become samples, how it is scored.

mod check;
mod finding;
mod rows;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::data::{self, Cells, DataError, Folders, Layout};
use crate::media::Depth;
use crate::profile::Profile;
use crate::sample::Sample;
use crate::videos::VideoStore;
pub use check::DataCheck;
pub use finding::{Finding, UnreadableVideo};
pub use rows::MAX_DEFECTIVE;

/// One split of one benchmark.
///
/// A task crate says what its constants are, where its files lie and what a row means; reading,
/// checking and error messages are the same for all and live here.
pub trait Task: Send + Sync {
    /// Everything about the split that is a constant.
    fn spec(&self) -> &TaskSpec;

    /// Where the split's files lie below a root.
    fn layout(&self) -> &Layout;

    /// Builds the sample of one published row; `None` for a row that does not count under the profile.
    ///
    /// # Errors
    /// A missing column, a wrong type, a row that makes no sample: the error names file, column and row.
    fn sample(
        &self,
        cells: &Cells<'_>,
        folders: &Folders,
        profile: Profile,
    ) -> Result<Option<Sample>, DataError>;

    /// Reads the published files and builds the samples in row order.
    ///
    /// A row that cannot be asked becomes a sample with a [`defect`](Sample::defect), and a row whose
    /// uid another row has gets a uid of its own: neither keeps the rest of the split from being run.
    ///
    /// # Errors
    /// No file, a damaged one, a column that is missing, a path out of the data folder, or more
    /// defective rows than [`MAX_DEFECTIVE`].
    fn load(&self, root: &DataRoot, profile: Profile) -> Result<Dataset, DataError> {
        let found = self.layout().annotations(root, self.spec())?;
        let rows = data::read_rows(&found.path)?;
        let read = |folders: &Folders, row: usize| {
            let cells = Cells { file: &found.path, row, value: &rows[row] };
            self.sample(&cells, folders, profile)
        };
        // Of several folders, the one that holds a video of the first rows.
        let candidates = self.layout().folders(root, Some(&found));
        let holds_a_video = |folders: &&Folders| {
            let samples =
                (0..rows.len().min(PROBED_ROWS)).filter_map(|row| read(folders, row).ok().flatten());
            samples.into_iter().any(|sample| sample.video.is_file())
        };
        let chosen = if candidates.len() > 1 { candidates.iter().find(holds_a_video) } else { None };
        let folders = chosen.unwrap_or(&candidates[0]);
        let read_all = (0..rows.len()).map(|row| read(folders, row));
        let mut samples = rows::keep_usable(self.spec(), read_all)?;
        rows::make_uids_unique(&mut samples, profile);
        Ok(Dataset { samples, files: vec![found.path], revision: found.revision })
    }

    /// The split's videos below `root`: their names in records and the files behind them.
    fn videos(&self, root: &DataRoot) -> VideoStore {
        let found = self.layout().annotations(root, self.spec()).ok();
        let folders = self.layout().folders(root, found.as_ref());
        VideoStore::new(self.layout().benchmark, folders.into_iter().map(|folders| folders.videos).collect())
    }

    /// Says what is present and what is missing below `root`, without failing on absence; every
    /// video that is there is checked to the depth.
    fn check(&self, root: &DataRoot, depth: Depth) -> DataCheck {
        check::check(self.spec(), self.layout(), self.load(root, Profile::Release), root, depth)
    }
}

/// Rows whose videos are looked for to tell which folder holds the videos.
const PROBED_ROWS: usize = 16;

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
    /// The roots to look into, first match wins.
    pub fn candidates(&self) -> impl Iterator<Item = &Path> {
        self.data.iter().map(PathBuf::as_path).chain(std::iter::once(self.hf_home.as_path()))
    }
}

/// A loaded split.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Samples in row order.
    pub samples: Vec<Sample>,
    /// The files that were read, for the run manifest.
    pub files: Vec<PathBuf>,
    /// Revision of the hub snapshot, where the path shows one.
    pub revision: Option<String>,
}

/// Everything about a split that is a constant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Name of the split, e.g. `videomme_wsub`.
    pub name: String,
    /// Name for people, e.g. `Video-MME (w/ subtitles)`.
    pub title: String,
    /// Where the files are published.
    pub hub: HubSource,
    /// Rows of the published file.
    pub expected_rows: usize,
    /// Rows that count under the `paper` profile where they differ (MMVU: 625 of 1,000).
    pub paper_rows: usize,
    /// Distinct videos.
    pub expected_videos: usize,
    /// The official metric.
    pub metric: Metric,
    /// Breakdowns in the order of the official report.
    pub breakdowns: Vec<Breakdown>,
}

/// Where a benchmark is published.
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
    pub gated: bool,
}

/// The official metric of a split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Metric {
    /// Share of right answers.
    Accuracy {
        /// Tag whose group means are averaged for the official headline (MLVU's M-Avg), if any.
        macro_over: Option<String>,
    },
    /// Temporal grounding: mean IoU and recall at IoU thresholds.
    Grounding {
        /// Thresholds of R@1, e.g. 0.3, 0.5, 0.7.
        thresholds: Vec<f64>,
    },
}

/// One breakdown of the official report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Breakdown {
    /// Key into [`Sample::tags`](crate::sample::Sample::tags).
    pub tag: String,
    /// Name for people.
    pub title: String,
    /// Preferred order of the groups; others follow alphabetically.
    pub order: Vec<String>,
}
