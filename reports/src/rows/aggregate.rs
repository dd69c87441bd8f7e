//! Sums over the frames of a run: what tables and charts show beside its summary.

use std::collections::BTreeMap;

use paravt_suite::run::Selection;
use paravt_suite::summary::QuestionGroup;

use super::bands;
use super::of_record::cluster_of;
use super::sums::{Sums, Videos};
use crate::decide::Effect;
use crate::frame::Frame;
use crate::statistics::{Cluster, mean};

/// Numbers of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Digest {
    /// Sums of the counted samples by video.
    pub clusters: BTreeMap<String, Cluster>,
    /// The same by an agent's own extraction of answers; empty where the runs have none.
    pub agent_scores: BTreeMap<String, Cluster>,
    /// Sums of the labels by tag, label and video.
    pub groups: BTreeMap<(String, String), BTreeMap<String, Cluster>>,
    /// Sums of the scores of groups of four questions by video; empty where the metric has none.
    pub question_groups: BTreeMap<String, Cluster>,
    /// Samples by the largest number of calls in one turn.
    pub widths: BTreeMap<u64, u32>,
    /// Number of windows that overlap each of [`BINS`](super::BINS) equal parts of the video's length; empty without windows.
    pub windows: Vec<u32>,
    /// Seconds of all samples in which media were decoded.
    pub media_seconds: f64,
    /// Seconds of a sample.
    pub seconds: Spread,
    /// Seconds to the first token of a model call.
    pub first_token: Spread,
    /// Seconds per further token of a model call.
    pub token: Spread,
    /// Prompt tokens per second of a model call until its first token.
    pub prompt_rate: Spread,
    /// Sums by grouping, group and video: length of the video, tool calls, place of the evidence; in order.
    pub bands: Vec<Band>,
    /// Frames that the model saw.
    pub frames: FrameCounts,
    /// Mean score of a guess over the counted samples, as a share; `None` unless all of them are choice questions.
    pub chance: Option<f64>,
}

/// One group of a grouping by what was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    pub title: String,
    pub label: String,
    /// Sums by video.
    pub clusters: BTreeMap<String, Cluster>,
}

/// Number, mean and quantiles of a measurement, these linear between two values as numpy has it by default; 0 of nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spread {
    /// Number of values.
    pub n: usize,
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// Nine in ten are no larger.
    pub p90: f64,
    /// 99 in 100 are no larger.
    pub p99: f64,
}

/// Frames that the model saw in the samples of a run; means per sample.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FrameCounts {
    /// Fewest, mean and most frames of an overview.
    pub overview: (u64, f64, u64),
    pub crops: f64,
    /// Frames that sub-agents looked at.
    pub sub_agents: f64,
    /// Samples of which no frame is recorded: frames were lost, or a server sampled the video.
    pub without: usize,
    /// Mean seconds between two frames of an overview.
    pub spacing: Option<f64>,
}

impl Digest {
    /// Sums up a run: its [`samples`](super::samples), and what was summed beside them.
    pub(crate) fn of(samples: &Frame, sums: Sums<'_>, selection: &Selection) -> Self {
        let mut question_groups = Videos::default();
        for QuestionGroup { value, last } in sums.question_groups.finish(selection) {
            last.into_iter().for_each(|last| question_groups.add(&cluster_of(&last.video), value));
        }
        let of_tag = |(tag, labels): (&str, BTreeMap<String, Videos>)| {
            let tag = tag.to_owned();
            labels.into_iter().map(move |(label, videos)| ((tag.clone(), label), videos.by_name()))
        };
        let band = |((grouping, group), videos): ((usize, usize), Videos)| {
            let [title, label] = bands::names(grouping, group).map(str::to_owned);
            Band { title, label, clusters: videos.by_name() }
        };
        let mut widths = BTreeMap::new();
        samples.counts("parallel_calls").flatten().for_each(|width| *widths.entry(width).or_default() += 1);
        let has_windows = sums.windows.iter().any(|count| *count > 0);
        Self {
            clusters: sums.clusters.by_name(),
            agent_scores: sums.agent_scores.unwrap_or_default().by_name(),
            groups: sums.groups.into_iter().flat_map(of_tag).collect(),
            question_groups: question_groups.by_name(),
            widths,
            windows: if has_windows { sums.windows.to_vec() } else { Vec::new() },
            media_seconds: samples.reals("media_seconds").flatten().sum(),
            seconds: Spread::of(samples.reals("seconds").flatten().collect()),
            first_token: Spread::of(sums.first_token),
            token: Spread::of(sums.token),
            prompt_rate: Spread::of(sums.prompt_rate),
            bands: sums.bands.into_iter().map(band).collect(),
            frames: FrameCounts::of(samples),
            chance: chance(&samples.select(&["counted", "chance"]).filter("counted")),
        }
    }

