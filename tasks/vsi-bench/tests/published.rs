//! The scores of VSI-Bench against the outputs of its own code, and its headline.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use paravt_suite::profile::Profile;
use paravt_suite::sample::Gold;
use paravt_suite::scoring::number::mean_relative_accuracy;
use paravt_suite::task::Task as _;
use paravt_task_vsi_bench::VSI_BENCH;
use serde_json::{Value, json};

fn vectors(function: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("vectors.json")).unwrap();
    all[function].as_array().unwrap().clone()
}

#[test]
fn relative_accuracy_is_that_of_the_published_code() {
    let cases = vectors("vsi_mra");
    assert_eq!(cases.len(), 30);
    for case in cases {
        let (predicted, target) = (case["pred"].as_f64().unwrap(), case["target"].as_f64().unwrap());
        assert_eq!(json!(mean_relative_accuracy(predicted, target)), case["mra"], "{case}");
        let score =
            VSI_BENCH.scorer().unwrap().score(&Gold::Number { answer: target }, "", &predicted.to_string());
        assert_eq!(json!(score.value), case["mra"], "{case}");
    }
}

#[test]
fn the_compared_word_is_that_of_the_published_code() {
    for case in vectors("vsi_fuzzy") {
        let gold = Gold::Choice { answer: "A".into() };
        let score = VSI_BENCH.scorer().unwrap().score(&gold, "AB", case["text"].as_str().unwrap());
        assert_eq!(score.prediction.as_deref(), case["token"].as_str(), "{case}");
    }
}

/// The ten question types, and the eight tasks of the headline.
#[test]
fn the_headline_counts_the_three_directions_once() {
    let spec = VSI_BENCH.spec();
    let paravt_suite::task::Metric::Score { macro_over, merged } = &spec.metric else {
        panic!("{:?}", spec.metric)
    };
    assert_eq!(macro_over.as_deref(), Some("question_type"));
    let types = &spec.breakdowns[0].order;
    let directions: &BTreeMap<String, Vec<String>> = merged;
    let inside = &directions["object_rel_direction"];
    assert!(inside.iter().all(|direction| types.contains(direction)));
    assert_eq!((types.len(), types.len() - inside.len() + directions.len()), (10, 8));
    let row = json!({"id": 1, "dataset": "arkitscenes", "scene_name": "41069021", "question": "How many chairs?",
        "question_type": "object_counting", "ground_truth": "4", "options": null});
    let sample =
        VSI_BENCH.sample("rows".as_ref(), 0, row.as_object().unwrap(), Profile::Paper).unwrap().unwrap();
    assert!(types.contains(&sample.tags["question_type"][0]));
}
