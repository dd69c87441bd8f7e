//! Probes and repetitions through the front door.

use std::time::Duration;

use super::*;
use crate::record::{RecordedPart, SampleErrorClass};

fn run(world: &World, config: &RunConfig, name: &str) -> Vec<Record> {
    world.evaluate(config, name).unwrap();
    world.records(name)
}

#[test]
fn a_probed_run_is_another_run_and_asks_its_samples_changed() {
    let world = World::new();
    let base = strict();
    let plain = run(&world, &base, "plain");
    let shuffled = RunConfig { probe: Some("shuffle:5".parse().unwrap()), ..base.clone() };
    let records = run(&world, &shuffled, "shuffled");
    assert!(plain.iter().zip(&records).any(|(a, b)| a.sample.gold != b.sample.gold));
    for (a, b) in plain.iter().zip(&records) {
        assert_eq!((a.sample.gold_text(), &a.sample.uid), (b.sample.gold_text(), &b.sample.uid));
    }
    let [first, second] =
        ["plain", "shuffled"].map(|name| journal::read_manifest(&world.path(name)).unwrap());
    assert_eq!(first.differences(&second), ["probe was not set, now shuffle:5"]);
    assert!(first.has_probe(&second) && !second.has_probe(&first) && !first.has_probe(&first));
    assert!(second.display_name().ends_with("· probe shuffle:5"));
    let resumed = RunConfig { resume: true, ..base };
    let error = prepare(&world.run(&resumed, "shuffled"), &world.workspace()).err().unwrap().to_string();
    assert!(error.contains("probe was shuffle:5, now not set"), "{error}");
}

#[test]
fn a_blind_run_shows_no_frame_and_needs_no_video() {
    let world = World::new();
    std::fs::remove_file(world.path("clip.mp4")).unwrap();
    let blind = RunConfig { probe: Some("blind".parse().unwrap()), ..strict() };
    for record in run(&world, &blind, "blind") {
        assert!(record.error.is_none() && record.transcript.frame_loss.is_none(), "{record:?}");
        let images = |part: &&RecordedPart| !matches!(part, RecordedPart::Text { .. });
        assert_eq!(record.transcript.messages.iter().flat_map(|m| &m.parts).filter(images).count(), 0);
        assert_eq!(record.transcript.inputs.unwrap().count, None);
    }
}

#[test]
fn a_repeated_run_has_each_sample_so_often_and_shards_of_it_merge() {
    let world = World::new();
    let config = RunConfig { repeat: Some(3), seed: Some(10), temperature: Some(1.0), ..strict() };
    let outcome = world.evaluate(&config, "whole").unwrap().0;
    assert_eq!((outcome.expected, outcome.records, outcome.summary.n_expected), (18, 18, 18));
    assert!(outcome.summary.complete);
    let keys = |name: &str| -> Vec<(String, usize)> {
        let records = journal::read_run(&world.path(name)).unwrap().1.records;
        records.iter().map(|record| (record.sample.uid.clone(), record.epoch)).collect()
    };
    let all: Vec<_> = (0..6).flat_map(|row| (0..3).map(move |epoch| (format!("u{row}"), epoch))).collect();
    assert_eq!(keys("whole"), all);
    for shard in ["1/2", "2/2"] {
        let part = RunConfig { shard: Some(shard.parse().unwrap()), ..config.clone() };
        world.evaluate(&part, &format!("part{}", &shard[..1])).unwrap();
    }
    let merged = merge(&[world.path("part1"), world.path("part2")], &world.path("merged")).unwrap();
    assert_eq!((merged.records, merged.expected), (18, 18));
    assert_eq!(keys("merged"), all);
    // A run can gain repetitions, not lose any.
    let more = RunConfig { repeat: Some(4), resume: true, ..config.clone() };
    let (grown, events) = world.evaluate(&more, "merged").unwrap();
    assert!(events.contains(&"made_up: 6 of 24, 18 there".to_owned()), "{events:?}");
    assert_eq!((grown.records, grown.summary.n_expected, grown.summary.complete), (24, 24, true));
    let fewer = world.evaluate(&RunConfig { resume: true, ..config }, "merged").unwrap_err().to_string();
    assert!(fewer.contains("repeat was 4, now 3"), "{fewer}");
    // A record of a repetition that the plan does not have belongs to another run.
    let line = std::fs::read_to_string(world.path("whole/journal.jsonl")).unwrap();
    let foreign =
        line.lines().find(|line| line.contains("\"epoch\":2")).unwrap().replace("\"epoch\":2", "\"epoch\":3");
    let mut file = std::fs::OpenOptions::new().append(true).open(world.path("whole/journal.jsonl")).unwrap();
    writeln!(file, "{foreign}").unwrap();
    let error = journal::read_run(&world.path("whole")).unwrap_err().to_string();
    assert!(error.contains("it is epoch 3, counted from 0, of a run with 3"), "{error}");
}

#[test]
fn a_video_that_is_not_decoded_in_time_has_lost_its_frames_and_is_counted() {
    let world = World::new();
    let workspace = Workspace { frames: Arc::new(CachedFrames::within(Duration::ZERO)), ..world.workspace() };
    let run = world.run(&strict(), "late");
    let backend = Arc::new(SaysA { refuses: false });
    let outcome = world.block_on(evaluate(&run, &workspace, backend, Arc::new(()))).unwrap();
    assert_eq!((outcome.summary.n_decode_timeouts, outcome.failed), (6, 6));
    for record in world.records("late") {
        let error = record.error.unwrap();
        assert_eq!((error.class, record.transcript.decode_timeout), (SampleErrorClass::FrameLoss, true));
        assert_eq!(
            error.message,
            "made_up/clip.mp4: not decoded within 0 s; the file may be damaged, or its disk slow"
        );
    }
}
