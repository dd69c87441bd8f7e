//! Scores of groups of four questions, of the records of a run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{ErrorCounting, Metric, Record, Selection, Switches, TaskSpec, counts, ratio};
use crate::sample::Tags;
use crate::scoring::group::{SIZE, Structure, score};

/// A group of four questions.
#[derive(Debug, Clone, PartialEq)]
pub struct QuestionGroup {
    /// Its score, between 0 and 1.
    pub value: f64,
    /// Its last question that is recorded, if any is.
    pub last: Option<Last>,
}

/// The last question of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct Last {
    place: u32,
    pub video: PathBuf,
    pub tags: Tags,
}

/// A question: its place in the group, the group's structure, whether the answer is right.
type Question = (u32, Structure, bool);

/// The groups of four while records are counted; none where the metric of the split is another.
#[derive(Debug)]
pub struct QuestionGroups<'a> {
    metric: &'a Metric,
    switches: &'a Switches,
    epochs: usize,
    /// By label and epoch.
    groups: BTreeMap<(String, usize), (Vec<Question>, Option<Last>)>,
}

impl<'a> QuestionGroups<'a> {
    /// Nothing yet.
    pub fn new(spec: &'a TaskSpec, switches: &'a Switches) -> Self {
        Self { metric: &spec.metric, switches, epochs: 1, groups: BTreeMap::new() }
    }

    /// Counts a record.
    pub fn add(&mut self, record: &Record) {
        self.epochs = self.epochs.max(record.epoch + 1);
        if !counts(record, self.switches) {
            return;
        }
        let Ok(Some(member)) = self.metric.member(&record.sample.tags) else { return };
        let (questions, last) = self.groups.entry((member.group.to_owned(), record.epoch)).or_default();
        questions.push((member.place, member.structure, record.score.value >= 1.0));
        if last.as_ref().is_none_or(|last| last.place <= member.place) {
            let (video, tags) = (record.sample.video.clone(), record.sample.tags.clone());
            *last = Some(Last { place: member.place, video, tags });
        }
    }

    /// The groups whose four questions are all among the selected ones, in each repetition. A question without a record is
    /// wrong. A group without any is one where every expected row counts.
    pub fn finish(mut self, selection: &Selection) -> Vec<QuestionGroup> {
        let Metric::GroupScore { group, .. } = self.metric else { return Vec::new() };
        let every_row = self.switches.errors == ErrorCounting::EveryExpectedRow;
        let sizes = selection.sizes.groups.get(group);
        let whole = sizes.into_iter().flatten().filter(|(_, size)| **size >= SIZE * self.epochs);
        let keys = whole.flat_map(|(label, _)| (0..self.epochs).map(move |epoch| (label.clone(), epoch)));
        let found = keys.map(|key| self.groups.remove(&key).unwrap_or_default());
        found.filter(|(questions, _)| every_row || !questions.is_empty()).map(score_group).collect()
    }
}

/// The score of a group's records.
fn score_group((mut questions, last): (Vec<Question>, Option<Last>)) -> QuestionGroup {
    questions.sort_by_key(|(place, ..)| *place);
    let mut right = [false; SIZE];
    for (index, (place, _, is_right)) in questions.iter().enumerate() {
        // Places are numbers from 1; a file with others has them in order.
        let place = if questions.len() == SIZE { index } else { (*place as usize).saturating_sub(1) };
        if let Some(right) = right.get_mut(place) {
            *right = *is_right;
        }
    }
    let value = questions.first().map_or(0.0, |(_, structure, _)| score(*structure, right) / 100.0);
    QuestionGroup { value, last }
}

/// Name, number of groups and mean of the score over all groups, then over those of each label; nothing without groups.
pub(super) fn means(metric: &Metric, groups: &[QuestionGroup]) -> Vec<(String, usize, f64)> {
    let Metric::GroupScore { by, .. } = metric else { return Vec::new() };
    if groups.is_empty() {
        return Vec::new();
    }
    let mean =
        |name: String, values: Vec<f64>| (name, values.len(), ratio(values.iter().sum(), values.len()));
    let mut means = vec![mean("group score".to_owned(), groups.iter().map(|group| group.value).collect())];
    for tag in by {
        let mut labels: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for QuestionGroup { value, last } in groups {
            let tags = last.as_ref().and_then(|last| last.tags.get(tag));
            for label in tags.into_iter().flatten() {
                labels.entry(label).or_default().push(*value);
            }
        }
        means.extend(
            labels.into_iter().map(|(label, values)| mean(format!("group score, {tag} {label}"), values)),
        );
    }
    means
}
