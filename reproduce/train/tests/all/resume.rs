//! A run that is stopped and resumed ends as one that was not, bit for bit.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::runs::{files, fresh, log};
use paravt_nano::{Curriculum, Skill};
use paravt_qwen_vl::ops::{Device, Precision};
use paravt_suite::message::{Message, Role};
use paravt_train::Compute;
use paravt_train::data::Conversations;
use paravt_train::optimizer::AdamWConfig;
use paravt_train::schedule::Schedule;
use paravt_train::sft::{self, SftConfig};

/// Lessons with pictures, as many as there are.
struct Lessons(usize);

impl Conversations for Lessons {
    fn count(&self) -> Option<usize> {
        Some(self.0)
    }

    fn conversation(&self, number: usize) -> paravt_train::Result<Vec<Message>> {
        let skills = [Skill::Name, Skill::Bind, Skill::List, Skill::Recall];
        Ok(Curriculum::new(number as u64).row(skills[number % 4]).expect("a lesson").messages)
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

/// Trains on the CPU.
fn train(
    base: &Path,
    out: &Path,
    rows: impl Conversations + 'static,
    config: &SftConfig,
) -> paravt_train::Result<()> {
    sft::train(base, out, Arc::new(rows), config, &Compute::cpu(), |_| {})
}

/// Stops a training in the middle of a step: what comes after the last checkpoint is lost.
fn interrupted(base: &Path, out: &Path, stop: usize) {
    let stopped = std::panic::catch_unwind(|| {
        sft::train(base, out, Arc::new(Lessons(11)), &config(), &Compute::cpu(), |step| {
            assert_ne!(step.step, stop)
        })
    });
    assert!(stopped.is_err() && !out.join("final").exists());
}

/// Trains to the end, or goes on to it; the steps that are taken.
fn finished(base: &Path, out: &Path) -> Vec<usize> {
    let mut steps = Vec::new();
    let on_step = |step: &sft::SftStep| steps.push(step.step);
    sft::train(base, out, Arc::new(Lessons(11)), &config(), &Compute::cpu(), on_step).unwrap();
    steps
}

#[test]
fn supervised_training_that_stops_anywhere_ends_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let base = fresh(folder.path());
    let whole = folder.path().join("whole");
    finished(&base, &whole);
    assert_eq!(log(&whole).len(), 8);
    // At 3 there is one checkpoint, which two later ones push out before the end.
    for stop in [1, 3, 5] {
        let part = folder.path().join(format!("part{stop}"));
        interrupted(&base, &part, stop);
        let steps = finished(&base, &part);
        assert_eq!(steps[0], stop / 2 * 2 + 1, "goes on after the last checkpoint");
        assert_eq!(files(&part.join("final")), files(&whole.join("final")));
        assert_eq!(log(&part), log(&whole));
    }
    // Other settings are another run.
    let other = SftConfig { pack_tokens: 301, ..config() };
    let error = train(&base, &whole, Lessons(11), &other).unwrap_err();
    assert!(error.to_string().contains("pack_tokens was 300, is 301"), "{error}");
}

#[test]
fn a_damaged_checkpoint_is_passed_over_for_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let base = fresh(folder.path());
    let whole = folder.path().join("whole");
    finished(&base, &whole);
    let cut = |path: PathBuf| {
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    };
    type Damage<'a> = &'a dyn Fn(&Path);
    let optimizer = |out: &Path| cut(out.join("step-000004/optimizer.safetensors"));
    let progress = |out: &Path| cut(out.join("step-000004/progress.json"));
    let log_lines = |out: &Path| {
        // Shorter than the newest checkpoint: its steps would be missing from the curves.
        let path = out.join("training.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.split_inclusive('\n').take(3).collect::<String>()).unwrap();
    };
    let flipped = |out: &Path| {
        let path = out.join("step-000004/model.safetensors");
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    };
    let both = |out: &Path| {
        optimizer(out);
        cut(out.join("step-000002/model.safetensors"));
    };
    let damages: [(Damage<'_>, usize); 5] =
        [(&optimizer, 3), (&progress, 3), (&log_lines, 3), (&flipped, 3), (&both, 1)];
    for (number, (damage, first)) in damages.into_iter().enumerate() {
        let out = folder.path().join(format!("damaged{number}"));
        interrupted(&base, &out, 5);
        damage(&out);
        assert_eq!(finished(&base, &out)[0], first, "damage {number}");
        assert_eq!(files(&out.join("final")), files(&whole.join("final")), "damage {number}");
        assert_eq!(log(&out), log(&whole));
    }
}

#[test]
fn a_checkpoint_of_another_precision_or_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (base, out) = (fresh(folder.path()), folder.path().join("out"));
    interrupted(&base, &out, 3);
    let compute = Compute::new(Device::Cpu, Precision::Bf16).unwrap();
    let error =
        sft::train(&base, &out, Arc::new(Lessons(11)), &config(), &compute, |_| {}).unwrap_err().to_string();
    assert!(error.contains("device and precision was cpu-f32, is cpu-bf16"), "{error}");
    let path = out.join("step-000002/progress.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"format\": 2,", "")).unwrap();
    let error = train(&base, &out, Lessons(11), &config()).unwrap_err().to_string();
    assert!(error.contains("format 1, this version writes 2"), "{error}");
}

#[test]
fn weights_that_are_not_numbers_are_never_saved() {
    let folder = tempfile::tempdir().unwrap();
    let base = fresh(folder.path());
    let optimizer = AdamWConfig { learning_rate: f64::MAX, max_grad_norm: 0.0, ..AdamWConfig::default() };
    let schedule = Schedule::Constant;
    for steps in [1, 4] {
        let out = folder.path().join(format!("{steps}"));
        let config = SftConfig { optimizer: optimizer.clone(), schedule, steps, ..config() };
        let error = train(&base, &out, Lessons(11), &config).unwrap_err().to_string();
        assert!(error.contains("lower the learning rate"), "{error}");
        assert!(!out.join("final").exists());
    }
}

/// Ten lessons and one that is far too long.
struct OneTooLong;

impl Conversations for OneTooLong {
    fn count(&self) -> Option<usize> {
        Some(11)
    }

