//! The rows as published, and the scores against the outputs of lmms-eval.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use paravt_suite::profile::Profile;
use paravt_suite::record::Outcome;
use paravt_suite::sample::{Gold, Question, Sample};
use paravt_suite::task::Task as _;
use paravt_task_video_holmes::VIDEO_HOLMES;
use serde_json::{Value, json};

#[test]
fn letters_are_those_of_lmms_eval_where_it_draws_none() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors.json");
    let all: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for case in all["parsed"].as_array().unwrap() {
        let options = case["options"].as_array().unwrap().iter();
        let options = options.map(|option| option.as_str().unwrap().to_owned()).collect();
        let letters = case["letters"].as_str().unwrap().to_owned();
        let question = Question { options, letters, ..Question::default() };
        let gold = Gold::Choice { answer: "b".into() };
        let sample = Sample::new("video_holmes", "1".into(), 0, "v.mp4".into(), question, gold);
        let score = VIDEO_HOLMES.scorer().unwrap().score_sample(&sample, case["text"].as_str().unwrap());
        assert_eq!(score.prediction.as_deref(), case["letter"].as_str(), "{case}");
        assert_eq!(score.outcome == Outcome::Unparsed, case["letter"].is_null());
        assert_eq!(score.value == 1.0, case["letter"] == "B");
    }
}

#[test]
fn a_row_is_named_by_its_video_and_its_question() {
    let row = json!({"video ID": "aB-_0", "Question ID": 7, "Question Type": "TCI", "Question": "Why?",
        "Options": {"A": "a", "B": "b", "C": "c", "D": "d", "E": "e", "F": "f"}, "Answer": "F", "Explanation": "x"});
    let row = row.as_object().unwrap();
    let sample = VIDEO_HOLMES.sample("rows".as_ref(), 0, row, Profile::Strict).unwrap().unwrap();
    assert_eq!((&*sample.uid, sample.video.to_str()), ("aB-_0.7", Some("aB-_0.mp4")));
    assert_eq!(
        (&*sample.question.letters, &*sample.tags["question_type"]),
        ("ABCDEF", &["TCI".to_owned()][..])
    );
}
