//! Sums over the frames of a run: what tables and charts show beside its summary.

use std::collections::BTreeMap;

use super::Rows;
use crate::decide::Effect;
use crate::statistics::Cluster;

/// Equal parts of a video's length in which windows are counted.
pub const BINS: usize = 20;

/// Numbers of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Digest {
    /// Sums of the counted samples by video.
    pub clusters: BTreeMap<String, Cluster>,
    /// Sums of the labels by tag, label and video.
    pub groups: BTreeMap<(String, String), BTreeMap<String, Cluster>>,
    /// Samples by the largest number of calls in one turn.
    pub widths: BTreeMap<u64, u32>,
    /// Number of windows that overlap each of [`BINS`] equal parts of the video's length; empty without windows.
    pub windows: Vec<u32>,
    /// Seconds of all samples in which media were decoded.
    pub media_seconds: f64,
    /// Median seconds of a sample.
    pub median_seconds: f64,
}

impl Digest {
    /// Sums up the frames of a run.
    pub fn of(rows: &Rows) -> Self {
        let samples = &rows.samples.frame;
        let mut groups = BTreeMap::new();
        for group in rows.labels.partition(&["tag", "label"]) {
            let first = |name| group.texts(name).flatten().next().unwrap_or_default().to_owned();
            groups.insert((first("tag"), first("label")), group.clusters("video", "score"));
        }
        let mut widths = BTreeMap::new();
        samples.counts("parallel_calls").flatten().for_each(|width| *widths.entry(width).or_default() += 1);
        let calls = &rows.calls.frame;
        let ends = calls.reals("start_share").zip(calls.reals("end_share"));
        Self {
            clusters: samples.filter("counted").clusters("video", "score"),
            groups,
            widths,
            windows: bins(&ends.filter_map(|(start, end)| start.zip(end)).collect::<Vec<_>>()),
            media_seconds: samples.reals("media_seconds").flatten().sum(),
            median_seconds: median(samples.reals("seconds").flatten().collect()),
        }
    }

    /// 95 % interval of a group's mean, clustered by video; `None` for one video.
    pub fn interval(&self, tag: &str, label: &str) -> Option<(f64, f64)> {
        let group = self.groups.get(&(tag.to_owned(), label.to_owned()))?;
        Some(Effect::share(&group.values().copied().collect::<Vec<_>>())?.interval())
    }
}

/// The middle value, or the mean of the two in the middle; 0 of nothing.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.get(middle) {
        None => 0.0,
        Some(upper) if values.len() % 2 == 1 => *upper,
        Some(upper) => (values[middle - 1] + upper) / 2.0,
    }
}

fn bins(windows: &[(f64, f64)]) -> Vec<u32> {
    let overlapping = |bin: usize| {
        let (from, to) = (bin as f64 / BINS as f64, (bin + 1) as f64 / BINS as f64);
        windows.iter().filter(|(start, end)| *start < to && *end > from).count() as u32
    };
    let bins: Vec<u32> = (0..BINS).map(overlapping).collect();
    if bins.iter().any(|count| *count > 0) { bins } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(median(vec![]), 0.0);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), 2.5);
    }
}
