//! Gold intervals that no answer can match, or only in part: those that do not lie in their video.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::Dataset;
use crate::media;
use crate::sample::Gold;
use crate::span::TimeSpan;

/// Flag of a sample whose gold interval does not end after it starts.
pub const REVERSED_GOLD: &str = "reversed_gold";
/// Flag of a sample whose evidence ends before it starts.
pub const REVERSED_EVIDENCE: &str = "reversed_evidence";
/// Flag of a gold interval that begins before its video.
const BEFORE: &str = "gold_before_video";
/// Flag of one that ends after its video.
const AFTER: &str = "gold_after_video_end";
/// Flag of one that begins after its video has ended: no answer within the video overlaps it.
const OUTSIDE: &str = "gold_outside_video";
/// Seconds after the end that are not noted: times are published to a tenth.
const ROUNDING: f64 = 0.1;

/// The flags of an interval in a video of so many seconds.
pub(super) fn flags(gold: TimeSpan, seconds: Option<f64>) -> impl Iterator<Item = &'static str> {
    let end = seconds.unwrap_or(f64::INFINITY);
    let outside = gold.start >= end;
    [
        (gold.length() <= 0.0, REVERSED_GOLD),
        (gold.start < 0.0 || gold.end < 0.0, BEFORE),
        (outside, OUTSIDE),
        (!outside && gold.end > end + ROUNDING, AFTER),
    ]
    .into_iter()
    .filter_map(|(is, flag)| is.then_some(flag))
}

/// The rows of a split whose gold intervals are odd, by flag, each as a line. `lengths` are the seconds of the videos
/// that have been decoded.
pub(super) fn flagged(
    dataset: &Dataset,
    mut lengths: BTreeMap<PathBuf, Option<f64>>,
) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for sample in dataset.samples.iter().filter(|sample| sample.defect.is_none()) {
        let Gold::Interval { start, end } = sample.gold else { continue };
        let path = dataset.videos.resolve(&sample.video);
        let seconds = *lengths.entry(path).or_insert_with_key(|path| media::header_seconds(path));
        for flag in flags(TimeSpan::new(start, end), seconds) {
            let length = seconds.map_or(String::new(), |seconds| format!(" of {seconds:.1} s"));
            let line = format!("row {}: {start} to {end}{length}, {}", sample.row, sample.video.display());
            found.entry(flag.to_owned()).or_default().push(line);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_that_do_not_lie_in_their_video_are_flagged() {
        let of = |start, end| flags(TimeSpan::new(start, end), Some(30.0)).collect::<Vec<_>>();
        for (start, end, expected) in [
            (0.0, 30.0, &[][..]),
            (2.0, 30.1, &[]),
            (2.0, 30.5, &[AFTER]),
            (30.0, 31.0, &[OUTSIDE]),
            (9.0, 4.0, &[REVERSED_GOLD]),
            (4.0, 4.0, &[REVERSED_GOLD]),
            (-1.0, 4.0, &[BEFORE]),
            (-1.0, -4.0, &[REVERSED_GOLD, BEFORE]),
            (40.0, 35.0, &[REVERSED_GOLD, OUTSIDE]),
        ] {
            assert_eq!(of(start, end), expected, "{start} to {end}");
        }
        assert_eq!(flags(TimeSpan::new(5.0, 1e9), None).count(), 0, "the length is not known");
    }
}
