//! `Task`: the interface of a benchmark, and [`Benchmark`], its implementation for published rows.

mod benchmark;
mod check;
mod columns;
mod dataset;
mod derived;
mod description;
mod file;
mod finding;
mod inspect;
mod intervals;
mod kinds;
mod option_cells;
mod options;
mod origin;
mod published;
mod quirks;
mod row;
mod rows;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::data::{DataError, DataRoot, HubSource};
use crate::profile::Profile;
use crate::sample::Sample;
pub use crate::scoring::Metric;
use crate::scoring::Scorer;
use crate::videos::VideoStore;
pub use benchmark::{Benchmark, IntoSample, NO_SUBTITLES, ReadRow, SubtitleText, read};
pub use check::{DataCheck, DecodedVideo, ReportedVideo};
pub use description::{Description, DescriptionError, Doubtful, Reported};
pub use file::TaskFileError;
pub use finding::{Finding, Provider, UnreadableVideo};
pub use inspect::{Decoding, Inspect};
pub use intervals::{REVERSED_EVIDENCE, REVERSED_GOLD};
pub use options::{EMPTY_OPTION, GOLD_TWICE};
pub use published::{NOT_PUBLISHED, Origin, Published};
pub use quirks::{KeptQuirks, Quirks};
pub use row::{NO_LETTER, RowContext, letters};
pub use rows::MAX_DEFECTIVE;

/// One split of one benchmark.
pub trait Task: Send + Sync {
    /// Everything about the split that is a constant.
    fn spec(&self) -> &TaskSpec;

    /// The rules that the benchmark was published with, where they are not those of the release that is
    /// repeated; `strict` has its own for every benchmark.
    fn scorer(&self) -> Option<&'static dyn Scorer> {
        None
    }

    /// Names of the benchmark's quirks that a profile keeps.
    fn kept_quirks(&self, _profile: Profile) -> Vec<String> {
        Vec::new()
    }

    /// Whether its questions are about images, not about videos.
    fn is_about_images(&self) -> bool {
        false
    }

    /// Items whose question or gold others doubt.
    fn doubtful(&self) -> &[Doubtful] {
        &[]
    }

    /// Reads the published files and builds the samples in row order.
    ///
    /// A row that cannot be asked becomes a sample with a [`defect`](Sample::defect), and a row whose
    /// uid another row has gets a uid of its own: neither keeps the rest of the split from being run.
    ///
    /// # Errors
    /// No file, a damaged one, a column that is missing, a path out of the data folder, or more
    /// defective rows than [`MAX_DEFECTIVE`].
    fn load(&self, root: &DataRoot, profile: Profile) -> Result<Dataset, DataError>;

    /// Says what is present and what is missing below `root`, without failing on absence; every
    /// video that is there is checked to the depth.
    fn check(&self, root: &DataRoot, how: &dyn Inspect) -> DataCheck;
}

/// A loaded split.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Samples in row order.
    pub samples: Vec<Sample>,
    /// The folder that their videos lie in.
    pub videos: VideoStore,
    /// The files that were read, for the run manifest.
    pub files: Vec<PathBuf>,
    /// Revision of the hub snapshot, where the path shows one.
    pub revision: Option<String>,
    /// Whether the rows are the published ones.
    pub origin: Origin,
    /// Whether subtitles are part of the questions: the origin says nothing of them.
    pub shows_subtitles: bool,
    /// What a user should know before the samples are asked, with the remedy.
    pub warning: Option<String>,
    /// Why there is no sample, where there is none.
    pub empty: Option<String>,
}

/// Everything about a split that is a constant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Name of the split, e.g. `videomme_wsub`.
    pub name: String,
    /// Title in reports, e.g. `Video-MME (w/ subtitles)`.
    pub title: String,
    /// Repository of the files.
    pub hub: HubSource,
    /// Rows of the published file; 0 where their number is not known, and what a file holds is what counts.
    pub expected_rows: usize,
    /// Rows that count under the `paper` profile where they differ (MMVU: 625 of 1,000).
    pub paper_rows: usize,
    /// Distinct videos; 0 as for the rows.
    pub expected_videos: usize,
    pub metric: Metric,
    /// Breakdowns in the order of the official report.
    pub breakdowns: Vec<Breakdown>,
}

/// One breakdown of the official report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Breakdown {
    /// Key into [`Sample::tags`](crate::sample::Sample::tags).
    pub tag: String,
    pub title: String,
    /// Preferred order of the groups; others follow alphabetically.
    #[serde(default)]
    pub order: Vec<String>,
}
