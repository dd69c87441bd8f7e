//! The rows as published, letters and group scores against the outputs of lmms-eval.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use paravt_suite::fixtures::record;
use paravt_suite::profile::Profile;
use paravt_suite::record::Record;
use paravt_suite::run::{Selection, Sizes};
use paravt_suite::sample::{Gold, Sample};
use paravt_suite::summary::{Summary, group_sizes, summarize};
use paravt_suite::task::Task as _;
use paravt_task_videomme_v2::VIDEO_MME_V2;
use serde_json::{Value, json};

fn vectors(function: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors.json");
    let all: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    all[function].as_array().unwrap().clone()
}

#[test]
fn letters_are_those_of_lmms_eval() {
    for case in vectors("letters") {
        let gold = Gold::Choice { answer: "A".into() };
        let score = VIDEO_MME_V2.scorer().unwrap().score(&gold, "ABCDEFGH", case["text"].as_str().unwrap());
        assert_eq!(score.prediction.unwrap_or_default(), case["letter"].as_str().unwrap(), "{case}");
    }
}

fn row(id: &str) -> Value {
    json!({"video_id": id.split('-').next(), "question_id": id, "question": "Which?",
        "options": "A. one\nB. two\n  lines\nC. 3\nD. 4\nE. 5\nF. 6\nG. 7\nH. 8", "answer": "H",
        "group_type": "logic", "group_structure": "[1, [2, 3], 4]", "level": 2, "second_head": "x", "third_head": null})
}

fn sample(row: &Value) -> Sample {
    VIDEO_MME_V2.sample("rows".as_ref(), 0, row.as_object().unwrap(), Profile::Strict).unwrap().unwrap()
}

#[test]
fn a_row_has_eight_options_in_one_text_and_a_place_in_its_group() {
    let found = sample(&row("001-3"));
    assert_eq!((&*found.question.letters, &*found.question.options[1]), ("ABCDEFGH", "two\n  lines"));
    assert_eq!(
        (&*found.uid, &*found.tags["place"], &*found.tags["level"]),
        ("001-3", &["3".to_owned()][..], &["2".to_owned()][..])
    );
    assert!(!found.tags.contains_key("third_head"), "no label");
    for (column, value, message) in [
        ("group_type", json!("both"), "column `group_type`: expected `relevance` or `logic`, found `both`"),
        ("group_structure", json!("[1]"), "column `group_structure`: expected `[1, 2, 3, 4]`"),
        ("group_structure", Value::Null, "found ``"),
        ("group_type", Value::Null, "column `group_type`: missing"),
        ("question_id", json!("001"), "expected a text with `-("),
    ] {
        let mut other = row("001-3");
        other[column] = value;
        let error = VIDEO_MME_V2.sample("rows".as_ref(), 0, other.as_object().unwrap(), Profile::Strict);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

fn summary(records: &[Record], missing: usize, profile: Profile) -> Summary {
    let samples: Vec<Sample> = records.iter().map(|record| record.sample.clone()).collect();
    let (kept, spec) = (&records[missing..], VIDEO_MME_V2.spec());
    let sizes = Sizes { expected: samples.len(), groups: group_sizes(spec, &samples), ..Sizes::default() };
    let selection =
        Selection { split_rows: samples.len(), sizes, limit: None, ids: None, shard: None, whole: None };
    summarize(spec, &profile.switches(), &selection, kept).unwrap()
}

fn scored(row: &Value, value: f64) -> Record {
    let base = record(row["question_id"].as_str().unwrap(), value);
    Record { sample: sample(row), ..base }
}

#[test]
fn group_scores_are_those_of_lmms_eval() {
    for run in vectors("runs") {
        let records: Vec<Record> = run["order"]
            .as_array()
            .unwrap()
            .iter()
            .map(|id| {
                let (group, place) = id.as_str().unwrap().split_once('-').unwrap();
                let place: usize = place.parse::<usize>().unwrap() - 1;
                let of = &run["groups"][group.parse::<usize>().unwrap()];
                let mut row = row(id.as_str().unwrap());
                for (column, value) in
                    [("group_type", &of[0]), ("group_structure", &of[1]), ("level", &of[2][place])]
                {
                    row[column] = value.clone();
                }
                scored(&row, of[3][place].as_f64().unwrap())
            })
            .collect();
        let summary = summary(&records, 0, Profile::Strict);
        let found = |name: &str| {
            let metric = summary.metrics.iter().find(|metric| metric.name == name);
            metric.map_or(0.0, |metric| 100.0 * metric.value)
        };
        let expected = |name: &str| run["expected"][name].as_f64().unwrap();
        for (ours, theirs) in [
            ("group score", "overall_score"),
            ("group score, group_type relevance", "relevance_score"),
            ("group score, group_type logic", "logic_score"),
            ("group score, level 1", "level_1_score"),
            ("group score, level 2", "level_2_score"),
            ("group score, level 3", "level_3_score"),
            ("accuracy", "overall_acc"),
        ] {
            assert!(
                (found(ours) - expected(theirs)).abs() < 1e-9,
                "{ours}: {} {}",
                found(ours),
                expected(theirs)
            );
        }
        for (tag, label, theirs) in [
            ("group_type", "relevance", "relevance_acc"),
            ("group_type", "logic", "logic_acc"),
            ("level", "1", "level_1_acc"),
            ("level", "3", "level_3_acc"),
        ] {
            let breakdown = summary.breakdowns.iter().find(|breakdown| breakdown.tag == tag).unwrap();
            let group = breakdown.groups.iter().find(|group| group.label == label);
            let value = group.map_or(0.0, |group| 100.0 * group.value);
            assert!((value - expected(theirs)).abs() < 1e-9, "{theirs}");
        }
        assert_eq!(summary.headline().n, run["groups"].as_array().unwrap().len());
    }
}

#[test]
fn a_group_that_is_not_selected_whole_has_no_score_and_a_missing_answer_is_wrong() {
    let all: Vec<Record> =
        ["001-1", "001-2", "001-3", "001-4", "002-1", "002-2"].map(|id| scored(&row(id), 1.0)).into();
    let whole = summary(&all, 0, Profile::Strict);
    assert_eq!((whole.headline().value, whole.headline().n, whole.over_samples().n), (1.0, 1, 6));
    assert!(whole.is_over_groups());
    let missing = summary(&all, 1, Profile::Strict);
    assert_eq!(
        (missing.headline().value, missing.headline().n),
        (0.0, 1),
        "the chain begins with the missing one"
    );
    assert_eq!(summary(&all, 4, Profile::Strict).headline().value, 0.0, "no record of the whole group");
    assert_eq!(
        summary(&all, 4, Profile::Paper).headline().name,
        "accuracy",
        "groups without records do not count"
    );
    let part = summary(&all[4..], 0, Profile::Strict);
    assert_eq!((part.metrics.len(), &*part.headline().name), (1, "accuracy"));
}
