//! What the releases' own readers make of the replies that the suite's rules are held to (`suite/tests/replies`).
#![allow(clippy::unwrap_used)]

use std::path::Path;

use paravt_suite::agent::Reference;
use paravt_suite::sample::{Gold, Question, Sample};
use paravt_upstream::{paravt, pyvision};
use serde_json::Value;

/// What a reader makes of the choice replies.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    answers: usize,
    /// Of these, read as a person reads them, and read as another letter.
    right: usize,
    other: usize,
    /// Replies without one, and those in which a letter was found.
    none: usize,
    invented: usize,
}

/// The letters that a reader accepts are those that it scores as right where they are the gold.
fn count(reference: &Reference, form: fn(&str) -> String) -> Counts {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/replies");
    let mut counts = Counts::default();
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    // The others were made of what our own rules lost.
    for file in
        files.filter(|file| !file.ends_with("attack.jsonl") && !file.ends_with("joints_and_units.jsonl"))
    {
        for line in std::fs::read_to_string(file).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            if line["kind"] != "choice" {
                continue;
            }
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let options: Vec<String> = line["options"].as_array().unwrap().iter().map(text).collect();
            let letters: String = ('A'..='Z').take(options.len()).collect();
            let question = Question { options, letters: letters.clone(), ..Question::default() };
            let accepts = |letter: &char| {
                let gold = Gold::Choice { answer: letter.to_string() };
                let sample = Sample::new("corpus", "1".to_owned(), 0, "v.mp4".into(), question.clone(), gold);
                reference.scorer.score_sample(&sample, &form(line["reply"].as_str().unwrap())).value > 0.0
            };
            let taken: Vec<char> = letters.chars().filter(accepts).collect();
            match line["reading"].as_str().and_then(|reading| reading.chars().next()) {
                Some(reading) => {
                    counts.answers += 1;
                    counts.right += usize::from(taken.contains(&reading));
                    counts.other += usize::from(!taken.is_empty() && !taken.contains(&reading));
                }
                None => {
                    counts.none += 1;
                    counts.invented += usize::from(!taken.is_empty());
                }
            }
        }
    }
    counts
}

/// The sizes stand in `quirks.md`, under `extraction`.
#[test]
fn the_releases_take_other_letters_than_a_person() {
    let counts = |right, other, invented| Counts { answers: 824, right, other, none: 295, invented };
    assert_eq!(count(&paravt::REFERENCE, str::to_owned), counts(410, 158, 184));
    // PyVision-RL's verifier reads its own form alone, of which there is none among the replies; of a reply within that
    // form it takes the first capital letter.
    assert_eq!(count(&pyvision::REFERENCE, str::to_owned), counts(0, 0, 0));
    let boxed = |reply: &str| format!("<answer>\n\\boxed{{{reply}}}\n</answer>");
    assert_eq!(count(&pyvision::REFERENCE, boxed), counts(205, 118, 92));
}
