//! Groups of samples by what was measured of them: length of the video, tool calls, place of the evidence.

use paravt_suite::record::Record;
use paravt_suite::sample::Gold;
use paravt_suite::span::TimeSpan;

use super::of_record::{seen_times, video_length};

struct Grouping {
    title: &'static str,
    /// Labels of its groups, in the order in which they are shown.
    labels: &'static [&'static str],
    /// The group of a record; `None` where the record does not say.
    group: fn(&Record) -> Option<usize>,
}

const GROUPINGS: [Grouping; 4] = [
    Grouping {
        title: "Length of the video",
        labels: &[
            "under 15 s", "15 to 30 s", "30 s to 1 min", "1 to 2 min", "2 to 5 min", "5 to 10 min",
            "10 to 20 min", "20 to 30 min", "30 to 60 min", "1 to 2 h", "2 h and more",
        ],
        group: |record| video_length(record).map(length),
    },
    Grouping {
        title: "Tool calls",
        labels: &["no call", "1 call", "2 calls", "3 calls", "4 calls", "5 calls and more"],
        group: |record| Some(record.transcript.tool_calls.len().min(5)),
    },
    Grouping {
        title: "Position of the evidence",
        labels: &["first quarter", "second quarter", "third quarter", "last quarter"],
        group: position,
    },
    Grouping {
        title: "Frames seen in the evidence",
        labels: &["no frame", "1 frame", "2 or 3 frames", "4 to 7 frames", "8 frames and more"],
        group: frames_in_evidence,
    },
];

/// Lower ends of the groups by length after the first, in seconds.
const LENGTHS: [f64; 10] = [15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0];

/// Titles of the groupings, in the order in which they are shown.
pub fn titles() -> impl Iterator<Item = &'static str> {
    GROUPINGS.iter().map(|grouping| grouping.title)
}

/// The groups that a record is in, each with the number of its grouping.
pub(super) fn groups(record: &Record) -> impl Iterator<Item = (usize, usize)> {
    let group = |(number, grouping): (usize, &Grouping)| Some((number, (grouping.group)(record)?));
    GROUPINGS.iter().enumerate().filter_map(group)
}

/// Title of a grouping and label of one of its groups.
pub(super) fn names(grouping: usize, group: usize) -> [&'static str; 2] {
    [GROUPINGS[grouping].title, GROUPINGS[grouping].labels[group]]
}

/// Position of a label among those of its grouping.
pub fn order(title: &str, label: &str) -> usize {
    let grouping = GROUPINGS.iter().find(|grouping| grouping.title == title);
    let position = |grouping: &Grouping| grouping.labels.iter().position(|other| *other == label);
    grouping.and_then(position).unwrap_or(usize::MAX)
}

fn length(seconds: f64) -> usize {
    LENGTHS.iter().filter(|from| seconds >= **from).count()
}

/// Interval of the evidence: what a grounding question asks for, or what the data set annotates.
pub fn evidence(record: &Record) -> Option<TimeSpan> {
    record.sample.gold.interval().or(record.sample.evidence)
}

fn position(record: &Record) -> Option<usize> {
    let (evidence, length) = (evidence(record)?, video_length(record)?);
    let share = 0.5 * (evidence.start + evidence.end) / length;
    share.is_finite().then(|| ((4.0 * share).max(0.0) as usize).min(3))
}

fn frames_in_evidence(record: &Record) -> Option<usize> {
    let evidence = evidence(record)?;
    let mut times = seen_times(record).peekable();
    times.peek()?;
    let inside = times.filter(|time| (evidence.start..=evidence.end).contains(time)).count();
    Some([1, 2, 4, 8].iter().filter(|from| inside >= **from).count())
}

/// Score of a guess among the options of a choice question, as a share.
pub(super) fn chance(record: &Record) -> Option<f64> {
    let question = &record.sample.question;
    let options = question.letters.chars().count().max(question.options.len());
    (matches!(record.sample.gold, Gold::Choice { .. }) && options > 1).then(|| 1.0 / options as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_has_a_label() {
        let of = |seconds| GROUPINGS[0].labels[length(seconds)];
        assert_eq!(
            [0.0, 14.9, 15.0, 59.9, 60.0, 1800.0, 9000.0].map(of),
            [
                "under 15 s", "under 15 s", "15 to 30 s", "30 s to 1 min", "1 to 2 min", "30 to 60 min",
                "2 h and more"
            ]
        );
        assert_eq!(GROUPINGS[0].labels.len(), LENGTHS.len() + 1);
    }
}
