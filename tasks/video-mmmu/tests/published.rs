//! The rows as published, and the scores against the outputs of lmms-eval.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use paravt_suite::profile::Profile;
use paravt_suite::record::Outcome;
use paravt_suite::sample::{Gold, Sample};
use paravt_suite::task::Task as _;
use paravt_task_video_mmmu::{ADAPTATION, PERCEPTION};
use serde_json::{Value, json};

fn vectors(function: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors.json");
    let all: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    all[function].as_array().unwrap().clone()
}

#[test]
fn letters_are_those_of_lmms_eval() {
    for case in vectors("choice") {
        let letters = case["letters"].as_str().unwrap();
        let gold = Gold::Choice { answer: "A".into() };
        let score = PERCEPTION.scorer().unwrap().score(&gold, letters, case["text"].as_str().unwrap());
        assert_eq!(score.prediction.unwrap_or_default(), case["letter"].as_str().unwrap(), "{case}");
    }
}

#[test]
fn open_answers_are_right_where_lmms_eval_says_so() {
    for case in vectors("open") {
        let gold = Gold::Text { answer: case["gold"].as_str().unwrap().to_owned(), counted: true };
        let score = ADAPTATION.scorer().unwrap().score(&gold, "", case["text"].as_str().unwrap());
        assert_eq!(json!(score.value == 1.0), case["right"], "{case}");
        assert_eq!(json!(score.outcome == Outcome::Scored), case["parsed"], "{case}");
    }
}

fn sample(change: Value) -> Sample {
    let mut row = json!({"id": "validation_Art_Theory_12", "question": "Which <image 1>?", "answer": "B",
        "options": ["A. red", "B. A. blue"], "question_type": "multiple-choice", "qa_type": "Case Study Analysis"});
    row.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    ADAPTATION.sample("rows".as_ref(), 0, row.as_object().unwrap(), Profile::Strict).unwrap().unwrap()
}

#[test]
fn videos_lie_in_the_folder_of_their_domain() {
    let found = sample(json!({}));
    assert_eq!(found.video.to_str(), Some("Art/validation_Art_Theory_12.mp4"));
    assert_eq!(
        (&*found.tags["subject"], &*found.tags["domain"]),
        (&["Art_Theory".to_owned()][..], &["Art".to_owned()][..])
    );
    assert_eq!(found.question.options, ["red", "A. blue"]);
    assert!(found.question.stem.ends_with("\nWhich <image 1>?"), "{}", found.question.stem);
    let video = sample(json!({"id": "new_Computer_Science_3"})).video;
    assert_eq!(video.to_str(), Some("Engineering/new_Computer_Science_3.mp4"));
}

#[test]
fn a_split_has_choices_and_open_questions() {
    let open = sample(json!({"question_type": "open", "answer": "3.14", "options": []}));
    assert_eq!(
        (open.gold, &*open.question.letters),
        (Gold::Text { answer: "3.14".into(), counted: true }, "")
    );
    let bare = sample(json!({"options": ["red", "A. blue", "green"], "question_type": "None"}));
    assert_eq!(
        (bare.question.options, bare.gold),
        (["red", "A. blue", "green"].map(String::from).to_vec(), Gold::Choice { answer: "B".into() })
    );
}

#[test]
fn a_type_or_a_subject_that_is_not_listed_is_named() {
    let message = |column: &str, value: &str| {
        let mut row = json!({"id": "dev_Art_1", "question": "?", "answer": "A", "options": ["a", "b"],
            "question_type": "open", "qa_type": "x"});
        row[column] = value.into();
        let row = row.as_object().unwrap().clone();
        PERCEPTION.sample("rows".as_ref(), 0, &row, Profile::Paper).unwrap_err().to_string()
    };
    let found = message("question_type", "perception");
    assert!(found.contains("expected one of None, multiple-choice, open, found `perception`"), "{found}");
    let found = message("id", "dev_Alchemy_1");
    assert!(found.contains("column `subject`: `Alchemy` is in none of the groups of `domain`"), "{found}");
    assert!(message("id", "dev").contains("expected a text with `^[^_]+_(.+)_"));
}
