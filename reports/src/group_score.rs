//! Scores of groups of a run's samples, for tables and charts.

use paravt_suite::summary::{BreakdownSummary, Group};

use crate::Cell;
use crate::decide::Effect;
use crate::statistics::{Cluster, mean};

/// Mean score of a group as a share, with its 95 % interval by video; `None` for fewer than two videos.
pub(crate) struct GroupScore<'a> {
    pub label: &'a str,
    pub n: usize,
    pub value: f64,
    pub interval: Option<(f64, f64)>,
}

impl<'a> GroupScore<'a> {
    /// Of samples that are summed up by video.
    pub(crate) fn of<'c>(label: &'a str, videos: impl IntoIterator<Item = &'c Cluster> + Clone) -> Self {
        Self {
            label,
            n: videos.clone().into_iter().map(|video| video.n).sum(),
            value: mean(videos.clone()).unwrap_or_default(),
            interval: Effect::share(videos).and_then(|effect| effect.interval()),
        }
    }
}

impl Cell {
    /// Groups of the benchmark's own breakdowns, each with the title of its breakdown, in official order.
    pub(crate) fn own_groups(&self) -> impl Iterator<Item = (&str, GroupScore<'_>)> {
        self.summary.breakdowns.iter().flat_map(move |BreakdownSummary { tag, title, groups }| {
            groups.iter().map(move |Group { label, n, value }| {
                let interval = self.digest.interval(tag, label);
                (title.as_str(), GroupScore { label, n: *n, value: *value, interval })
            })
        })
    }

    /// Groups by what was measured.
    pub(crate) fn bands(&self) -> impl Iterator<Item = (&str, GroupScore<'_>)> {
        let bands = self.digest.bands.iter();
        bands.map(|band| (band.title.as_str(), GroupScore::of(&band.label, band.clusters.values())))
    }
}
