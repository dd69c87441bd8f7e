//! Our configuration as the release reads it. Needs a checkout of the release and an environment for it, which
//! `ci/target8/train` makes.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use paravt_engines::{Paths, entry, rl};
use serde_json::{Value, json};

fn given(name: &str) -> PathBuf {
    std::env::var_os(name).unwrap_or_else(|| panic!("{name} is set by ci/target8/train")).into()
}

fn paths() -> Paths {
    let (world, environment) = (given("PARAVT_TARGET8_WORLD"), given("PARAVT_TARGET8_ENVIRONMENT"));
    Paths {
        checkout: given("PARAVT_TARGET8_CHECKOUT"),
        engines: given("PARAVT_TARGET8_CHECKOUT").join("paravt/rl"),
        sft_environment: environment.clone(),
        rl_environment: environment,
        base: world.join("model"),
        sft_rows: world.join("rows-here"),
        rl_rows: world.join("rows-here/paravt_rl_diverse_4k4.parquet"),
    }
}

/// Variables with which the release runs on a CPU.
fn on_cpu() -> BTreeMap<String, String> {
    let shim = ci().join("shim").display().to_string();
    [("PYTHONPATH".to_owned(), shim), ("PARAVT_ON_CPU".to_owned(), "1".to_owned())].into()
}

fn ci() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../ci/target8").canonicalize().unwrap()
}

#[test]
#[ignore = "needs the release: run by ci/target8/train"]
fn areal_reads_our_configuration_and_the_entry_file_reaches_the_trainer() {
    let root = tempfile::tempdir().unwrap();
    let work = root.path().join("scratch");
    std::fs::create_dir(&work).unwrap();
    let job = rl::Job {
        environment: on_cpu(),
        paths: paths(),
        model: given("PARAVT_TARGET8_WORLD").join("model"),
        ..rl::Job::default()
    };
    let (config, script) = (work.join("config.yaml"), work.join("rl_entry.py"));
    assert!(job.configure(root.path(), None, 0, &|| false).unwrap());
    std::fs::write(&script, entry::RL).unwrap();
    let mut python = Command::new(given("PARAVT_TARGET8_ENVIRONMENT").join("bin/python"));
    python.arg(ci().join("check_rl.py")).arg(&script).arg(&config).envs(job.environment(root.path()));
    let output = python.env("PARAVT_STEPS", work.join("steps.jsonl")).current_dir(&work).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let seen = text.lines().find_map(|line| line.strip_prefix("SEEN "));
    let seen = seen.unwrap_or_else(|| panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr)));
    let seen: Value = serde_json::from_str(seen).unwrap();
    let model = job.model.display().to_string();
    for (field, wanted) in [
        ("/config/total_train_steps", json!(55)),
        ("/config/allocation_mode", json!("sglang:d1p1t1+d7p1t1")),
        ("/config/actor/path", json!(model)),
        ("/config/ref/path", json!(model)),
        ("/config/actor/optimizer/lr", json!(2e-6)),
        ("/config/actor/optimizer/eps", json!(1e-8)),
        ("/config/actor/weight_update_mode", json!("xccl")),
        ("/config/actor/reward_norm/group_size", json!(8)),
        ("/config/ref/optimizer", Value::Null),
        ("/config/gconfig/max_new_tokens", json!(2048)),
        ("/config/gconfig/max_tokens", json!(65536)),
        ("/config/rollout/consumer_batch_size", json!(7)),
        ("/config/rollout/setup_timeout", json!(300.0)),
        ("/config/sglang/context_length", json!(32768)),
        ("/config/recover/freq_steps", json!(5)),
        ("/config/recover/retries", json!(3)),
        ("/config/stats_logger/wandb/mode", json!("disabled")),
        ("/config/perf_tracer/session_tracer/enabled", json!(true)),
        ("/agent/max_turns", json!(3)),
        ("/agent/fps", json!(1)),
        ("/rows", json!(48)),
        (
            "/environment",
            json!({"THINK_PREFIX": "1", "ANSWER_SUFFIX": "1", "NFRAMES_GATING": "1", "ANCHOR_WEIGHT": "0.5",
                "REWARD_MODE": "f1", "FORMAT_WEIGHT": "1.0"}),
        ),
    ] {
        assert_eq!(seen.pointer(field), Some(&wanted), "{field}: {seen:#}");
    }
    let lines = std::fs::read_to_string(work.join("steps.jsonl")).unwrap();
    let line: Value = serde_json::from_str(&lines).unwrap();
    assert_eq!((&line["step"], &line["ppo_actor/task_reward/avg"]), (&json!(0), &json!(0.25)));
    assert_eq!(line["reward_breakdown/format_reward"], "nan");
    // What the release's own two files amount to.
    let released = released(&job, root.path());
    for section in ["actor", "rollout", "gconfig", "hierarchical_agent", "sglang", "train_dataset", "ref"] {
        assert_eq!(seen["config"][section], released["config"][section], "{section}");
    }
}

/// What the trainer of the release is given by the release's own configuration.
fn released(job: &rl::Job, root: &Path) -> Value {
    let config = given("PARAVT_TARGET8_CHECKOUT").join("paravt/rl/configs/paragrpo_8b.yaml");
    // The names of experiment and trial are those of our file.
    let mut python = Command::new(given("PARAVT_TARGET8_ENVIRONMENT").join("bin/python"));
    python
        .arg(ci().join("check_rl.py"))
        .arg(root.join("scratch/rl_entry.py"))
        .arg(config)
        .arg("trial_name=run");
    python.envs(job.environment(root)).env("PARAVT_STEPS", root.join("scratch/released.jsonl"));
    let output = python.current_dir(root.join("scratch")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let seen = text.lines().find_map(|line| line.strip_prefix("SEEN "));
    serde_json::from_str(seen.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr))))
        .unwrap()
}
