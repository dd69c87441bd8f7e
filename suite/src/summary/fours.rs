//! Scores of groups of four questions, of the records of a run.

use std::collections::BTreeMap;

use super::{ErrorCounting, Metric, Record, Selection, Switches, TaskSpec, counts, ratio};
use crate::scoring::Member;
use crate::scoring::group::{SIZE, score};

/// A group of four questions.
#[derive(Debug, Clone, PartialEq)]
pub struct Four<'a> {
    /// Its score, between 0 and 1.
    pub value: f64,
    /// The record of its last question; `None` while no question of it is recorded.
    pub last: Option<&'a Record>,
}

/// The groups whose four questions are all among the selected ones, in each repetition; none where the metric of the
/// split is another. A question without a record is wrong. A group without any is one where every expected row counts.
pub fn fours<'a>(
    spec: &TaskSpec,
    switches: &Switches,
    selection: &Selection,
    records: &'a [Record],
) -> Vec<Four<'a>> {
    let Metric::GroupScore { group, .. } = &spec.metric else { return Vec::new() };
    let mut groups: BTreeMap<(&str, usize), Vec<(Member<'_>, &Record)>> = BTreeMap::new();
    let epochs = 1 + records.iter().map(|record| record.epoch).max().unwrap_or_default();
    let sizes = selection.sizes.groups.get(group);
    for (label, _) in sizes.into_iter().flatten().filter(|(_, size)| **size >= SIZE * epochs) {
        groups.extend((0..epochs).map(|epoch| ((label.as_str(), epoch), Vec::new())));
    }
    for record in records.iter().filter(|record| counts(record, switches)) {
        if let Ok(Some(member)) = spec.metric.member(&record.sample.tags)
            && let Some(group) = groups.get_mut(&(member.group, record.epoch))
        {
            group.push((member, record));
        }
    }
    let every_row = switches.errors == ErrorCounting::EveryExpectedRow;
    let scored = groups.into_values().filter(|group| every_row || !group.is_empty());
    scored.map(of).collect()
}

/// The score of a group's records.
fn of<'a>(mut group: Vec<(Member<'_>, &'a Record)>) -> Four<'a> {
    group.sort_by_key(|(member, _)| member.place);
    let mut right = [false; SIZE];
    for (index, (member, record)) in group.iter().enumerate() {
        // Places are numbers from 1; a file with others has them in order.
        let place = if group.len() == SIZE { index } else { (member.place as usize).saturating_sub(1) };
        if let Some(right) = right.get_mut(place) {
            *right = record.score.value >= 1.0;
        }
    }
    let value = group.first().map_or(0.0, |(member, _)| score(member.structure, right) / 100.0);
    Four { value, last: group.last().map(|(_, record)| *record) }
}

/// Name, number of groups and mean of the score over all groups, then over those of each label; nothing without groups.
pub(super) fn means(metric: &Metric, fours: &[Four<'_>]) -> Vec<(String, usize, f64)> {
    let Metric::GroupScore { by, .. } = metric else { return Vec::new() };
    if fours.is_empty() {
        return Vec::new();
    }
    let mean =
        |name: String, values: Vec<f64>| (name, values.len(), ratio(values.iter().sum(), values.len()));
    let mut means = vec![mean("group score".to_owned(), fours.iter().map(|four| four.value).collect())];
    for tag in by {
        let mut labels: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for Four { value, last } in fours {
            let tags = last.and_then(|record| record.sample.tags.get(tag));
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
