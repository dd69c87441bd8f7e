//! Two runs on the same samples.

use crate::common::{damaged, whole};
use paravt_reports::compare::{compare, json, markdown, tables, terminal};
use paravt_reports::terminal::{COLUMNS, Detail};
use paravt_reports::{ReportError, Run, Verdict};
use paravt_suite::profile::Profile;

const ROWS: usize = 400;

/// A run that is right in the first `right` rows.
fn run(right: usize) -> Run {
    whole("videomme", "Video-MME (w/o subtitles)", ROWS, right)
}

#[test]
fn an_ablation_shows_difference_flips_and_cost() {
    let (mut a, mut b) = (run(200), run(260));
    a.manifest.plan.max_parallel = 1;
    b.records.iter_mut().for_each(|record| record.measured.seconds = 2.0);
    // One that turned the other way.
    b.records[0].score.value = 0.0;
    let ablation = compare(&[a], &[b]).unwrap();
    let pair = &ablation.splits[0];
    assert_eq!((pair.n, pair.flips.gained, pair.flips.lost), (ROWS, 60, 1));
    assert!((pair.difference - 59.0 / 400.0).abs() < 1e-12);
    assert!(pair.p.unwrap() < 1e-6 && pair.p_holm == pair.p);
    assert_eq!(pair.differs, ["max_parallel was 1, now 5"]);
    let (_, seconds) = pair.cost_per_point().unwrap();
    assert!((seconds - 1.5 / 14.75).abs() < 1e-12);
    for (name, detail) in [("compare_brief.txt", Detail::Brief), ("compare_full.txt", Detail::Full)] {
        let text = terminal(&ablation, detail).to_string();
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        insta::assert_snapshot!(name, text);
    }
    let machine: serde_json::Value = serde_json::from_str(&json(&ablation)).unwrap();
    assert_eq!(machine["splits"][0]["flips"], serde_json::json!({"gained": 60, "lost": 1}));
    let text = markdown(&ablation, |task, uid| Some(format!("index.html#{task}/{uid}")));
    assert!(text.contains("| videomme | [0](index.html#videomme/0) | right to wrong |"), "{text}");
    assert_eq!(tables(&ablation)[1].frame.height(), 61);
}

#[test]
fn equal_runs_show_no_difference_and_the_detectable_one() {
    let ablation = compare(&[run(200)], &[run(200)]).unwrap();
    let pair = &ablation.splits[0];
    assert_eq!((pair.difference, pair.p), (0.0, Some(1.0)));
    assert_eq!(pair.cost_per_point(), None);
    assert!(terminal(&ablation, Detail::Full).to_string().contains("no answer changed"));
    assert_eq!(pair.verdict, Verdict::Unchanged);
    let brief = terminal(&ablation, Detail::Brief).to_string();
    assert!(brief.contains("no score differs") && !brief.contains("inconclusive"), "{brief}");
}

#[test]
fn splits_of_one_side_are_not_said_to_have_no_sample_in_common() {
    let other = |name| whole(name, name, 20, 10);
    let ablation = compare(&[run(200), other("mlvu")], &[run(200), other("lvbench")]).unwrap();
    let text = terminal(&ablation, Detail::Brief).to_string();
    assert!(text.contains("only in A: mlvu\nonly in B: lvbench\n") && !text.contains("in common"), "{text}");
    let text = markdown(&ablation, |_, _| None);
    assert!(text.contains("mlvu: only in A"), "{text}");
}

#[test]
fn changes_that_cancel_out_are_not_unchanged() {
    let (mut a, mut b) = (run(200), run(200));
    (a.records[0].score.value, b.records[1].score.value) = (0.0, 0.0);
    let ablation = compare(&[a], &[b]).unwrap();
    assert_eq!((ablation.splits[0].difference, &ablation.splits[0].verdict), (0.0, &Verdict::Inconclusive));
    let text = terminal(&ablation, Detail::Full).to_string();
    assert!(!text.contains("no answer changed") && text.contains("1 right to wrong"), "{text}");
}

#[test]
fn an_interval_stays_within_what_a_difference_can_be() {
    let interval = |a, b| {
        let few = |right| whole("mlvu", "MLVU", 10, right);
        let ablation = compare(&[few(a)], &[few(b)]).unwrap();
        let pair = &ablation.splits[0];
        let (low, high) = pair.interval.unwrap();
        assert!(low <= pair.difference && pair.difference <= high, "{pair:?}");
        (low, high)
    };
    let (low, high) = interval(10, 0);
    assert!(low == -1.0 && (-0.3..0.0).contains(&high), "{low} {high}");
    assert_eq!(interval(0, 10), (-high, 1.0));
    // A's score is an estimate too: its true value may be less than the half that it has here.
    let (low, high) = interval(5, 2);
    assert!(low < -0.5 && high > 0.0, "{low} {high}");
}

#[test]
fn mixed_profiles_and_unpaired_runs_are_rejected() {
    let mut strict = run(200);
    strict.manifest.plan.rules = Profile::Strict.into();
    assert!(matches!(compare(&[run(200)], &[strict]), Err(ReportError::Profiles { .. })));
    assert!(matches!(compare(&[run(200)], &[damaged()]), Err(ReportError::NothingInCommon)));
}
