//! The rows as published, and the scores against the outputs of lmms-eval.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use paravt_suite::profile::Profile;
use paravt_suite::sample::Gold;
use paravt_suite::span::TimeSpan;
use paravt_suite::task::Task as _;
use paravt_task_lsdbench::LSDBENCH;
use serde_json::{Value, json};

#[test]
fn letters_are_those_of_lmms_eval() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors.json");
    let all: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for case in all["letters"].as_array().unwrap() {
        let gold = Gold::Choice { answer: "A".into() };
        let score = LSDBENCH.scorer().unwrap().score(&gold, "ABCD", case["text"].as_str().unwrap());
        assert_eq!(score.prediction.unwrap_or_default(), case["letter"].as_str().unwrap(), "{case}");
        assert_eq!(score.value == 1.0, case["letter"] == "A");
    }
}

#[test]
fn a_row_has_its_options_by_letter_and_the_minutes_of_the_answer() {
    let row = json!({"question": "What first?", "options": {"B": "A. x", "A": "cut", "C": "c", "D": "d"},
        "correct_answer": "C", "time_range": {"start": "00:49:00", "end": "00:52:00"}, "video_id": "6fd9",
        "original_question": "q", "original_answer": "a", "segment": "s"});
    let sample = |row: &Value| {
        LSDBENCH.sample("rows".as_ref(), 3, row.as_object().unwrap(), Profile::Strict).map(Option::unwrap)
    };
    let found = sample(&row).unwrap();
    assert_eq!(
        (&*found.question.options, &*found.question.letters),
        (&["cut", "A. x", "c", "d"].map(String::from)[..], "ABCD")
    );
    assert_eq!(found.evidence, Some(TimeSpan::new(2940.0, 3120.0)));
    assert_eq!(
        (&*found.uid, found.video.to_str(), &found.gold),
        ("3", Some("6fd9.mp4"), &Gold::Choice { answer: "C".into() })
    );
    let mut other = row.clone();
    other["options"] = json!({"A": "x", "C": "y"});
    let message = sample(&other).unwrap_err().to_string();
    assert!(message.contains("column `options`: expected an object of texts by letter, AB"), "{message}");
    other["time_range"] = json!("00:49:00");
    let message = sample(&other).unwrap_err().to_string();
    assert!(message.contains("column `time_range`: expected an object with `start`"), "{message}");
}
