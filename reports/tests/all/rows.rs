//! What the report sums up is what the suite's own summary says.

use crate::common::{damaged, whole};
use std::collections::BTreeMap;

use paravt_reports::statistics::mean;
use paravt_reports::{Report, tables};
use paravt_suite::fixtures::{crop, image};
use paravt_suite::message::{FrameOrigin, Role};
use paravt_suite::record::RecordedMessage;
use proptest::prelude::*;

fn frame(time: f64) -> FrameOrigin {
    FrameOrigin { index: 0, time }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn frames_and_summary_agree(rows in 1_usize..60, right in 0_usize..60, seconds in 0.1..9.0_f64) {
        let mut run = whole("videomme", "Video-MME", rows, right.min(rows));
        for record in &mut run.records {
            record.measured.seconds = seconds * (1.0 + record.sample.row as f64);
        }
        let runs = [run];
        let report = Report::build(&runs, None).unwrap();
        let cell = &report.cells[0];
        for breakdown in &cell.summary.breakdowns {
            for group in &breakdown.groups {
                let found = &cell.digest.groups[&(breakdown.tag.clone(), group.label.clone())];
                prop_assert_eq!(found.values().map(|video| video.n).sum::<usize>(), group.n);
                prop_assert!((mean(found.values()).unwrap() - group.value).abs() < 1e-12);
                if let Some((low, high)) = cell.digest.interval(&breakdown.tag, &group.label) {
                    prop_assert!(low <= group.value && group.value <= high && low < high);
                }
            }
        }
        let samples = tables::records(&runs).remove(0).frame;
        prop_assert_eq!(samples.height(), cell.summary.n_recorded);
        let tables = report.tables().unwrap();
        let scores = tables.iter().find(|table| table.name == "scores").unwrap();
        let joined = samples.inner_join(&scores.frame, &["split", "run", "profile"]);
        prop_assert_eq!(joined.height(), samples.height(), "samples and scores name their run alike");
        let tokens = |name| samples.counts(name).flatten().sum::<u64>();
        prop_assert_eq!(tokens("prompt_tokens"), cell.summary.prompt_tokens);
        prop_assert_eq!(tokens("completion_tokens"), cell.summary.completion_tokens);
        let seconds: f64 = samples.reals("seconds").flatten().sum();
        prop_assert!((seconds - cell.summary.sample_seconds).abs() < 1e-9);
    }
}

#[test]
fn errors_stay_out_of_breakdowns_where_upstream_leaves_them_out() {
    let report = Report::build(&[damaged()], None).unwrap();
    let digest = &report.cells[0].digest;
    let found: usize = digest.groups.values().flat_map(BTreeMap::values).map(|video| video.n).sum();
    assert_eq!(found, 4, "strict counts every row");
    assert_eq!(digest.widths[&1], 1);
}

#[test]
fn windows_are_shares_of_the_videos_length() {
    let mut run = whole("videomme", "Video-MME", 2, 1);
    let record = &mut run.records[0];
    let images = [0.0, 100.0].map(|time| image(frame(time)));
    record.transcript.messages = vec![RecordedMessage::new(Role::User, images.into())];
    let call = |start, end| crop(0, 0, (start, end), vec![]);
    // A twentieth each; beyond the end is cut; an empty window is none.
    record.transcript.tool_calls = vec![call(5.0, 15.0), call(95.0, 500.0), call(7.0, 7.0)];
    let report = Report::build(&[run], None).unwrap();
    let bins = &report.cells[0].digest.windows;
    let covered: Vec<usize> = (0..bins.len()).filter(|&bin| bins[bin] > 0).collect();
    assert_eq!(covered, [1, 2, 19]);
    assert_eq!(report.cells[0].digest.widths[&3], 1);
}

#[test]
fn samples_are_grouped_by_what_was_measured() {
    let mut run = whole("videomme", "Video-MME", 4, 2);
    // Ten frames over 90 s, 10 s apart; evidence in the first, second and last quarter, and nowhere.
    let evidence = [Some((5.0, 25.0)), Some((41.0, 44.0)), Some((80.0, 90.0)), None];
    for (record, evidence) in run.records.iter_mut().zip(evidence) {
        let frames = (0..10).map(|at| image(frame(10.0 * f64::from(at)))).collect();
        record.transcript.messages = vec![RecordedMessage::new(Role::User, frames)];
        record.sample.evidence = evidence.map(|(start, end)| paravt_suite::span::TimeSpan::new(start, end));
        record.sample.question.letters = "ABCD".into();
    }
    run.records[3].sample.question.letters = "AB".into();
    let frames = [41.0, 42.0, 43.0, 44.0, 45.0].map(frame);
    run.records[1].transcript.tool_calls = vec![crop(0, 0, (0.0, 50.0), frames.into())];
    let report = Report::build(&[run], None).unwrap();
    let digest = &report.cells[0].digest;
    let groups: Vec<(String, usize, f64)> = digest
        .bands
        .iter()
        .map(|band| {
            let n = band.clusters.values().map(|video| video.n).sum();
            (format!("{}: {}", band.title, band.label), n, mean(band.clusters.values()).unwrap())
        })
        .collect();
    let expected = [
        ("Length of the video: 1 to 2 min", 4, 0.5),
        ("Tool calls: no call", 3, 1.0 / 3.0),
        ("Tool calls: 1 call", 1, 1.0),
        ("Position of the evidence: first quarter", 1, 1.0),
        ("Position of the evidence: second quarter", 1, 1.0),
        ("Position of the evidence: last quarter", 1, 0.0),
        ("Frames seen in the evidence: 2 or 3 frames", 2, 0.5),
        ("Frames seen in the evidence: 4 to 7 frames", 1, 1.0),
    ];
    assert_eq!(groups, expected.map(|(name, n, score)| (name.to_owned(), n, score)));
    assert_eq!(digest.chance, Some((3.0 * 0.25 + 0.5) / 4.0));
    let frames = digest.frames;
    assert_eq!(
        (frames.overview, frames.crops, frames.without, frames.spacing),
        ((10, 10.0, 10), 1.25, 0, Some(10.0))
    );
}