    fn conversation(&self, number: usize) -> paravt_train::Result<Vec<Message>> {
        if number == 10 {
            let answer = Message::text(Role::Assistant, "one two three ".repeat(400));
            return Ok(vec![Message::text(Role::User, "Count."), answer]);
        }
        Lessons(10).conversation(number)
    }
}

#[test]
fn a_row_that_is_too_long_does_not_end_the_eleventh_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let base = fresh(folder.path());
    // One row a step: in some epoch the long one comes first.
    let config = SftConfig { pack_tokens: 300, packs_per_step: 1, steps: 130, save_every: 200, ..config() };
    let out = folder.path().join("out");
    train(&base, &out, OneTooLong, &config).unwrap();
    assert!(log(&out)[129]["over_long_rows"].as_f64().unwrap() >= 12.0);
}

#[test]
fn rows_that_are_too_long_are_left_out_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let base = fresh(folder.path());
    let config = SftConfig { pack_tokens: 120, steps: 3, ..config() };
    let out = folder.path().join("out");
    train(&base, &out, Lessons(8), &config).unwrap();
    assert!(log(&out)[2]["over_long_rows"].as_f64().unwrap() > 0.0);
    let error = train(&base, &folder.path().join("none"), Lessons(0), &config);
    assert!(error.unwrap_err().to_string().contains("no row"));
    let tiny = SftConfig { pack_tokens: 2, ..config };
    let error = train(&base, &folder.path().join("tiny"), Lessons(8), &tiny);
    assert!(error.unwrap_err().to_string().contains("no row fits into 2 tokens"));
}
