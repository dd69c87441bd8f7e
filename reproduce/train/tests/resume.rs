//! A run that is stopped and goes on ends as one that never stopped, bit for bit.
#![allow(clippy::unwrap_used)]

#[path = "common/runs.rs"]
mod runs;

use std::sync::Arc;

use paravt_nano::{Curriculum, Kind};
use paravt_suite::message::Message;
use paravt_train::Compute;
use paravt_train::data::Conversations;
use paravt_train::optimizer::AdamWConfig;
use paravt_train::sft::{self, SftConfig};
use runs::{fresh, log, weights};

/// Lessons with pictures, as many as there are.
struct Lessons(usize);

impl Conversations for Lessons {
    fn count(&self) -> Option<usize> {
        Some(self.0)
    }

    fn conversation(&self, number: usize) -> paravt_train::Result<Vec<Message>> {
        let kinds = [Kind::Name, Kind::Bind, Kind::List, Kind::Recall];
        Ok(Curriculum::new(number as u64).row(kinds[number % 4]).expect("a lesson").messages)
    }
}

fn config() -> SftConfig {
    SftConfig {
        optimizer: AdamWConfig { learning_rate: 1e-3, ..AdamWConfig::default() },
        steps: 8,
        pack_tokens: 300,
        packs_per_step: 2,
        save_every: 2,
        seed: 5,
        ..SftConfig::default()
    }
}

#[test]
fn supervised_training_that_stops_anywhere_ends_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let base = fresh(folder.path());
    let whole = folder.path().join("whole");
    sft::train(&base, &whole, Arc::new(Lessons(11)), &config(), &Compute::cpu(), |_| {}).unwrap();
    assert_eq!(log(&whole).len(), 8);
    for stop in [1, 5] {
        // Stopped in the middle of a step: what came after the last checkpoint is lost, and no more.
        let part = folder.path().join(format!("part{stop}"));
        let stopped = std::panic::catch_unwind(|| {
            sft::train(&base, &part, Arc::new(Lessons(11)), &config(), &Compute::cpu(), |step| {
                assert_ne!(step.step, stop)
            })
        });
        assert!(stopped.is_err() && !part.join("final").exists());
        let mut steps = Vec::new();
        sft::train(&base, &part, Arc::new(Lessons(11)), &config(), &Compute::cpu(), |step| {
            steps.push(step.step)
        })
        .unwrap();
        assert_eq!(steps[0], stop / 2 * 2 + 1, "goes on after the last checkpoint");
        assert_eq!(weights(&part.join("final")), weights(&whole.join("final")));
        assert_eq!(log(&part), log(&whole));
    }
    // Other settings are another run.
    let other = SftConfig { pack_tokens: 301, ..config() };
    let error =
        sft::train(&base, &whole, Arc::new(Lessons(11)), &other, &Compute::cpu(), |_| {}).unwrap_err();
    assert!(error.to_string().contains("pack_tokens was 300, is 301"), "{error}");
}

#[test]
fn rows_that_are_too_long_are_left_out_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let base = fresh(folder.path());
    let config = SftConfig { pack_tokens: 120, steps: 3, ..config() };
    let out = folder.path().join("out");
    sft::train(&base, &out, Arc::new(Lessons(8)), &config, &Compute::cpu(), |_| {}).unwrap();
    assert!(log(&out)[2]["over_long_rows"].as_f64().unwrap() > 0.0);
    let error = sft::train(
        &base,
        &folder.path().join("none"),
        Arc::new(Lessons(0)),
        &config,
        &Compute::cpu(),
        |_| {},
    );
    assert!(error.unwrap_err().to_string().contains("no row"));
    let tiny = SftConfig { pack_tokens: 2, ..config };
    let error =
        sft::train(&base, &folder.path().join("tiny"), Arc::new(Lessons(8)), &tiny, &Compute::cpu(), |_| {});
    assert!(error.unwrap_err().to_string().contains("no row fits into 2 tokens"));
}
