//! Two runs on the same samples: the ablation and the gate.
#![allow(clippy::unwrap_used)]

mod common;

use common::{damaged, whole};
use paravt_reports::compare::{compare, markdown, tables, terminal};
use paravt_reports::gate::{self, Baseline, Entry, Rule, Status, append, check, junit};
use paravt_reports::{COLUMNS, ReportError, Run};
use paravt_suite::profile::Profile;
use paravt_suite::record::Outcome;

const ROWS: usize = 400;

/// A run that is right in the first `right` rows.
fn run(right: usize) -> Run {
    whole("videomme", "Video-MME (w/o subtitles)", ROWS, right)
}

#[test]
fn an_ablation_shows_difference_flips_and_cost() {
    let (a, mut b) = (run(200), run(260));
    b.manifest.plan.max_parallel = 1;
    for record in &mut b.records {
        record.measured.seconds = 2.0;
    }
    // One that turned the other way.
    b.records[0].score.value = 0.0;
    let ablation = compare(&[a], &[b]).unwrap();
    let pair = &ablation.splits[0];
    assert_eq!((pair.n, pair.flips.gained, pair.flips.lost), (ROWS, 60, 1));
    assert!((pair.mean.difference - 59.0 / 400.0).abs() < 1e-12);
    assert!(pair.p < 1e-12 && pair.p_holm == pair.p);
    assert_eq!(pair.differs, ["max_parallel was 5, now 1"]);
    let (_, seconds) = pair.cost_per_point().unwrap();
    assert!((seconds - 1.5 / 14.75).abs() < 1e-12);
    let text = terminal(&ablation);
    assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
    insta::assert_snapshot!(text);
    let link = |_: &str, uid: &str| Some(format!("index.html{}", paravt_reports::page::address(1, uid)));
    let text = markdown(&ablation, link).unwrap();
    assert!(text.contains("| videomme | [0](index.html#sample=1/0) | right to wrong |"), "{text}");
    assert_eq!(tables(&ablation).unwrap()[1].frame.height(), 61);
}

#[test]
fn equal_runs_show_no_difference_and_what_they_would_have_shown() {
    let ablation = compare(&[run(200)], &[run(200)]).unwrap();
    let pair = &ablation.splits[0];
    assert_eq!((pair.mean.difference, pair.p), (0.0, 1.0));
    assert_eq!(pair.cost_per_point(), None);
    assert!(terminal(&ablation).contains("no difference shown"));
}

#[test]
fn profiles_are_never_mixed_and_strangers_never_paired() {
    let mut strict = run(200);
    strict.manifest.plan.profile = Profile::Strict;
    assert!(matches!(compare(&[run(200)], &[strict]), Err(ReportError::Profiles { .. })));
    assert!(matches!(compare(&[run(200)], &[damaged()]), Err(ReportError::NothingInCommon)));
}

fn gate_of(right: usize, change: impl FnOnce(&mut Run)) -> gate::Verdict {
    let baseline = Baseline::of(&[run(200)], Rule::default(), vec![]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("baseline.json");
    baseline.write(&path).unwrap();
    let read = Baseline::read(&path).unwrap();
    assert_eq!(read, baseline);
    let mut now = run(right);
    change(&mut now);
    check(&read, &[now], None).unwrap()
}

fn failed(verdict: &gate::Verdict) -> Vec<&str> {
    let worst = verdict.status();
    verdict.checks.iter().filter(|check| check.status == worst).map(|check| check.name.as_str()).collect()
}

#[test]
fn the_gate_passes_an_equal_run_and_fails_a_worse_one() {
    assert_eq!(gate_of(200, |_| ()).status(), Status::Pass);
    assert_eq!(gate_of(220, |_| ()).status(), Status::Pass);
    let worse = gate_of(150, |_| ());
    assert_eq!((worse.status(), failed(&worse)), (Status::Fail, vec!["score"]));
    // Two points lower where one is allowed, eight answers of 400: the data cannot tell.
    let unclear = gate_of(192, |_| ());
    assert_eq!((unclear.status(), failed(&unclear)), (Status::Undecided, vec!["score"]));
}

#[test]
fn the_gate_sees_slower_runs_and_more_errors() {
    let slow = gate_of(200, |run| run.records.iter_mut().for_each(|record| record.measured.seconds = 1.0));
    assert_eq!(failed(&slow), ["speed"]);
    let elsewhere = gate_of(200, |run| {
        run.manifest.host.cores = 64;
        run.records.iter_mut().for_each(|record| record.measured.seconds = 1.0);
    });
    assert_eq!(elsewhere.status(), Status::Pass);
    let errors = gate_of(200, |run| {
        run.records[399].score.outcome = Outcome::Error;
        run.records[399].error = damaged().records[3].error.clone();
    });
    assert_eq!((errors.status(), failed(&errors)), (Status::Fail, vec!["errors"]));
}

#[test]
fn the_gate_never_compares_another_measurement() {
    let protocol = gate_of(0, |run| run.manifest.protocol_hash = "4567".into());
    assert_eq!(protocol.status(), Status::Undecided);
    assert!(protocol.checks[0].message.contains("protocol was 0123, now 4567"));
    assert!(protocol.scores.is_empty());
    let missing = gate_of(200, |run| drop(run.records.pop()));
    assert_eq!(failed(&missing), ["complete"]);
    let other = check(&Baseline::of(&[run(200)], Rule::default(), vec![]), &[damaged()], None).unwrap();
    assert_eq!(other.status(), Status::Undecided);
}

#[test]
fn benches_are_judged_by_both_intervals() {
    let estimate = |mean: f64| gate::Estimate {
        name: "frames/overview".into(),
        mean,
        interval: (0.9 * mean, 1.1 * mean),
    };
    let baseline = Baseline::of(&[], Rule::default(), vec![estimate(100.0)]);
    let status = |mean| check(&baseline, &[], Some(&[estimate(mean)])).unwrap().status();
    assert_eq!(status(100.0), Status::Pass);
    assert_eq!(status(150.0), Status::Undecided);
    assert_eq!(status(200.0), Status::Fail);
    assert_eq!(check(&baseline, &[], Some(&[])).unwrap().status(), Status::Undecided);
}

#[test]
fn the_verdict_is_written_for_people_servers_and_later() {
    let verdict = gate_of(150, |run| run.manifest.task.title = "<x> & \"y\"".into());
    insta::assert_snapshot!("gate.md", gate::markdown(&verdict));
    insta::assert_snapshot!("gate.xml", junit(&verdict).unwrap());
    assert!(gate::terminal(&verdict).lines().all(|line| line.chars().count() <= COLUMNS));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.jsonl");
    for time in [1.0, 2.0] {
        let entries = append(&path, &Entry::of(&verdict, "abc", time)).unwrap();
        assert_eq!(entries.last().unwrap().time, time);
        assert_eq!(entries.len(), time as usize);
    }
}
