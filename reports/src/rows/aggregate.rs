//! Sums over the rows: what tables and charts show.

use std::collections::BTreeMap;

use super::{BINS, Rows, SampleRow};
use crate::decide::Effect;
use crate::statistics::{Cluster, mean};

/// Mean of one group of a breakdown, over the records that are there.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupMean {
    /// Records.
    pub n: usize,
    /// Mean value.
    pub value: f64,
    /// 95 % interval clustered by video; `None` for one video.
    pub interval: Option<(f64, f64)>,
}

/// Tool use of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolTable {
    /// Samples by number of calls.
    pub calls: BTreeMap<u32, u32>,
    /// Samples by the largest number of calls in one turn.
    pub widths: BTreeMap<u32, u32>,
}

/// Cost of one run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// Samples.
    pub samples: u32,
    /// Tokens of all conversations.
    pub prompt_tokens: u64,
    /// Generated tokens.
    pub completion_tokens: u64,
    /// Seconds of all samples.
    pub seconds: f64,
    /// Of them, decoding.
    pub media_seconds: f64,
    /// Median seconds of a sample.
    pub median_seconds: f64,
}

/// Sums of values by their video.
pub fn sums_by_video<'a>(values: impl Iterator<Item = (&'a str, f64)>) -> BTreeMap<&'a str, Cluster> {
    let mut sums: BTreeMap<&str, Cluster> = BTreeMap::new();
    for (video, value) in values {
        let cluster = sums.entry(video).or_insert(Cluster { sum: 0.0, n: 0 });
        cluster.sum += value;
        cluster.n += 1;
    }
    sums
}

/// Sums by video of the counted samples, in the order of the videos' names.
pub fn clusters(samples: &[SampleRow]) -> Vec<Cluster> {
    let counted = samples.iter().filter(|row| row.counted);
    sums_by_video(counted.map(|row| (row.video.as_str(), row.value))).into_values().collect()
}

/// Means with intervals by tag and label.
pub fn breakdowns(rows: &Rows) -> BTreeMap<(String, String), GroupMean> {
    let mut groups: BTreeMap<(&str, &str), Vec<(&str, f64)>> = BTreeMap::new();
    for row in &rows.labels {
        groups.entry((&row.tag, &row.label)).or_default().push((&row.video, row.value));
    }
    let mean = |((tag, label), values): ((&str, &str), Vec<(&str, f64)>)| {
        let clusters: Vec<Cluster> = sums_by_video(values.into_iter()).into_values().collect();
        Some(((tag.to_owned(), label.to_owned()), group_mean(&clusters)?))
    };
    groups.into_iter().filter_map(mean).collect()
}

fn group_mean(clusters: &[Cluster]) -> Option<GroupMean> {
    Some(GroupMean {
        n: clusters.iter().map(|cluster| cluster.n).sum(),
        value: mean(clusters)?,
        interval: Effect::share(clusters).map(|effect| effect.interval()),
    })
}

/// Samples by calls and by parallel width. `None` without samples.
pub fn tool_table(samples: &[SampleRow]) -> Option<ToolTable> {
    let mut table = ToolTable::default();
    for row in samples {
        *table.calls.entry(row.calls).or_default() += 1;
        *table.widths.entry(row.width).or_default() += 1;
    }
    (!samples.is_empty()).then_some(table)
}

/// Tokens and seconds of a run. `None` without samples.
pub fn cost(samples: &[SampleRow]) -> Option<Cost> {
    let seconds: Vec<f64> = samples.iter().map(|row| row.seconds).collect();
    Some(Cost {
        samples: samples.len() as u32,
        prompt_tokens: samples.iter().map(|row| row.prompt_tokens).sum(),
        completion_tokens: samples.iter().map(|row| row.completion_tokens).sum(),
        seconds: seconds.iter().sum(),
        media_seconds: samples.iter().map(|row| row.media_seconds).sum(),
        median_seconds: median(seconds)?,
    })
}

/// The middle value, or the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len() % 2 == 1 { upper } else { (values[middle - 1] + upper) / 2.0 })
}

/// Number of windows that overlap each of [`BINS`] equal parts of the video's length. `None` without windows.
pub fn windows(rows: &Rows) -> Option<Vec<u32>> {
    let overlapping = |bin: usize| {
        let (from, to) = (bin as f64 / BINS as f64, (bin + 1) as f64 / BINS as f64);
        rows.windows.iter().filter(|(start, end)| *start < to && *end > from).count() as u32
    };
    let bins: Vec<u32> = (0..BINS).map(overlapping).collect();
    bins.iter().any(|count| *count > 0).then_some(bins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }
}