    /// 95 % interval of a group's mean, clustered by video; `None` for one video.
    pub fn interval(&self, tag: &str, label: &str) -> Option<(f64, f64)> {
        let group = self.groups.get(&(tag.to_owned(), label.to_owned()))?;
        Effect::share(group.values())?.interval()
    }
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * values.len().saturating_sub(1) as f64;
            let (low, high) = (values.get(place.floor() as usize), values.get(place.ceil() as usize));
            low.zip(high).map_or(0.0, |(low, high)| low + place.fract() * (high - low))
        };
        let (n, sum) = (values.len(), values.iter().sum::<f64>());
        Self { n, mean: sum / n.max(1) as f64, p50: at(0.5), p90: at(0.9), p99: at(0.99) }
    }
}

impl FrameCounts {
    fn of(samples: &Frame) -> Self {
        let all = |name| samples.counts(name).flatten().collect::<Vec<u64>>();
        let mean_of = |counts: &[u64]| counts.iter().sum::<u64>() as f64 / counts.len().max(1) as f64;
        let [overview, crops, sub_agents] = ["overview_frames", "crop_frames", "sub_agent_frames"].map(all);
        let without = (0..overview.len()).filter(|&row| overview[row] + crops[row] + sub_agents[row] == 0);
        let lengths = samples.reals("video_seconds").zip(&overview);
        let spacings = lengths.filter_map(|(length, frames)| {
            let gaps = frames.checked_sub(1).filter(|gaps| *gaps > 0)?;
            Some(length? / gaps as f64)
        });
        let ends = (overview.iter().min(), overview.iter().max());
        Self {
            overview: (
                ends.0.copied().unwrap_or_default(),
                mean_of(&overview),
                ends.1.copied().unwrap_or_default(),
            ),
            crops: mean_of(&crops),
            sub_agents: mean_of(&sub_agents),
            without: without.count(),
            spacing: mean(spacings),
        }
    }
}

/// Samples with their scores by an agent's own extraction, 0 of failed ones; `None` where there is none.
pub(crate) fn by_agent_extraction(samples: &Frame) -> Option<Frame> {
    let scores: Vec<Option<f64>> = samples.reals("own_score").collect();
    let has_any = scores.iter().any(Option::is_some);
    has_any
        .then(|| samples.clone().with("score", scores.into_iter().map(Option::unwrap_or_default).collect()))
}

fn chance(counted: &Frame) -> Option<f64> {
    mean(counted.reals("chance").collect::<Option<Vec<f64>>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_quantiles_are_those_of_numpy() {
        assert_eq!(Spread::of(vec![]), Spread::default());
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]).p50, 2.0);
        // numpy.percentile([4, 1, 3, 2], [50, 90, 99])
        let of_four = Spread::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!((of_four.n, of_four.mean, of_four.p50, of_four.p90), (4, 2.5, 2.5, 3.7));
        assert!((of_four.p99 - 3.97).abs() < 1e-12);
    }
}
