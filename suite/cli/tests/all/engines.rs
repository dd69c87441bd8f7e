//! In-process engines behind the commands: every split, with and without tools, and one question.

use std::path::Path;
use std::process::Command;

use crate::common::{SPLITS, bench, ends, ok, stable_records, text, tiny, world};
use paravt_suite::journal;
use paravt_suite::record::Outcome;
use serde_json::{Value, json};

fn run(model: &Path, out: &Path, extra: &[&str]) -> Command {
    let mut command = bench();
    command.args(["run", "all", "--backend", "candle", "--protocol", "native", "--limit", "2"]);
    command.args(["--max-tokens", "12", "--nframes", "4"]).arg("--model").arg(model);
    command.arg("--data").arg(world()).arg("--out").arg(out).args(extra);
    command
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn every_split_runs_in_process_with_and_without_tools() {
    let dir = tempfile::tempdir().unwrap();
    for script in ["tiny_qwen3vl.py", "tiny_qwen25vl.py"] {
        let model = tiny(script);
        for (name, extra) in [
            ("direct", &["--mode", "direct"][..]),
            ("frames", &["--max-turns", "2"]),
            ("subagents", &["--max-turns", "2", "--crop", "subagent"]),
            ("bf16", &["--mode", "direct", "--dtype", "bf16"]),
        ] {
            let out = dir.path().join(format!("{script}-{name}"));
            let output = ok(run(&model, &out, extra));
            // What is loaded, and what it takes, is said before the first answer; once for all splits.
            assert_eq!(text(&output).matches("candle: weights").count(), 1, "{}", text(&output));
            for split in SPLITS {
                let records = stable_records(&out.join(split));
                assert_eq!(records.len(), 2, "{name} {split}");
                assert!(
                    records.iter().all(|record| record.score.outcome != Outcome::Error),
                    "{name} {split}"
                );
                let memory = journal::read_manifest(&out.join(split)).unwrap().memory.unwrap();
                assert!(memory.planned > 0 && memory.peak > Some(0), "{name} {split}: {memory:?}");
            }
        }
    }
}

fn generate(dir: &Path, messages: &Value, extra: &[&str]) -> Command {
    let path = dir.join("messages.json");
    std::fs::write(&path, messages.to_string()).unwrap();
    let mut command = bench();
    command.args(["generate", "--backend", "candle", "--json", "--messages"]).arg(&path).args(extra);
    command
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn generate_gives_ids_and_log_probabilities_and_a_seed_repeats_itself() {
    let dir = tempfile::tempdir().unwrap();
    let model = tiny("tiny_qwen3vl.py");
    let messages = json!([{"role": "user", "content": "A or B?"}]);
    let model = ["--model", model.to_str().unwrap(), "--max-tokens", "9", "--logprobs"];
    let ask = |extra: &[&str]| -> Value {
        let output = ok(generate(dir.path(), &messages, &[&model, extra].concat()));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let greedy = ask(&[]);
    let ids = greedy["token_ids"].as_array().unwrap();
    assert_eq!(greedy["completion_tokens"], ids.len());
    assert_eq!(greedy["logprobs"].as_array().unwrap().len(), ids.len());
    assert!(greedy["logprobs"].as_array().unwrap().iter().all(|value| value.as_f64().unwrap() <= 0.0));
    assert_eq!(greedy["finish_reason"], if ids.len() == 9 { "length" } else { "stop" });
    // Beside what is planned before the model is loaded.
    let doctor = ok(bench().args(["doctor", "--json"]).args(&model[..2]));
    let doctor: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let plan = doctor["model_memory"].as_array().unwrap().iter();
    let plan: Vec<&Value> = plan.filter(|plan| plan["device"] == "cpu" && plan["dtype"] == "f32").collect();
    let bytes = |value: &Value| value.as_u64().unwrap();
    let fixed = bytes(&plan[0]["weights"]) + bytes(&plan[0]["activations"]);
    let planned = bytes(&greedy["memory"]["planned"]);
    assert!(fixed < planned && planned < bytes(&plan[0]["free"]), "{doctor} {greedy}");
    assert!(bytes(&greedy["memory"]["peak"]) > bytes(&plan[0]["weights"]), "{greedy}");
    ends(0, bench().arg("doctor").args(&model[..2]), &["model      cpu in bf16: weights "]);
    let sampled = ask(&["--temperature", "1.5", "--seed", "7"]);
    assert_eq!(sampled["token_ids"], ask(&["--temperature", "1.5", "--seed", "7"])["token_ids"]);
    assert_ne!(sampled["token_ids"], ask(&["--temperature", "1.5", "--seed", "8"])["token_ids"]);
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn unloadable_models_exit_with_3_and_bad_questions_with_2() {
    let dir = tempfile::tempdir().unwrap();
    let model = tiny("tiny_qwen3vl.py");
    let messages = json!([{"role": "user", "content": "A or B?"}]);
    let fails = |code: i32, messages: &Value, extra: &[&str], words: &str| {
        ends(code, generate(dir.path(), messages, extra), &[words]);
    };
    let path = model.to_str().unwrap();
    fails(3, &messages, &["--model", "/nowhere/model"], "neither a folder nor a model on the hub");
    fails(3, &messages, &["--model", path, "--device", "cuda"], "feature `cuda`");
    let stray = json!([{"role": "user", "content": "What is <|image_pad|>?"}]);
    fails(2, &stray, &["--model", path], "placeholder token");
    // More than the context holds.
    let long = json!([{"role": "user", "content": "word ".repeat(130_000)}]);
    fails(2, &long, &["--model", path], "context of 128000");
    let part = dir.path().join("part");
    std::fs::create_dir(&part).unwrap();
    for file in std::fs::read_dir(&model).unwrap().map(|file| file.unwrap()) {
        if file.file_name() != "model.safetensors" {
            std::fs::copy(file.path(), part.join(file.file_name())).unwrap();
        }
    }
    fails(3, &messages, &["--model", part.to_str().unwrap()], "model.safetensors");
}
