//! Scores summed by video, record by record: no record is kept.

use std::collections::{BTreeMap, HashMap};

use paravt_suite::profile::Switches;
use paravt_suite::record::Record;
use paravt_suite::summary::{QuestionGroups, counts, leaves_groups};
use paravt_suite::task::{Breakdown, TaskSpec};

use super::bands;
use super::of_record::{cluster_name, token_times, video_length, window};
use crate::statistics::Cluster;

/// Equal parts of a video's length in which windows are counted.
pub const BINS: usize = 20;

/// Sums of scores by the name of the video.
#[derive(Debug, Default)]
pub(super) struct Videos(HashMap<String, Cluster>);

impl Videos {
    pub(super) fn add(&mut self, video: &str, score: f64) {
        match self.0.get_mut(video) {
            Some(Cluster { sum, n }) => (*sum, *n) = (*sum + score, *n + 1),
            None => _ = self.0.insert(video.to_owned(), Cluster { sum: score, n: 1 }),
        }
    }

    /// As many rows of each video, each with a score of 0.
    fn zeroed(&self) -> Self {
        let zero =
            |(video, cluster): (&String, &Cluster)| (video.clone(), Cluster { sum: 0.0, n: cluster.n });
        Self(self.0.iter().map(zero).collect())
    }

    pub(super) fn by_name(self) -> BTreeMap<String, Cluster> {
        self.0.into_iter().collect()
    }
}

/// What a digest sums over records. Sums of floats depend on the order of their terms: records come by row.
#[derive(Debug)]
pub(crate) struct Sums<'a> {
    switches: &'a Switches,
    breakdowns: &'a [Breakdown],
    pub(super) clusters: Videos,
    /// By an agent's own extraction, from the first record on that has one.
    pub(super) agent_scores: Option<Videos>,
    /// By tag and label.
    pub(super) groups: BTreeMap<&'a str, BTreeMap<String, Videos>>,
    /// By grouping and group.
    pub(super) bands: BTreeMap<(usize, usize), Videos>,
    pub(super) question_groups: QuestionGroups<'a>,
    /// Windows that overlap each part of the video's length.
    pub(super) windows: [u32; BINS],
    pub(super) first_token: Vec<f64>,
    pub(super) token: Vec<f64>,
    pub(super) prompt_rate: Vec<f64>,
}

impl<'a> Sums<'a> {
    /// Nothing yet.
    pub(crate) fn new(spec: &'a TaskSpec, switches: &'a Switches) -> Self {
        Self {
            switches,
            breakdowns: &spec.breakdowns,
            clusters: Videos::default(),
            agent_scores: None,
            groups: BTreeMap::new(),
            bands: BTreeMap::new(),
            question_groups: QuestionGroups::new(spec, switches),
            windows: [0; BINS],
            first_token: Vec::new(),
            token: Vec::new(),
            prompt_rate: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, record: &Record) {
        self.question_groups.add(record);
        self.add_calls(record);
        if !counts(record, self.switches) {
            return;
        }
        let (video, score) = (cluster_name(record), record.score.value);
        let agent_score = record.agent_score.as_ref().map(|one| one.score.value);
        if agent_score.is_some() && self.agent_scores.is_none() {
            self.agent_scores = Some(self.clusters.zeroed());
        }
        self.agent_scores.iter_mut().for_each(|videos| videos.add(&video, agent_score.unwrap_or_default()));
        self.clusters.add(&video, score);
        for Breakdown { tag, .. } in self.breakdowns {
            if leaves_groups(record, tag, self.switches) {
                continue;
            }
            let groups = self.groups.entry(tag).or_default();
            for label in record.sample.tags.get(tag).into_iter().flatten() {
                match groups.get_mut(label) {
                    Some(videos) => videos.add(&video, score),
                    None => groups.entry(label.clone()).or_default().add(&video, score),
                }
            }
        }
        for band in bands::groups(record) {
            self.bands.entry(band).or_default().add(&video, score);
        }
    }

    fn add_calls(&mut self, record: &Record) {
        let length = video_length(record);
        let windows = record.transcript.tool_calls.iter().filter_map(|call| window(call, length));
        for (start, end) in windows {
            for (bin, count) in self.windows.iter_mut().enumerate() {
                let (from, to) = (bin as f64 / BINS as f64, (bin + 1) as f64 / BINS as f64);
                *count += u32::from(start < to && end > from);
            }
        }
        for times in token_times(record) {
            self.first_token.push(times.first);
            self.token.extend(times.further);
            self.prompt_rate.extend(times.prompt_rate());
        }
    }
}
