//! Replies with the reading that a person gives them, against the rules of profile `strict`.
//!
//! Half of the lines in `replies/` are traps. Each was read a second time by a judge who saw no reading, and lines that the
//! two read differently were left out. `held_out*.jsonl` and `free_form.jsonl` were written after the rules; what the
//! first run over them found is in `docs/answers.md`.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;

use paravt_suite::fixtures::TAGS;
use paravt_suite::sample::{Gold, Question, Sample};
use paravt_suite::scoring::strict::{interval, number, text};
use paravt_suite::scoring::{Scorer as _, Strict};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Line {
    kind: String,
    #[serde(default)]
    options: Vec<String>,
    reply: String,
    reading: Value,
    form: String,
}

/// What the rules read, in the form of the file.
fn read(line: &Line) -> Value {
    match line.kind.as_str() {
        "interval" => {
            interval(&line.reply, &TAGS).map_or(Value::Null, |(span, _)| json!([span.start, span.end]))
        }
        "number" => number(&line.reply, &TAGS).map_or(Value::Null, |(value, _)| json!(value)),
        "text" => text(&line.reply, &TAGS).map_or(Value::Null, |(words, _)| json!(words)),
        "choice" => {
            let letters: String = ('A'..='Z').take(line.options.len()).collect();
            let question = Question { options: line.options.clone(), letters, ..Question::default() };
            let gold = Gold::Choice { answer: "A".to_owned() };
            let sample = Sample::new("corpus", "1".to_owned(), 0, "v.mp4".into(), question, gold);
            Strict { tags: &TAGS }
                .score_sample(&sample, &line.reply)
                .prediction
                .map_or(Value::Null, Value::String)
        }
        other => panic!("unknown kind {other}"),
    }
}

fn is_same(ours: &Value, reading: &Value) -> bool {
    match (ours, reading) {
        (Value::Array(ours), Value::Array(reading)) => {
            ours.iter().zip(reading).all(|(one, other)| is_same(one, other))
        }
        (Value::Number(ours), Value::Number(reading)) => {
            (ours.as_f64().unwrap() - reading.as_f64().unwrap()).abs() < 0.05
        }
        (Value::String(ours), Value::String(reading)) => {
            let plain = |text: &str| text.trim_matches(['.', ' ', '"', '。']).to_lowercase();
            plain(ours) == plain(reading)
        }
        (ours, reading) => ours == reading,
    }
}

#[test]
fn replies_are_read_as_a_person_reads_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replies");
    // Answers that there are, that were found; readings that are wrong or that nobody gives.
    let mut counts: BTreeMap<String, (usize, usize, Vec<String>)> = BTreeMap::new();
    let mut lines = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        for (place, line) in std::fs::read_to_string(&path).unwrap().lines().enumerate() {
            let line: Line = serde_json::from_str(line).unwrap();
            let ours = read(&line);
            let (there, found, wrong) = counts.entry(line.kind.clone()).or_default();
            lines += 1;
            *there += usize::from(!line.reading.is_null());
            match is_same(&ours, &line.reading) {
                true => *found += usize::from(!ours.is_null()),
                false if ours.is_null() => {}
                false => wrong.push(format!(
                    "{}:{} ({}): {ours}, read as {}",
                    path.file_name().unwrap().to_string_lossy(),
                    place + 1,
                    line.form,
                    line.reading
                )),
            }
        }
    }
    assert!(lines >= 1_600, "{lines} replies");
    for (kind, (there, found, wrong)) in &counts {
        println!("{kind}: {found} of {there} found, {} wrong", wrong.len());
        // An open answer without a phrase in front is the whole reply, which no rule can tell from none.
        if kind != "text" {
            assert!(wrong.is_empty(), "{kind}: {wrong:#?}");
            assert!(*found as f64 >= 0.98 * *there as f64, "{kind}: {found} of {there}");
        }
    }
}
