//! What the releases' own readers make of the replies that the suite's rules are held to (`suite/tests/replies`).
#![allow(clippy::unwrap_used)]

use std::path::Path;

use paravt_suite::reference::Reference;
use paravt_suite::sample::{Gold, Question, Sample};
use paravt_upstream::{agents, paravt};
use serde_json::Value;

/// Of the choice replies: answers that there are, found ones, other letters taken for them, and letters taken where a
/// person finds none.
fn counts(reference: &Reference) -> (usize, usize, usize, usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/replies");
    let (mut there, mut found, mut other, mut invented) = (0, 0, 0, 0);
    for file in std::fs::read_dir(folder).unwrap() {
        for line in std::fs::read_to_string(file.unwrap().path()).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            if line["kind"] != "choice" {
                continue;
            }
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let options: Vec<String> = line["options"].as_array().unwrap().iter().map(text).collect();
            let letters: String = ('A'..='Z').take(options.len()).collect();
            let question = Question { options, letters, ..Question::default() };
            let gold = Gold::Choice { answer: "?".to_owned() };
            let sample = Sample::new("corpus", "1".to_owned(), 0, "v.mp4".into(), question, gold);
            let taken = reference
                .scorer
                .score_sample(&sample, line["reply"].as_str().unwrap())
                .prediction
                .filter(|taken| taken.len() == 1);
            let reading = line["reading"].as_str();
            there += usize::from(reading.is_some());
            match (reading, taken.as_deref()) {
                (Some(reading), Some(taken)) if reading == taken => found += 1,
                (Some(_), Some(_)) => other += 1,
                (None, Some(_)) => invented += 1,
                (_, None) => {}
            }
        }
    }
    (there, found, other, invented)
}

#[test]
fn the_releases_take_other_letters_than_a_person() {
    let all = [("ParaVT", counts(&paravt::REFERENCE)), ("PyVision-RL", counts(&agents::pyvision::REFERENCE))];
    println!("{all:?}");
    for (name, (there, found, other, invented)) in all {
        assert!(there > 400 && found <= there, "{name}");
        assert!(other + invented > 0, "{name}: `quirks.md` says that it takes letters that are none");
    }
}
